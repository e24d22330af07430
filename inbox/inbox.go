package inbox

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Key names a session.
type Key = store.Key

// A Kind says what an item is for.
type Kind string

// The kinds.
const (
	// Answer is an answer to a question. Item.ID is the id of the question.
	Answer Kind = "answer"

	// Stop is the wish that a run stop. Item.ID is the id of the run.
	Stop Kind = "stop"

	// Message is what a user says to a turn in flight. Item.ID is the id of the request.
	Message Kind = "message"

	// Input is an input that waits for its turn. Item.ID is its request id.
	Input Kind = "input"

	// Failed is an input that has waited, and whose turn has failed. Item.ID is its request id.
	Failed Kind = "failed"
)

var kinds = [...]Kind{Answer, Stop, Message, Input, Failed}

// Kinds returns all kinds.
func Kinds() []Kind { return slices.Clone(kinds[:]) }

// Known reports whether a store takes k.
func (k Kind) Known() bool { return slices.Contains(kinds[:], k) }

// An Item is there until it is removed, and never changes.
type Item struct {
	Key
	Kind Kind

	// ID says what the item is about. A session has one item of each kind and id.
	ID string

	// By says who leaves the item. The same By may post an item again.
	By string

	// Shown is the Sum of what was shown to the person who answers; "" if the answer does not depend on it.
	Shown string

	// Data is the answer, a JSON value. nil is null. It comes back equal as a JSON value, not as bytes.
	Data json.RawMessage

	// At is when the item was posted, by the clock of the store, in UTC. Post ignores it.
	At time.Time
}

// The conditions of an inbox. The package comment says what each means.
var (
	ErrNotFound = store.Verdict("inbox: not found")
	ErrInvalid  = store.ErrInvalid
	ErrSchema   = store.ErrSchema
	ErrDamaged  = store.ErrDamaged
	ErrRefused  = store.ErrRefused
)

// A DamagedError is the ErrDamaged of one item. What is its kind.
type DamagedError = store.DamagedError

// A Store keeps items. It has no optional methods, and all may be called concurrently.
type Store interface {
	// Post leaves an item, durable on return. If the session has an item of this kind and id, nothing changes, and
	// first says whether that item has the By of it. So first is true for one By at most, and again if the call is
	// repeated. What Post reports is as durable as the item.
	Post(ctx context.Context, it Item) (first bool, err error)

	// Items yields the items of a kind, oldest first, and items of one time by id in byte order. If k.Session is "", it
	// yields those of all sessions of the orchestrator, by session in byte order. Its cost grows with what it yields,
	// not with the history.
	//
	// Items holds no connection, transaction or lock while it yields, so that the loop may call the store. If an item
	// is damaged, it comes with a *DamagedError and as much as can be read. Then Items goes on. Any other error ends
	// it. An item that comes or goes during the loop is yielded or not.
	Items(ctx context.Context, k Key, kind Kind) iter.Seq2[Item, error]

	// Item returns one item, or ErrNotFound. If the item is damaged, it comes with a *DamagedError and as much as can
	// be read, at least its key, its kind and its id.
	Item(ctx context.Context, k Key, kind Kind, id string) (Item, error)

	// Remove forgets items, durable on return. Without ids it forgets all of the kind, and if kind is "" all of the
	// session. Items that are not there are no error. A removed item may be posted again. Of items that are posted
	// while Remove runs, some may be forgotten and others stay.
	Remove(ctx context.Context, k Key, kind Kind, ids ...string) error
}
