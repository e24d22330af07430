package transcript

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/store"
)

// A Key names a session.
type Key = store.Key

// The conditions of a transcript. The package comment says what each means.
var (
	ErrTaken   = store.Verdict("transcript: numbers are taken")
	ErrInvalid = store.ErrInvalid
	ErrSchema  = store.ErrSchema
	ErrDamaged = store.ErrDamaged
	ErrRefused = store.ErrRefused
)

// A DamagedError is the ErrDamaged of one entry. ID has the numbers of its messages.
type DamagedError = store.DamagedError

// A Store keeps transcripts. It has no optional methods, and all may be called concurrently.
type Store interface {
	// Append adds an entry behind all that the transcript has, in one step, durable on return. If the session has an
	// entry with this id, nothing changes, and Append returns the span of that entry. What it returns then is as
	// durable as the entry. A number is given once, also if its message was trimmed. Bytes of a text that are no UTF-8
	// come back as U+FFFD, as in all JSON.
	Append(ctx context.Context, k Key, id string, msgs []message.Message) (Span, error)

	// Read yields the messages of spans: span by span, and in the order of their numbers. It holds no connection,
	// transaction or lock while it yields.
	//
	// If an entry is damaged, or messages of a span are not there, a *DamagedError comes in their place, and Read goes
	// on. Any other error ends it. A block of a kind that this version does not know is no error: it is kept as it is.
	Read(ctx context.Context, k Key, spans []Span) iter.Seq2[message.Message, error]

	// Copy gives the entries of spans to another session, in one step, durable on return. They keep their numbers, so
	// that the spans are valid there, and lose their ids. Of an entry that spans name in part, all is copied. What the
	// session has already is no error, so that a repeat changes nothing. If it has something else at one of the
	// numbers, Copy returns ErrTaken. What the source does not have is not copied. The time of an entry is that of the
	// copy. Copy to a new session: in one whose entries were trimmed, numbers may be given a second time.
	Copy(ctx context.Context, from, to Key, spans []Span) error

	// Trim deletes the entries that were appended before a time and are in none of the spans, durable on return. It
	// returns how many messages they had. An entry of which a span names one message stays, and so does the newest one,
	// whose number the next entry follows. Without spans and time, Trim deletes all, and numbers begin again.
	Trim(ctx context.Context, k Key, spans []Span, before time.Time) (deleted int, err error)
}

// A Raiser is a store that may have lost its newest entries, after a failover or because a backup was restored. States
// in another database may name them. All stores of the module are Raisers.
type Raiser interface {
	// Raise makes numbers go on behind all that the store can have given, in each session, also in those that it does
	// not know any more: from the time on, in µs. So Read tells that what is lost is missing, and never yields another
	// message in its place. Call it before traffic is let in. It may be repeated, and must be after an error.
	Raise(ctx context.Context) error
}
