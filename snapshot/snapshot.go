package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A Key names a session; it converts to and from checkpoint.Key.
type Key struct{ Orchestrator, Session string }

// A Status says what is to happen to a run.
type Status string

const (
	Running   Status = "running"   // somebody works on it, or died doing so
	Waiting   Status = "waiting"   // left in flight: handed off, its caller's ctx ended, or to be tried again at NotBefore
	Suspended Status = "suspended" // an effect is in doubt; someone has to answer
	Parked    Status = "parked"    // failed too often; someone has to look
	Ended     Status = "ended"     // failed or abandoned, and told so: only to be deleted
)

// A Run is a turn in flight. A session has at most one.
//
// Payload comes back equal as a JSON value, not as bytes; times to the microsecond, in UTC.
type Run struct {
	Key
	ID, RequestID                 string
	Turn, Attempt                 int
	Base                          string // ID of the run whose checkpoint it started from; "" for none
	Status                        Status
	Seq                           int64 // grows with each Save
	Fence                         lock.Fence
	Payload                       json.RawMessage // the engine's, versioned
	Error                         string
	NotBefore, StartedAt, SavedAt time.Time // the last two are the store's clock, ignored by Begin and Save
}

var (
	ErrNotFound = errors.New("snapshot: not found")
	ErrParked   = errors.New("snapshot: parked")
	ErrInvalid  = errors.New("snapshot: invalid")
	ErrSchema   = errors.New("snapshot: tables missing or too old") // names the table and the remedy
)

// A Query selects runs. Its cost grows with the runs in flight, not with the history.
type Query struct {
	Key           // Session "": all of the orchestrator's
	Status Status // "": any
	After  string // the last session of the page before
	Limit  int    // 0: no limit
}

// A Store keeps the runs in flight. It remembers the fence of a run until the run is deleted and refuses lower ones, and an
// equal epoch with another nonce: lock.ErrFenced. It has no optional methods, and all may be called concurrently.
type Store interface {
	// Begin records r and returns nil, or changes nothing and returns the session's run in flight, even one with r's ID.
	// It is durable on return. It is never repeated by its caller: a copy that arrives late could revive a run that has
	// ended. IDs are unique; what becomes of one that is in flight in another session is not defined.
	Begin(ctx context.Context, r Run) (inFlight *Run, err error)

	// Adopt makes f the fence of the run in flight and counts an attempt, before it reads; the same f again counts none.
	// Past maxAttempts it parks the run: ErrParked, with the run. 0 counts none and parks none: to end the run, or to go
	// on in spite of parking. A run that has ended is never parked. ErrNotFound.
	Adopt(ctx context.Context, k Key, f lock.Fence, maxAttempts int) (Run, error)

	// Save replaces the run with r.ID and r's very fence (Begin or Adopt gave it), durable on return. It never creates one:
	// lock.ErrFenced if it is not in flight, or has ended.
	// A Seq that does not grow is a repeat or a late copy: nothing changes, no error.
	Save(ctx context.Context, r Run) error

	// Delete forgets the run with this id and this very fence, which is settled or Ended. It need not survive a crash of the
	// server: such a run is recognised and deleted again. If it is not in flight: no error. lock.ErrFenced.
	Delete(ctx context.Context, k Key, id string, f lock.Fence) error

	// Runs yields them by session, in byte order. It holds no connection, transaction or lock while it yields, so that
	// the loop may call the store; after yielding an error it ends.
	Runs(ctx context.Context, q Query) iter.Seq2[Run, error]
}
