package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// A Key names a session.
type Key = store.Key

// A Lease is the right to write to a session, as Claim gave it.
type Lease struct {
	Key
	// Fence is the proof that each write carries.
	Fence lock.Fence
}

// A Checkpoint is one settled turn. It never changes.
//
// State and Payload come back equal as JSON values, not as bytes. All stores judge their size alike, in Append: a
// document takes at most 16 MiB in its shortest form. docs/guarantees.md has the other limits. A store gives back every
// document that it has taken, and takes that document again, even if it has become longer.
type Checkpoint struct {
	// Turn is the number of the turn in its session, from 0.
	Turn int
	// State is the state that the turn left.
	State json.RawMessage
	// Payload is the engine's, versioned: input, route, usage, iterations, and the result for a replay or a delivery.
	// It may be empty.
	Payload json.RawMessage
	// Route holds the intents of the last decision, for people who query the table.
	Route []string
	// Signature is of the definition that wrote the turn.
	Signature string
	// Version is of the definition that wrote the turn.
	Version string
	// RunID is the id of the run that settled as this turn.
	RunID string
	// RequestID is of the input that opened the turn. It is "" if the input had none.
	RequestID string
	// SavedAt is the time on the store's clock, in UTC. Append ignores it.
	SavedAt time.Time
}

// The errors of this contract. The package comment says what they mean.
var (
	ErrNotFound = store.Verdict("checkpoint: not found")
	ErrConflict = store.Verdict("checkpoint: turn already settled")
	ErrInvalid  = store.ErrInvalid
	ErrDamaged  = store.ErrDamaged
	ErrSchema   = store.ErrSchema
	ErrRefused  = store.ErrRefused
)

// Newest and KeepAll are larger than any number of a turn.
const (
	// Newest makes Turns and Load start at the newest turn.
	Newest = math.MaxInt32
	// KeepAll is an AppendOptions.Keep that prunes nothing.
	KeepAll = math.MaxInt32
)

// DefaultKeep is how many turns of a session stay if AppendOptions.Keep is 0.
const DefaultKeep = 100

// MostLabels is how many labels a session has at most.
const MostLabels = 64

// DefaultUnsettled is how long a session without a settled turn stays after its lease ended, if a store's options do
// not say.
const DefaultUnsettled = 7 * 24 * time.Hour

// A DamagedError is the ErrDamaged of one session, or of one of its turns. Orchestrator.Delete removes the session with
// all its turns.
type DamagedError = store.DamagedError

// An AwayError says that the part of the store that has one session is away.
type AwayError = store.AwayError

// A RenewError says of which leases a Renew does not know whether they were extended. The other leases were extended,
// unless Renew has returned them as lost.
type RenewError struct {
	Unknown []Lease
	// Err says why, of the first of them.
	Err error
}

// Error returns the number of the leases and what Err says.
func (e *RenewError) Error() string {
	return fmt.Sprintf("checkpoint: leases not known to be extended: %d: %v", len(e.Unknown), e.Err)
}

// Unwrap returns Err.
func (e *RenewError) Unwrap() error { return e.Err }

// A ClaimRequest says who asks, and for how long.
type ClaimRequest struct {
	// Owner is unique per process start. A lock.Beater knows it as the process.
	Owner string
	// Nonce becomes the nonce of the fence. A claim that finds its own nonce has already succeeded.
	Nonce string
	// TTL is how long the lease lasts, by the store's clock, unless it is renewed.
	TTL time.Duration
	// RequestID asks for the turn that already answered it. If it is "", the claim asks for none.
	RequestID string

	// From takes the session from the owner with this very fence, even if the lease is live, and from no other owner. A
	// request that arrives late therefore takes nothing from a later owner. The zero Fence asks for a free session.
	From lock.Fence

	// Born is for a session that has no settled turn. With From, it replaces the Born of the session by that of an
	// earlier life. A run that began in that life is still in flight. Born is less than the epoch of From. A session
	// with a settled turn keeps its Born. 0 changes nothing.
	Born int64
}

// A HeldError is the lock.ErrHeld of a Claim. ClaimRequest.From takes its fence.
type HeldError = lock.HeldError

// Claimed describes the session to its new owner, as of after the claim.
type Claimed struct {
	Lease
	// Born is the epoch of the session's first claim. A run of another birth belongs to a session that was deleted.
	Born int64
	// Last is the newest settled turn. It is nil if no turn is settled yet.
	Last *Checkpoint
	// Answered is the newest turn that RequestID opened, durable by then. It is nil if no such turn is kept.
	Answered *Checkpoint
	// Turns before turn Summarized are summarized.
	Summarized int
	// Turns before turn Delivered are delivered.
	Delivered int
	// Failed is how often the delivery of turn Delivered has failed, by Marks.Retry.
	Failed int
}

// A Label is something by which a session is found, such as who its user is, or that the session waits.
type Label struct {
	// Name has 1 to 256 bytes, and is valid as the name of a session is.
	Name string

	// At is when something of the session is due. The zero Time is never. A store keeps milliseconds, and drops the
	// rest. At is from the years 1970 to 9999.
	At time.Time
}

// AppendOptions say what else happens in the statement that settles a turn.
type AppendOptions struct {
	// Keep is how many turns stay: exactly the newest ones, and all that are not yet delivered. 0 means 100, KeepAll
	// all.
	Keep int
	// Owes says that the turn is yet to be delivered. Turns that were owed before stay owed either way.
	Owes    bool
	Release bool // gives the lease back
	// Fresh makes Append return ErrConflict, not nil, if a kept turn already has the run. Another owner may have
	// settled that turn.
	Fresh bool

	// Relabel makes the labels of the session exactly Labels, if the turn is appended. Without it the labels stay as
	// they are, Labels is empty, and the Append costs what it would without labels.
	Relabel bool
	// Labels have distinct names. They are MostLabels at most.
	Labels []Label
}

// Marks raise the counters of a session. They never lower a counter, and never raise one beyond the settled turns. Zero
// leaves a counter as it is.
type Marks struct {
	// Summarized and Delivered say that all turns before this number are summarized, or delivered.
	Summarized, Delivered int
	Release               bool // gives the lease back

	// Retry says that the delivery of the oldest owed turn has failed. The store counts the failure. The session is not
	// due until Retry has passed on the store's clock. If the mark is repeated, it may be counted twice. If a mark
	// raises Delivered, the store forgets the count and the time.
	Retry time.Duration
}

// A SessionQuery selects sessions that have a settled turn.
type SessionQuery struct {
	Orchestrator string
	// Session selects this session only. Prefix and After are "" then. The cost is that of one row.
	Session string
	Prefix  string // literal
	// After is the last session of the page before.
	After string
	Limit int // 0: no limit
	// Owing selects only sessions with turns to deliver. The cost grows with these sessions, not with all.
	Owing bool
	// Due, which needs Owing, leaves out the sessions that a Marks.Retry holds back.
	Due bool
	// HeldBack, which needs Owing and excludes Due, selects only the sessions that a Marks.Retry holds back for longer
	// than this from now, by the store's clock. 0 selects the others too. The cost is that of Owing.
	HeldBack time.Duration
	// Label selects only sessions with this label. The cost grows with the sessions that have the label, not with all.
	Label string
	// By, which needs Label, selects only sessions whose label has an At that is not after By. The cost grows with
	// these sessions. A page costs as much as all of them, because the order is by name. By is cut to milliseconds too.
	By time.Time
}

// A Reader is all that a page or a report needs. Its sequences hold no connection, transaction or lock while they
// yield, so that their loop may call the store. If a session or a turn is damaged, it comes with a *DamagedError, and
// the sequence goes on. Sessions also goes on after an *AwayError. After any other error the sequence ends.
type Reader interface {
	// Turns yields the kept turns of k from turn from downwards. The caller owns each Checkpoint. If a turn is damaged,
	// its number is right. If the head of the session is damaged, Turns may yield only that error.
	Turns(ctx context.Context, k Key, from int) iter.Seq2[Checkpoint, error]

	// Sessions yields each session once, in byte order. If a query needs to read something that is damaged, the session
	// comes with the error, even if the query would not select the session. If the part of the store that has a session
	// is away, and the store knows of the session all the same, the session comes with an *AwayError. A part that does
	// not answer holds one listing up for some seconds, however many sessions it has.
	Sessions(ctx context.Context, q SessionQuery) iter.Seq2[string, error]
}

// A Store keeps settled turns and issues the fences that protect them. It has no optional methods. All methods may be
// called concurrently.
type Store interface {
	Reader

	// Claim makes the caller the owner of a session whose lease is free or expired. If the lease of another is live,
	// Claim returns a *HeldError at once, which is lock.ErrHeld, and nothing changes. With r.From, Claim takes the
	// session from that fence, whether its lease is live or expired. If r.From is not the latest fence, or was
	// released, Claim returns a *HeldError. If the session already has the nonce of the claim, Claim grants it again,
	// for another TTL. Epochs of a session grow, also across Delete. A claim need not survive a crash of the server.
	// But Born, once returned, is kept: a fence is never reissued.
	//
	// A session is damaged if its head, or its newest turn, cannot be read, or if turns are kept and the head is
	// missing. Then Claim returns a *DamagedError, with a lease that is good for Delete and nothing else.
	Claim(ctx context.Context, k Key, r ClaimRequest) (Claimed, error)

	// Renew makes each lease that is still the latest end ttl from now, even if it has expired. It returns the other
	// leases: superseded, released or deleted. Each lease is renewed for itself: if some cannot be, because their part
	// of the store is away or their rows are damaged, Renew extends the others, and returns one *RenewError that names
	// every lease of which it does not know. Renew returns when ctx ends, also if a part does not answer by then. With
	// any other error, all leases that are not returned as lost are unknown. An unknown lease may have been extended.
	Renew(ctx context.Context, ttl time.Duration, leases []Lease) (lost []Lease, err error)

	// Held returns the sessions of the list that a live lease owns, in one round trip, and the owner of each. A watch
	// uses Held so that it claims no session that it would not get. When the answer arrives, another process may own
	// them. A session that is damaged is not held. With an error, owners may be incomplete. With an *AwayError, only
	// sessions on parts of the store that are away are missing.
	Held(ctx context.Context, orchestrator string, sessions []string) (owners map[string]string, err error)

	// Append settles cp.Turn, which must follow the last one, and prunes: all or nothing, durable on return. Its errors
	// are lock.ErrFenced, ErrConflict and ErrInvalid.
	//
	// If a kept turn already has cp.RunID, Append appends nothing and returns nil, even if another owner settled that
	// turn. With o.Fresh, Append then returns ErrConflict. Either way the kept turn is durable before Append returns. A
	// store need not look further back than cp.Turn and the newest DefaultKeep turns: the owner that settles cp.Turn
	// knew all turns before it.
	//
	// To learn what became of an Append whose reply was lost, repeat it. A read proves nothing. If cp.Turn is stored
	// although the head says that it is not settled, Append returns a *DamagedError.
	Append(ctx context.Context, l Lease, cp Checkpoint, o AppendOptions) error

	// Mark raises counters or releases. If l is not the latest lease, Mark returns lock.ErrFenced, with two exceptions.
	// If a lost lease is released, and nothing else is marked, Mark does nothing and returns nil. The lease that
	// released the session may still mark it until the next claim, so that Mark may be repeated. A mark need not
	// survive a crash of the server: then the turn is summarized or delivered again.
	Mark(ctx context.Context, l Lease, m Marks) error

	// Delete removes the session of l and all its turns, if l is the latest lease. If l is not the latest lease, Delete
	// returns lock.ErrFenced and nothing changes: a request that arrives late spares the session's next life. If there
	// is no such session, Delete returns nil, so that it may be repeated. If the head is missing, or cannot be read,
	// Delete removes what is kept under any lease. The run in flight is in the snapshot store: see Orchestrator.Delete.
	Delete(ctx context.Context, l Lease) error
}

// A Sweeper retires idle sessions whole. It never retires a session that is owned or owes. A session with a settled
// turn is idle when a TTL has passed since its lease ended, if a TTL is set. A session without a settled turn is idle
// after DefaultUnsettled, or after the time in the store's options. If the TTL is shorter, it applies. Such a session
// may have a run in flight, which goes on in the next life: see ClaimRequest.Born. To tell such a run from the run of a
// deleted session, the owner relies on epochs that are microseconds of the store's clock.
//
// The SQL and memory stores are Sweepers. On Redis sessions expire by themselves, and a Sweeper removes their index
// entries. limit bounds how many sessions one call retires.
type Sweeper = store.Sweeper

// A Head says how a session stands. It may be out of date when it arrives.
type Head struct {
	// Owner is the process that owns the session by a live lease. It is "" if no lease is live.
	Owner string
	// LeaseLeft is for how much longer the lease is live, by the store's clock. It is 0 if no lease is live.
	LeaseLeft time.Duration
	// Turn is the newest settled turn. It is -1 if no turn is settled yet.
	Turn int
	// First is the oldest kept turn. It is 0 if no turn is settled yet.
	First int
	// Owed is how many turns are not yet delivered: the oldest owed turn and all turns after it.
	Owed int
	// Turns before turn Summarized are summarized.
	Summarized int
}

// An Inspector is a store that can say how a session stands, without claiming it. It is for pages and operators: an
// owner relies on the answer of its own Claim.
type Inspector interface {
	// Head returns how a session stands. It reads the head in one round trip. It takes no lock and changes nothing.
	// What it returns need not survive a crash of the server.
	//
	// If the session was never claimed, or was deleted or retired, Head returns ErrNotFound. If the head cannot be
	// read, or turns are kept and the head is missing, Head returns a *DamagedError. Head reads no turn, so it does not
	// notice a damaged turn.
	Head(ctx context.Context, k Key) (Head, error)
}

// Load returns one turn, or ErrNotFound.
func Load(ctx context.Context, r Reader, k Key, turn int) (Checkpoint, error) {
	for cp, err := range r.Turns(ctx, k, turn) {
		if err == nil && turn != Newest && cp.Turn != turn {
			break
		}
		return cp, err
	}
	return Checkpoint{}, ErrNotFound
}
