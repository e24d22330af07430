package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
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
// Payload and Parts come back equal as JSON values, not as bytes; times to the microsecond, in UTC. How big each may be is
// judged alike by all stores, in Begin and Save: 16 MiB of its shortest form, and more in docs/guarantees.md. What a store
// has taken it gives back, takes again, and ends and deletes, however long it has become.
type Run struct {
	Key
	ID, RequestID string
	Turn, Attempt int
	Base          string // ID of the run whose checkpoint it started from; "" for none
	Status        Status
	Seq           int64 // grows with each Save
	Fence         lock.Fence
	Payload       json.RawMessage // the engine's, versioned; nil in a Save leaves the stored one
	Error         string

	// Parts are documents beside Payload, by name, each as large as a payload may be. A Save writes those that it is
	// given and no other, so that what is added to a run costs no more than itself. Adopt returns them; Runs, and the
	// run that Begin finds, come without.
	Parts map[string]json.RawMessage

	// Pause is how long a run is not due, by the store's clock. Begin and Save make NotBefore so much later than that
	// clock. In what a store returns, Pause is the time that is left; 0 if the run is due.
	Pause time.Duration

	NotBefore, StartedAt, SavedAt time.Time // the store's clock; ignored by Begin and Save
}

var (
	ErrNotFound = errors.New("snapshot: not found")
	ErrParked   = errors.New("snapshot: parked")
	ErrInvalid  = errors.New("snapshot: invalid")
	ErrDamaged  = errors.New("snapshot: damaged")                   // what is stored is not what a store wrote; see DamagedError
	ErrSchema   = errors.New("snapshot: tables missing or too old") // names the table and the remedy

	// ErrRefused says that the server took no write, and none will appear: it is a read-only standby, full, or starting.
	// The same call may succeed later.
	ErrRefused = errors.New("snapshot: refused by the server")
)

// A DamagedError is the ErrDamaged of one run. Nobody can go on with it. Adopt and Delete remove it, as
// Orchestrator.Abandon and Orchestrator.Delete do. The runs of other sessions are not concerned. An ErrDamaged that is no
// *DamagedError concerns the whole store.
type DamagedError struct {
	Key
	Reason string // what is wrong with the stored run
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: run of session %q: %s: repair it, or abandon it or delete the session", ErrDamaged, e.Session, e.Reason)
}

func (e *DamagedError) Unwrap() error { return ErrDamaged }

// A Query selects runs. Its cost grows with the runs in flight, not with the history.
type Query struct {
	Key           // Session "": all of the orchestrator's
	Status Status // "": any
	After  string // the last session of the page before
	Limit  int    // 0: no limit

	// Brief is for a watch, which wants to know what there is and when it is due. Runs come without RequestID, Base,
	// Payload and Error. The store does not read the documents, and does not notice what is damaged in what it leaves
	// out.
	Brief bool
}

// A Store keeps the runs in flight, and the highest fence that it has seen of each session. It keeps that fence when the
// run is deleted, for a day at least. A call with a lower fence, or with an equal epoch and another nonce, is
// lock.ErrFenced and changes nothing, whether a run is in flight or not. It has no optional methods, and all may be called
// concurrently.
type Store interface {
	// Begin records r and returns nil. If the session has a run in flight, even one with r's ID, Begin returns that run,
	// whatever r's fence is, and does not touch it. Begin is durable on return, also if it found a run.
	//
	// The caller asks once under one fence, and never repeats it. Copies that arrive late begin nothing: a fence is spent
	// once a run began under it, or was adopted or deleted, or a Begin found one in flight. If none is in flight, Begin
	// wants a fence above all that are spent; otherwise it is lock.ErrFenced. IDs are unique; what becomes of one that is
	// in flight in another session is not defined. If the run in flight is damaged, Begin returns a *DamagedError.
	Begin(ctx context.Context, r Run) (inFlight *Run, err error)

	// Adopt makes f the fence of the run in flight and counts an attempt, before it reads; the same f again counts none.
	// Past maxAttempts it parks the run: ErrParked, with the run. 0 counts none and parks none: to end the run, or to go
	// on in spite of parking. A run that has ended is never parked. If no run is in flight, it is ErrNotFound, and the store
	// keeps f if it is the highest fence so far: the Begin of a former owner is refused from then on. If the run is
	// damaged, f becomes its fence all the same. Adopt then returns a *DamagedError, with the run as far as it can be read,
	// or the whole run if only its fence was damaged.
	Adopt(ctx context.Context, k Key, f lock.Fence, maxAttempts int) (Run, error)

	// Save replaces the run with r.ID and r's very fence (Begin or Adopt gave it), durable on return. It never creates one:
	// lock.ErrFenced if it is not in flight, or has ended. With a Payload, Parts are all that the run has from then on.
	// Without, the stored Payload stays, neither judged nor written, and Parts are added to the stored ones, in place of
	// those with the same name.
	// A Seq that does not grow is a repeat or a late copy: nothing changes, no error, and what was saved is durable.
	Save(ctx context.Context, r Run) error

	// Delete forgets the run with this id and this very fence, which is settled or Ended, and keeps its fence. It
	// need not survive a crash of the server: such a run is recognised and deleted again. If the run is not in flight and
	// f is not too low: no error. Otherwise lock.ErrFenced. If the run is damaged and its id cannot be read, any id is its.
	Delete(ctx context.Context, k Key, id string, f lock.Fence) error

	// Runs yields them by session, in byte order. It holds no connection, transaction or lock while it yields, so that
	// the loop may call the store. A damaged run comes with a *DamagedError, with its key and as much else as can be
	// read, and Runs goes on. If its status cannot be read, every Query.Status selects it. After any other error Runs ends.
	Runs(ctx context.Context, q Query) iter.Seq2[Run, error]
}

// A Joiner is a Store that can delete a run in the transaction that settles its turn. The SQL and memory stores are one.
type Joiner interface {
	// Join returns what settles turns in both stores, or nil if they cannot write in one transaction. On SQL both stores must
	// have been made with the same pool or connection, and turns must be no wrapper of a store.
	Join(turns checkpoint.Store) Settle
}

// A Settle is the Append of the checkpoint store that was joined and, in one transaction with it, Delete of the run
// cp.RunID under the fence of l. With an error it deletes nothing. The errors are those of Append: that such a run is not in
// flight is none, and then, or if the turn was settled before, forgotten may be false. Then the caller calls Delete.
type Settle func(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) (forgotten bool, err error)

// DefaultRemember is how long a store keeps the fence of a session without a run in flight, if its options do not say. A
// Begin that arrives later than this could bring back a run that has ended.
const DefaultRemember = 24 * time.Hour

// A Sweeper forgets the fences of sessions that have had no run in flight for as long as the store remembers them. The SQL
// and memory stores are one; Redis expires by itself. limit bounds how many one call forgets; 0 means no limit.
type Sweeper interface {
	Sweep(ctx context.Context, limit int) (forgotten int, err error)
}
