package stream

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Key names a session.
type Key = store.Key

// A Chunk is one thing to show. A caller owns the chunks that it gets.
type Chunk struct {
	// Seq is the number of the chunk in its session, over all its runs. It grows by one.
	Seq int64

	// Run is the id of the run that shows the chunk.
	Run string

	// Data is a JSON value. It comes back equal as a JSON value, not as bytes.
	Data json.RawMessage
}

// A Status says whether more may come.
type Status string

// The statuses.
const (
	// Active says that more may come: a turn is at work, or is in flight and waits for its next owner.
	Active Status = "active"

	// Paused says that the turn waits for an answer.
	Paused Status = "paused"

	// Ended says that the turn is settled. A session that has shown nothing is Ended too.
	Ended Status = "ended"

	// Failed says that the turn has failed, or was abandoned.
	Failed Status = "failed"
)

// Known reports whether a store takes s.
func (s Status) Known() bool { return s == Active || s.Over() }

// Over reports whether nothing more comes until a turn begins, or goes on.
func (s Status) Over() bool { return s == Paused || s == Ended || s == Failed }

// Newest makes Read begin at the first chunk of the newest run.
const Newest = -1

// The defaults of how long a store keeps chunks.
const (
	// DefaultKeep is how many chunks of a session a store keeps at least. MaxKeep is the most that it can be told to.
	DefaultKeep = 4096
	MaxKeep     = 1 << 29

	// DefaultTTL is how long a store keeps the chunks of a session after its last Append.
	DefaultTTL = time.Hour
)

// The conditions of a stream. The package comment says what each means.
var (
	ErrGone    = store.Verdict("stream: chunks no longer kept")
	ErrInvalid = store.ErrInvalid
	ErrSchema  = store.ErrSchema
	ErrDamaged = store.ErrDamaged
	ErrRefused = store.ErrRefused
)

// A Store keeps chunks for a while. Its methods may be called concurrently.
//
// A store keeps the newest 4,096 chunks of a session, or as many as its options say, and may keep up to twice as many.
// It forgets a session whose last Append is older than an hour, or than its options say, with the number of its last
// chunk.
type Store interface {
	// Append adds chunks of a run and sets the status of the session, all in one step. It returns the number of the
	// last chunk of the session. Without data it only sets the status.
	//
	// epoch is that of the owner's fence. If the store has seen a higher one for the session, Append changes nothing,
	// and this is no error.
	Append(
		ctx context.Context, k Key, run string, epoch int64, s Status, data []json.RawMessage,
	) (last int64, err error)

	// Read yields the chunks after seq, in order, each once, and goes on as they come. It ends without an error after
	// the last chunk of a session whose status is over, or with the cause of ctx. With Newest it begins at the first
	// kept chunk of the newest run.
	//
	// If the chunk after seq is no longer kept, or if seq is above the last number, Read yields ErrGone and ends. While
	// chunks come, a reader that is slow may fall behind what is kept, and gets ErrGone then. Read holds no lock,
	// connection or transaction while it yields. A slow reader slows no other.
	Read(ctx context.Context, k Key, seq int64) iter.Seq2[Chunk, error]

	// Last returns the number of the newest chunk, which is 0 if there is none, and the run and the status of the last
	// Append. A session that is not known has no run, and is Ended.
	Last(ctx context.Context, k Key) (seq int64, run string, s Status, err error)

	// Starts returns the number of the first kept chunk of each run of the session. It has no run without a kept chunk.
	Starts(ctx context.Context, k Key) (map[string]int64, error)

	// Delete forgets the session. Its readers get ErrGone, or end. None goes on if the session begins anew. A later
	// Read cannot tell that its number is of the former session. A session that is not known is no error.
	Delete(ctx context.Context, k Key) error
}

// A Sweeper forgets sessions whose last Append is too long ago. A Store that has no Sweep forgets by itself.
type Sweeper = store.Sweeper
