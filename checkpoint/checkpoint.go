package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A Key names a session. Both parts are 1 to 512 bytes of UTF-8 without U+0000, and no part is a pattern.
type Key struct{ Orchestrator, Session string }

// A Lease is the right to write to a session, as Claim gave it.
type Lease struct {
	Key
	Fence lock.Fence
}

// A Checkpoint is one settled turn. It never changes.
//
// State and Payload come back equal as JSON values, not as bytes. How big each may be is judged alike by all stores, in
// Append: 16 MiB of its shortest form, and more in docs/guarantees.md. What a store has taken it gives back and takes
// again, however long it has become.
type Checkpoint struct {
	Turn      int
	State     json.RawMessage
	Payload   json.RawMessage // the engine's, versioned: input, route, usage, iterations; what a replay or a delivery returns; may be empty
	Route     []string        // intents of the last decision, for people who query the table
	Signature string          // of the definition that wrote it
	Version   string          // of the definition that wrote it
	RunID     string
	RequestID string    // of the input that opened the turn; "" if it had none
	SavedAt   time.Time // the store's clock, UTC; ignored by Append
}

var (
	ErrNotFound = errors.New("checkpoint: not found")
	ErrConflict = errors.New("checkpoint: turn already settled")
	ErrInvalid  = errors.New("checkpoint: invalid")
	ErrDamaged  = errors.New("checkpoint: damaged")                   // what is stored is not what a store wrote; see DamagedError
	ErrSchema   = errors.New("checkpoint: tables missing or too old") // names the table and the remedy

	// ErrRefused says that the server took no write, and none will appear: it is a read-only standby, full, or starting.
	// The same call may succeed later.
	ErrRefused = errors.New("checkpoint: refused by the server")
)

const (
	Newest  = math.MaxInt32 // from which Turns and Load start at the newest
	KeepAll = math.MaxInt32
)

// DefaultKeep is how many turns of a session stay if AppendOptions does not say.
const DefaultKeep = 100

// DefaultUnsettled is how long a session without a settled turn stays after its lease ended, if a store's options do not say.
const DefaultUnsettled = 7 * 24 * time.Hour

// A DamagedError is the ErrDamaged of one session, or of one of its turns. Orchestrator.Delete removes the session with
// all its turns. Other sessions are not concerned. An ErrDamaged that is no *DamagedError concerns the whole store.
type DamagedError struct {
	Key
	Reason string // what is wrong, and with what
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: session %q: %s: restore it, or delete the session by Orchestrator.Delete",
		ErrDamaged, e.Session, e.Reason)
}

func (e *DamagedError) Unwrap() error { return ErrDamaged }

// A ClaimRequest says who asks, and for how long.
type ClaimRequest struct {
	Owner     string // unique per process start; for people who look
	Nonce     string // of the fence to be; a claim that finds its own nonce has already succeeded
	TTL       time.Duration
	RequestID string // asks for the turn that already answered it; "": none

	// From takes the session from the owner with this very fence, whose lease may be live, and from nobody else. A
	// request that arrives late therefore takes nothing from a later owner. The zero Fence asks for a free session.
	From lock.Fence

	// Born is for a session that has no settled turn. With From, it replaces the Born of the session by that of an
	// earlier life, in which a run began that is still in flight. It is less than the epoch of From. A session with a
	// settled turn keeps its Born. 0 changes nothing.
	Born int64
}

// A HeldError is the lock.ErrHeld of a Claim. It names the owner, whose fence ClaimRequest.From takes. Both are zero if
// nobody owns the session, which is how a claim with From is refused that came too late.
type HeldError struct {
	Owner string
	Fence lock.Fence
}

func (e *HeldError) Error() string {
	if e.Owner == "" {
		return lock.ErrHeld.Error()
	}
	return lock.ErrHeld.Error() + ": " + e.Owner
}

func (e *HeldError) Unwrap() error { return lock.ErrHeld }

// Claimed is what the owner needs to know, as of after the claim.
type Claimed struct {
	Lease
	Born       int64       // the epoch of the session's first claim: a run of another birth is of a session that was deleted
	Last       *Checkpoint // nil: no turn is settled yet
	Answered   *Checkpoint // the newest turn that RequestID opened, durable by then; nil: none that is kept
	Summarized int         // turns before this one are summarized
	Delivered  int         // turns before this one are delivered
	Failed     int         // how often the delivery of that turn has failed, by Marks.Retry
}

// AppendOptions say what else happens in the statement that settles a turn.
type AppendOptions struct {
	Keep    int  // exactly the newest turns that stay, and those not yet delivered; 0 means 100, KeepAll all
	Owes    bool // the turn is yet to be delivered; what was owed before stays owed either way
	Release bool // gives the lease back
	Fresh   bool // a run that a kept turn has is no repeat, but ErrConflict: that turn may be another owner's
}

// Marks raise the counters of a session, never lower them and never beyond its settled turns; zero leaves them.
type Marks struct {
	Summarized, Delivered int
	Release               bool // gives the lease back

	// Retry says that the delivery of the oldest owed turn has failed. The store counts it, and the session is not due
	// for so long, by the store's clock. A mark that is repeated may be counted twice. One that raises Delivered forgets
	// the count and the time.
	Retry time.Duration
}

// A SessionQuery selects sessions that have a settled turn.
type SessionQuery struct {
	Orchestrator string
	Prefix       string // literal
	After        string // the last one of the page before
	Limit        int    // 0: no limit
	Owing        bool   // only those with turns to deliver: cost grows with these, not with all
	Due          bool   // with Owing: only those that no Marks.Retry holds back
}

// A Reader is all that a page or a report needs. Its sequences hold no connection, transaction or lock while they
// yield, so that their loop may call the store. What is damaged comes with a *DamagedError, and the sequence goes on. After
// any other error it ends.
type Reader interface {
	// Turns yields the kept turns of k from turn from downwards. The caller owns what it gets. Of a turn that is damaged
	// the number is right. If the head of the session is damaged, Turns may yield only that error.
	Turns(ctx context.Context, k Key, from int) iter.Seq2[Checkpoint, error]

	// Sessions yields each session once, in byte order. If a query needs to read something that is damaged, the session
	// comes with the error, also if the query would not select it.
	Sessions(ctx context.Context, q SessionQuery) iter.Seq2[string, error]
}

// A Store keeps settled turns and issues the fences that protect them. It has no optional methods, and all may be
// called concurrently.
type Store interface {
	Reader

	// Claim makes the caller the owner of a session whose lease is free or expired. If the lease of another is live, it is
	// a *HeldError at once, which is lock.ErrHeld, and nothing changes. With r.From, Claim takes the session from that
	// fence, whether its lease is live or expired. If the fence is not the latest, or was released, it is a *HeldError.
	// A claim with the nonce that the session has already is granted again, for another TTL. Epochs of a session grow,
	// also across Delete. A claim need not survive a crash of the server, but Born, once returned, is kept: a fence is
	// never reissued.
	//
	// A session is damaged if its head, or its newest turn, cannot be read, or if turns are kept and the head is missing.
	// Then Claim returns a *DamagedError, with a lease that is good for Delete and nothing else.
	Claim(ctx context.Context, k Key, r ClaimRequest) (Claimed, error)

	// Renew makes the leases that are still the latest end ttl from now, even expired ones, and returns the others:
	// superseded, released or deleted. With an error some may have been extended; a lease that is not returned is not known to be lost.
	Renew(ctx context.Context, ttl time.Duration, leases []Lease) (lost []Lease, err error)

	// Held returns those of the sessions that a live lease owns, in one round trip. It is for a watch, which need not claim
	// what it would not get. When the answer arrives, another may own them. A session that is damaged is not held.
	Held(ctx context.Context, orchestrator string, sessions []string) (held []string, err error)

	// Append settles cp.Turn, which must follow the last one, and prunes: all or nothing, durable on return. That the
	// run is settled already is said only when that is durable too. lock.ErrFenced, ErrConflict, ErrInvalid. If nothing
	// was appended and a kept turn has the run, whoever settled it: no error, or ErrConflict if o.Fresh asks to be
	// told. A store need not look further back than cp.Turn and the newest DefaultKeep turns: who settles cp.Turn knew
	// all turns before it. To learn what became of an Append whose reply was lost, repeat it; a read proves nothing. If
	// cp.Turn is stored though the head says that it is not settled: a *DamagedError.
	Append(ctx context.Context, l Lease, cp Checkpoint, o AppendOptions) error

	// Mark raises counters or releases. lock.ErrFenced, save that a lost lease may be released, and nothing else, without
	// effect, and that the lease which released the session may still mark it while nobody has claimed: so a repeat is no error.
	// It need not survive a crash of the server: what was not marked is summarized or delivered again.
	Mark(ctx context.Context, l Lease, m Marks) error

	// Delete removes the session of l and all its turns, if l is the latest lease. Otherwise it is lock.ErrFenced and
	// nothing changes: a request that arrives late spares the session's next life. If there is no such session, there is
	// no error, so that Delete may be repeated. If the head is missing, or cannot be read, Delete removes what is kept
	// under any lease. The run in flight is elsewhere: see Orchestrator.Delete.
	Delete(ctx context.Context, l Lease) error
}

// A Sweeper retires idle sessions whole, never one that is owned or owes. A session with a settled turn is idle when a TTL
// has passed since its lease ended, if one is set. A session without one is idle after DefaultUnsettled, or after what the
// options say, or after the TTL if that is shorter. It may have a run in flight, which goes on in the next life: see
// ClaimRequest.Born. To tell such a run from that of a deleted session, its owner relies on epochs that are microseconds of
// the store's clock. The SQL and memory stores are Sweepers. On Redis sessions expire by themselves, and a Sweeper removes
// what listed them. limit bounds how many one call retires; 0 means no limit.
type Sweeper interface {
	Sweep(ctx context.Context, limit int) (retired int, err error)
}

// A Watcher is a store that keeps which process is the watcher: it looks, for all others, for what is to be
// recovered. The stores on a server are one. It is for economy only. What it keeps need not survive a crash of the
// server, and what is recovered is claimed.
type Watcher interface {
	// Watch makes process the watcher for d from now, unless another process is. It returns for how much longer
	// another is the watcher. That is 0 if process is, which may ask again at any time. If d is 0, process is the
	// watcher no longer. There is a watcher for each definition, because not all processes can recover the same.
	Watch(ctx context.Context, orchestrator, definition, process string, d time.Duration) (other time.Duration, err error)
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
