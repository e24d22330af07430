package orchestrator

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Options say where the bot runs. If Options is nil, the bot lives and dies with its process.
type Options struct {
	// Snapshots keeps the runs. If it is nil, a turn does not survive its process.
	Snapshots snapshot.Store

	// Ledger keeps the effects of Once. If it is nil, Once is ErrNoLedger. Effects says what of them is kept.
	Ledger  ledger.Ledger
	Effects Effects

	// TurnLog records the phases of each turn: see package turnlog. It is no advice: if it takes no entry, or panics,
	// the turn does not go on. If it is no *turnlog.Checked, it takes the canonical phases. If it is nil, no phase is
	// recorded. All processes of a bot should have the same one. It gets the input and the reply as they are:
	// Effects.Redact is asked about the text of a failure only. With a TurnLog an input has 1 MiB less 16 KiB at most,
	// and a run is deleted after its turn has settled, not in the same transaction.
	TurnLog turnlog.Log

	// Stream keeps the events of the turns for a while, for readers that come later, that were cut off, or that are in
	// another process: see Orchestrator.Follow. All processes of a bot should have the same one. A turn neither waits
	// for it nor fails because of it. If it is nil, only callers in the process of a turn see its events.
	Stream stream.Store

	// Inbox keeps the inputs of Enqueue until their turns have ended. All processes of a bot need the same one, since
	// each runs what waits in a session before an input of its own. It is a read more for each Execute, Put and pass of
	// the watch. It needs Snapshots. If it is nil, Enqueue is ErrNoInbox.
	Inbox inbox.Store

	// Locker lets callers queue. If it is nil, waiters of other processes poll the checkpoint store.
	Locker lock.Locker

	// History loads Turn.History. It is also called on resume. If it is nil, a turn has no history.
	History func(ctx context.Context, session string) ([]message.Message, error)

	// KeepSnapshots counts settled turns: so many are kept of each session. 0 means 100, and checkpoint.KeepAll keeps
	// all.
	KeepSnapshots int
	OnInterrupted OnInterrupted

	// RequireDelivered makes a session take no further input while a reply is owed: Execute tries Deliver, and returns
	// ErrOwed if that fails. It is for bots whose Deliver stores the conversation, which History loads. A repeat is
	// still answered, and a run that has begun is still finished.
	RequireDelivered bool
	Compaction       Compaction
	Limits           Limits
	Logger           *slog.Logger // nil means slog.Default()

	// SessionTrace gives each session a trace of its own, beside the traces of its callers: see the function
	// SessionTrace. It has one span for each run, orchestrator.run, in whichever process the run is. That span and the
	// span of the turn are linked with each other. It is sampled if the turn is. Without a provider of tracers it costs
	// nothing.
	SessionTrace bool

	// LogError returns the text that logs show for an error. If it is nil, logs show the text of errors of stores and
	// drivers. Of an error that a function of the bot returned they show only the types, unless Logger has the level
	// Debug: its text may repeat what a user said. Set it to error.Error to log every text at any level. If it panics,
	// logs show only the types.
	LogError func(error) string
}

// OnInterrupted says what an input does if an earlier input is still in flight.
type OnInterrupted int

const (
	// ResumeFirst finishes the earlier input as a turn of its own, and then runs the new one. It is the default.
	ResumeFirst OnInterrupted = iota

	// Reject leaves the earlier run alone. The call returns ErrInterrupted.
	Reject

	// AbandonFirst ends the earlier run without a turn. If that run is suspended, the call returns ErrSuspended. Once
	// a person has answered, it is finished as with ResumeFirst.
	AbandonFirst
)

// Limits bound a turn. Choose LeaseTTL, LockWait and TurnTimeout by the kind of turns:
//
//	                       LeaseTTL           LockWait                           TurnTimeout
//	a chat: a user waits   30s, the default   LeaseTTL or longer                 as long as a user waits
//	a job from a queue     30s, the default   1s: on ErrBusy the queue retries   below the queue's deadline
//	a batch of long turns  1m to 5m           LeaseTTL or longer                 0, and an Intent.Timeout for each
//
// After a crash, the session is blocked until its lease expires, so a short LeaseTTL helps users. But a process or a
// store that stands still for 7/8 of LeaseTTL loses its sessions: keep LeaseTTL above the longest failover of the
// store. If LockWait is shorter than LeaseTTL, callers do not outwait a crash. Keep the deadline of a request above
// LockWait. If neither TurnTimeout nor Intent.Timeout is set, a model that hangs holds its session.
type Limits struct {
	Iterations int // of a turn; 0 means 100
	FanOut     int // branches at once; 0 means 10. More items wait; to decide for more intents is an error
	Attempts   int // before a run is parked; 0 means 5

	// TurnTimeout is the time from the first function of the bot up to the settle. A turn that takes longer fails. A
	// resume begins the time anew. 0 means no limit.
	TurnTimeout time.Duration

	// LockWait is how long a call waits for a session that another owner has; then it returns ErrBusy. 0 means 40s,
	// which is longer than a killed process keeps a session.
	LockWait time.Duration

	// DeadAfter is how long a process that owns sessions may be silent before others take them over. It tells at least
	// once a second that it is alive. Those who watch or wait go by their own clocks, and look at least three times. 0
	// means 4s. If some processes have less than 2s, all need it: otherwise they take over from the living. If it is
	// negative, or the checkpoint store is no lock.Beater, sessions change hands when their leases have expired.
	DeadAfter time.Duration

	// LeaseTTL is how long a session stays owned if no other process can tell whether its process is alive. 0 means
	// 30s.
	LeaseTTL time.Duration

	// SettleTimeout bounds the end of a turn and Deliver. It is also how long a function may ignore the end of its
	// context. 0 means 10s.
	SettleTimeout time.Duration

	// Queue is how many inputs of Enqueue may wait in a session. 0 means 100.
	Queue int

	// Input bounds text and data of an input, together. 0 means 1 MiB, and 15 MiB is the most. A larger input is an
	// *InputError before anything runs. The count is the bytes of the shortest JSON: a line feed or a quote in the text
	// counts two, white space between values nothing, a number as many as it has without exponent. Data is nested 998
	// deep at most.
	Input int

	// State bounds a state, and the items of one decision together, counted in the same way. 0 means 4 MiB, and 15 MiB
	// is the most. A turn that leaves a larger state fails with a *StateError when it settles, or when an iteration is
	// saved. The session stays as it was before that turn. What Begin leaves is not judged: the turn may leave less.
	State int
}

func (l Limits) orDefaults() Limits {
	l.Iterations = cmp.Or(l.Iterations, 100)
	l.FanOut = cmp.Or(l.FanOut, 10)
	l.Attempts = cmp.Or(l.Attempts, 5)
	l.LockWait = cmp.Or(l.LockWait, 40*time.Second)
	l.DeadAfter = cmp.Or(l.DeadAfter, 4*time.Second)
	l.LeaseTTL = cmp.Or(l.LeaseTTL, 30*time.Second)
	l.SettleTimeout = cmp.Or(l.SettleTimeout, 10*time.Second)
	l.Queue = cmp.Or(l.Queue, 100)
	l.Input = cmp.Or(l.Input, 1<<20)
	l.State = cmp.Or(l.State, 4<<20)
	return l
}

// Versions of a session that Put may ask for. A version is how many turns the session has settled: Result.Turn + 1.
const (
	// AnyVersion is the newest one, whichever that is.
	AnyVersion = 0

	// NoTurns is that of a session in which nothing is settled yet. Of any number of calls at once, in any process, one
	// makes its first turn.
	NoTurns = -1
)

// CallOptions are for Execute, Stream, Put and Resume.
type CallOptions struct {
	// Force goes on in spite of drift or parking. Under drift, what this definition has no place for is lost, and a
	// decision for what is no intent is made anew. Past parking, no attempt is counted. Force also settles a turn
	// although an earlier attempt has left an effect that the code of now does not ask for: see Once.
	Force bool

	// Earlier adds the events of earlier turns to those of the call's own: of a run that was in flight and is finished
	// first, and of a delivery that was owed. It is for OnEvent and for Stream. Event.RunID tells the turns apart.
	Earlier bool

	// OnEvent is called for each event of the call's own turn, one at a time, in order. The call waits for OnEvent. The
	// turn does not.
	//
	// The call returns when OnEvent has had all events. It gives up if one event takes longer than
	// Limits.SettleTimeout, or if all take so long after ctx has ended. If OnEvent is too slow, events are joined and
	// dropped as for Stream.Events.
	OnEvent func(Event)
}
