package snapshot

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A Key names a session.
type Key = store.Key

// A Status says what is to happen to a run.
type Status string

const (
	// Running says that a process works on the run, or died doing so.
	Running Status = "running"
	// Waiting says that the run was left in flight. It was handed off, its caller's ctx ended, or it is to be tried
	// again at NotBefore.
	Waiting Status = "waiting"
	// Suspended says that an effect is in doubt, and a person has to answer.
	Suspended Status = "suspended"
	// Parked says that the run failed too often, and a person has to look. Its next owner may save it as Waiting.
	Parked Status = "parked"
	// Ended says that the run failed or was abandoned, and this was told. The row is only to be deleted.
	Ended Status = "ended"
)

// A Run is a turn in flight. A session has at most one.
//
// Payload and Parts come back equal as JSON values, not as bytes. Times come back to the microsecond, in UTC.
//
// Begin and Save limit the size of each document. All stores judge it alike: at most 16 MiB in its shortest form.
// docs/guarantees.md says more. A store gives back every document that it has taken, and takes it again. It ends and
// deletes the run of such a document, however long the document has become.
type Run struct {
	Key
	// ID is the RunID. RequestID is the input's; "" if it had none.
	ID, RequestID string
	// Turn is the number that the turn gets if it settles next. Attempt counts the attempts since the last progress.
	Turn, Attempt int
	// Base is the ID of the run whose checkpoint this run started from; "" for none.
	Base   string
	Status Status
	Seq    int64      // grows with each Save
	Fence  lock.Fence // of the owner
	// Payload is the engine's, versioned. If Payload is nil in a Save, the stored one stays.
	Payload json.RawMessage
	// Error is the text of the last failure, for people who look.
	Error string

	// Parts are documents beside Payload, by name. Each may be as large as a payload. A Save writes the parts that it
	// is given, and no other part. So an addition to a run costs no more than its own size. Adopt returns the parts.
	// Runs, and the run that Begin finds, come without parts.
	Parts map[string]json.RawMessage

	// Pause is how long a run is not due, by the store's clock. If Pause is above 0, Begin and Save set NotBefore to
	// that clock plus Pause. In a run that a store returns, Pause is the time that is left; 0 if the run is due.
	Pause time.Duration

	// Age is how long ago the run began, by the store's clock, when Runs yielded it. It is never negative. A store does
	// not keep it, and the other methods need not tell it. A caller that compares StartedAt with its own clock would
	// compare the clocks of two machines.
	Age time.Duration

	// These times are of the store's clock. Begin and Save ignore them. SavedAt is when the last of these took effect.
	// Adopt leaves SavedAt as it is, also if it parks the run.
	NotBefore, StartedAt, SavedAt time.Time
}

// The errors of this contract.
var (
	// ErrNotFound says that no run is in flight.
	ErrNotFound = store.Verdict("snapshot: not found")
	// ErrParked says that the run has had all its attempts.
	ErrParked = store.Verdict("snapshot: parked")

	ErrInvalid = store.ErrInvalid
	ErrDamaged = store.ErrDamaged
	ErrSchema  = store.ErrSchema
	ErrRefused = store.ErrRefused
)

// A DamagedError is the ErrDamaged of one run. No process can continue this run. Adopt and Delete remove it, as
// Orchestrator.Abandon and Orchestrator.Delete do.
type DamagedError = store.DamagedError

// An AwayError says that the part of the store that has the run of one session is away.
type AwayError = store.AwayError

// A Query selects runs. Its cost grows with the runs in flight, not with the history.
type Query struct {
	// Key names the session. If Session is "", the query is about all sessions of the orchestrator. Then Suspended and
	// Parked runs come without Payload, and the store does not read it: many runs may wait for a person. A query for
	// the session returns it.
	Key
	Status Status // "": any

	// Unattended is for a drain. It leaves out the runs that wait for a person, Suspended and Parked. On the SQL stores
	// the cost does not grow with these. Nor does the cost of a query for one of the other statuses.
	Unattended bool

	// After is the last session of the previous page.
	After string
	Limit int // 0: no limit

	// Brief is for a watch, which asks which runs there are and when they are due. Runs come without RequestID, Base,
	// Payload and Error. The store does not read the documents.
	//
	// The store does not notice damage in what it leaves out.
	Brief bool
}

// A Store keeps the runs in flight, and the highest fence that it has seen of each session. It keeps that fence for at
// least a day after the run is deleted. If a call has a lower fence, or an equal epoch and another nonce, it returns
// lock.ErrFenced and changes nothing, also if no run is in flight.
//
// A Store has no optional methods. All methods may be called concurrently.
type Store interface {
	// Begin stores r as the session's run in flight and returns nil. If the session has a run in flight already, even
	// one with r's ID, Begin returns that run and does not touch it. It does so under any fence of r. Begin is durable
	// on return, also if it found a run.
	//
	// The caller asks once under one fence, and never repeats the call. A copy of the call that arrives late begins
	// nothing, because its fence is spent. A fence is spent once a run began under it, or was adopted or deleted under
	// it, or a Begin under it found a run in flight. If no run is in flight, Begin wants a fence above all spent
	// fences. Otherwise it returns lock.ErrFenced.
	//
	// IDs are unique. If r's ID is in flight in another session, the effect is not defined. If the run in flight is
	// damaged, Begin returns a *DamagedError.
	Begin(ctx context.Context, r Run) (inFlight *Run, err error)

	// Adopt makes f the fence of the run in flight and counts an attempt, before it reads the run. The same f again
	// counts no attempt. If the run has had maxAttempts attempts, Adopt parks it and returns ErrParked with the run. If
	// maxAttempts is 0, the attempt is not counted and the run is not parked: to end the run, or to go on in spite of
	// parking. A run that has ended is never parked.
	//
	// If no run is in flight, Adopt returns ErrNotFound. The store then keeps f if f is the highest fence so far: from
	// then on it refuses the Begin of a former owner.
	//
	// If the run is damaged, f becomes its fence all the same. Adopt then returns a *DamagedError, with the run as far
	// as it can be read. If only the fence was damaged, the whole run comes with the error.
	Adopt(ctx context.Context, k Key, f lock.Fence, maxAttempts int) (Run, error)

	// Save replaces the run that has r.ID and exactly r's fence, which Begin or Adopt gave it. Save is durable on
	// return. It never creates a run. If the run is not in flight, or has ended, Save returns lock.ErrFenced.
	//
	// If r has a Payload, r.Parts are all parts that the run has from then on. If r has no Payload, the stored Payload
	// stays, and Save neither judges nor writes it. Then r.Parts are added to the stored parts, and replace stored
	// parts of the same name.
	//
	// If r.Seq is not above the stored Seq, r is a repeat or a late copy. Save then changes nothing and returns nil,
	// and the stored save is durable.
	Save(ctx context.Context, r Run) error

	// Delete forgets the run with this id and exactly this fence, and keeps its fence. The run is settled or Ended.
	// Delete need not survive a crash of the server: such a run is recognised and deleted again. If the run is not in
	// flight and f is not too low, Delete returns nil. Otherwise it returns lock.ErrFenced. If the run is damaged and
	// its id cannot be read, every id matches.
	Delete(ctx context.Context, k Key, id string, f lock.Fence) error

	// Runs yields the selected runs by session, in byte order. It holds no connection, transaction or lock while it
	// yields, so that the loop may call the store.
	//
	// If a run is damaged, Runs yields a *DamagedError with the run's key and as much else as can be read. Then Runs
	// goes on. If the status of a damaged run cannot be read, every Query.Status selects the run, and so does
	// Query.Unattended.
	//
	// If the part of the store that has a run is away, and the store knows of the run all the same, a query for all
	// sessions yields an *AwayError with the run's key and nothing else, whatever the query selects. Then Runs goes on.
	// There may be no run. A part that does not answer holds one listing up for some seconds, however many runs it has.
	// After any other error Runs ends.
	Runs(ctx context.Context, q Query) iter.Seq2[Run, error]
}

// Load returns the run in flight of the session that q names, or ErrNotFound. If the run is damaged, Load returns a
// *DamagedError with as much of the run as can be read. It reads nothing but this run.
func Load(ctx context.Context, s Store, q Query) (Run, error) {
	if err := q.Key.Validate(); err != nil {
		return Run{}, err
	}
	for r, err := range s.Runs(ctx, q) {
		return r, err
	}
	return Run{}, ErrNotFound
}

// A Joiner is a Store that can delete a run in the transaction that settles its turn. The SQL stores and Memory are
// Joiners.
type Joiner interface {
	// Join returns a Settle for this store and turns. It returns nil if the two cannot write in one transaction. On SQL
	// both stores must have been made with the same pool or connection, and turns must be no wrapper of a store.
	Join(turns checkpoint.Store) Settle
}

// A Settle is the Append of the joined checkpoint store. In one transaction with the Append it does the Delete of the
// run cp.RunID under the fence of l. If Settle returns an error, it deletes nothing. The errors are the errors of
// Append.
//
// If no such run is in flight, this is no error. If so, or if the turn was settled before, forgotten may be false. If
// forgotten is false, the caller calls Delete.
type Settle func(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) (forgotten bool, err error)

// An EndJoiner is a Joiner that can also record the end of the run in a turn log, in the same transaction. The SQL
// stores are EndJoiners, with checkpoint store and turn log on the same pool or *sql.DB, and no wrapper of either.
type EndJoiner interface {
	// JoinEnds is Join with the turn log of the runs.
	JoinEnds(turns checkpoint.Store, log turnlog.Log) SettleEnd
}

// An End is the last entry of a run in its turn log: turnlog.Settled.
type End struct {
	At    time.Time
	State json.RawMessage
}

// A SettleEnd is a Settle that records end as well. If forgotten is false, it may not have recorded end: the caller
// records it, and then calls Delete. It deletes no run whose end it has not added.
type SettleEnd func(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, end End,
) (forgotten bool, err error)

// An EffectJoiner is a Store whose Save can also write effects of a ledger, and entries of a turn log, in the same
// transaction. The SQL stores and Memory are EffectJoiners. On SQL all must have been made with the same pool or
// *sql.DB, and none may be a wrapper.
type EffectJoiner interface {
	// JoinEffects returns a SaveEffects for this store, effects and log. It returns nil if they cannot write in one
	// transaction. If log is nil, a SaveEffects takes no entries.
	JoinEffects(effects ledger.Ledger, log turnlog.Log) SaveEffects
}

// A Cargo is what a Save carries beside its run.
type Cargo struct {
	ledger.Batch

	// Log are entries of the run, but for its beginning and its end.
	Log []turnlog.Entry
}

// Empty reports whether there is nothing to carry.
func (c Cargo) Empty() bool { return c.Batch.Empty() && len(c.Log) == 0 }

// A SaveEffects is a Save that carries a Cargo of the run r. In one transaction it saves r, issues the effects of
// c.Issue, notes the outcomes of c.Finish, and records the entries of c.Log. All of it is durable on return, or nothing
// is written.
//
// It takes what is plain. No effect of c.Issue is known, and no Raise of the ledger concerns one. Each effect of
// c.Finish is Issued to r under r's fence, its last attempt is the one that is named, and it is not Unsure. The ledger
// knows no other fence of the run that is higher. The turn log has no entry of the run with phase and time of one of
// c.Log. If this is not so, SaveEffects writes nothing, and taken is false. The caller then calls Save, Issue, Finish
// and Record one by one, which say what is the matter. The Seq of r was not used.
//
// If r.Seq is not above the stored Seq, r is a repeat or a late copy. SaveEffects then changes nothing, and taken is
// true: the stored save is durable, with what it has carried.
//
// The errors are those of Save. If the run is not r's any more, taken is false or the error is lock.ErrFenced.
type SaveEffects func(ctx context.Context, r Run, c Cargo) (taken bool, err error)

// DefaultRemember is how long a store keeps the fence of a session without a run in flight, if its options do not say.
// A Begin that arrives later than this could bring back a run that has ended.
const DefaultRemember = 24 * time.Hour

// A Sweeper forgets the fences of sessions that have had no run in flight for as long as the store remembers them. The
// SQL stores and Memory are Sweepers. Redis expires fences by itself.
type Sweeper = store.Sweeper
