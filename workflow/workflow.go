package workflow

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// A Status is how far a run has come. Only Running changes, and Failed by a Rewind.
type Status string

// The statuses.
const (
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Known reports whether a store takes s.
func (s Status) Known() bool { return s == Running || s.Over() }

// Over reports whether a run with the status goes on no more by itself.
func (s Status) Over() bool { return s == Completed || s == Failed || s == Cancelled }

// A Hold says why a run that is Running does not go on by itself. Resume lets it go on.
type Hold string

// The holds.
const (
	Paused  Hold = "paused"  // an operator has paused it
	Crashed Hold = "crashed" // it has ended its process too often
	Drifted Hold = "drifted" // the journal does not fit the code, or a payload cannot be decoded

	// HoldUnknown says that for a day no living process has had the definition of the run. The run goes on by itself
	// once a process has it.
	HoldUnknown Hold = "unknown"
)

// A Run is one call of a workflow.
type Run struct {
	ID       string
	Workflow string
	Version  int // fixed at the start
	Status   Status
	Hold     Hold

	Input, Output json.RawMessage

	// Error is why the run failed, or is held.
	Error string

	// Key is the idempotency key of the start; "" if there is none.
	Key           string
	Parent        string // the run that has started it, and with which it is cancelled; "" if there is none
	Group         string // of the start, for Limit.EachGroup; "" if there is none
	RetentionDays int    // fixed at the start

	Started   time.Time
	Completed time.Time // zero while it runs
	Due       time.Time // when it goes on by itself; zero if a process owns it, or if it waits for an event alone

	Owner string // the process that owns it; "" if none does

	// Event is the event that the run waits for: "" if there is none, and AnyEvent if there are several.
	Event string
}

// ChildEvent is the event that tells a run that one of its children is over. The payload is the id of the child. The
// run looks at the child then: the event itself counts for nothing.
const ChildEvent = "workflow.child"

// ChildOver returns the message that tells a run that one of its children is over. It is for authors of an engine.
func ChildOver(parent, child string) Message {
	payload, _ := json.Marshal(child)
	return Message{Run: parent, Action: Signal, ID: NewID(), Event: ChildEvent, Payload: payload}
}

// AnyEvent is the Entry.Event of a run with several waits. Any signal makes it due.
const AnyEvent = "*"

// A Kind says what a journal row is of.
type Kind string

// The kinds.
const (
	KindStep   Kind = "run"
	KindSleep  Kind = "sleep"
	KindWait   Kind = "wait"
	KindChild  Kind = "child"
	KindPatch  Kind = "patch"
	KindSignal Kind = "signal" // not a journal row: a signal that no wait has taken yet
)

// An Outcome is how a step stands.
type Outcome string

// The outcomes.
const (
	Done     Outcome = "done"
	TimedOut Outcome = "timeout"  // of a wait
	Broken   Outcome = "failed"   // the step's last error; its attempts are used up
	Retrying Outcome = "retrying" // it has failed, and will be tried again
	Open     Outcome = "open"     // of a sleep, a wait or a child: it has begun, and has not ended
	Late     Outcome = "late"     // it ended after its run, or under a former owner
)

// A Step is one journal row.
type Step struct {
	// Name is unique in its run. Steps of a branch have the names of the branch and a slash before them.
	Name string

	// Index counts the steps of one branch in the order of their calls, from 0 on.
	Index    int
	Kind     Kind
	Outcome  Outcome
	Output   json.RawMessage // of a wait, the payload of the signal; of a child that is Open, the id of its run
	Error    string
	Attempts int       // calls that returned an error or a value; crashes are not counted
	Until    time.Time // of a sleep, a wait with a timeout, or a step that will be tried again: not before
	Signal   string    // of a wait, and of a child: the id of the signal that ended it

	// Started and Completed are times of the store. Write ignores them. A row that is Open or Retrying has Started when
	// it was written first.
	Started, Completed time.Time

	// Took is for Write alone: Started is so long before the write.
	Took time.Duration

	// For is for Write alone. If it is not 0, Until is so long after the write.
	For time.Duration
}

// Before reports whether a row of a journal is before the row of a step: in the same branch if its place is, and in
// another branch if it had started before.
func (s *Step) Before(step *Step) bool {
	if branch(s.Name) == branch(step.Name) {
		return s.Index < step.Index
	}
	return s.Started.Before(step.Started)
}

// branch returns the name of the branch of a step, with a slash behind it.
func branch(step string) string { return step[:strings.LastIndexByte(step, '/')+1] }

// The conditions of a store. The package comment says what each means.
var (
	ErrNotFound  = store.Verdict("workflow: run not found")
	ErrKeyReused = store.Verdict("workflow: the key was used with another input")
	ErrOver      = store.Verdict("workflow: run is over")
	ErrMail      = store.Verdict("workflow: a signal has come since")
	ErrAborted   = store.Verdict("workflow: the database has refused the transaction")

	ErrInvalid = store.ErrInvalid
	ErrSchema  = store.ErrSchema
	ErrDamaged = store.ErrDamaged
	ErrRefused = store.ErrRefused
)

// A DamagedError is the ErrDamaged of one run, or of one step of it.
type DamagedError = store.DamagedError

// A NewRun is a run to be started.
type NewRun struct {
	ID       string // from NewID
	Workflow string

	// Version is that of the definition. 0 means the greatest that a living process has, else the greatest of a run
	// that is kept, else 1.
	Version int
	Input   json.RawMessage // nil is null

	// Key is the idempotency key: at most one run that is kept has the workflow and the key. "" is no key.
	// Key is the idempotency key: at most one run that is kept has the workflow and the key. "" is no key.
	Key string

	// Parent is a run that is running. If it is over, Start is ErrOver, and if it is not there, ErrNotFound. Then no
	// run of the call is added. A Start of a run that is known does not look at it.
	Parent        string
	Group         string        // for Limit.EachGroup; "" is none
	RetentionDays int           // 0 means 30; the store has a cap
	Delay         time.Duration // until it is due

	// Debounce is for a start with a Key. If the run that has the key has not begun, it gets this Input and this Delay,
	// and no run is added. A run has begun once a process has claimed it. If the run has begun or is over, the key
	// passes to this run, which is added. A run whose ID is known stays as it is. A Parent and a From do not go with
	// it.
	Debounce bool

	// From and FromStep begin the run with a copy of what the journal of another run has before a step: see Before. If
	// there is no such step, Start is ErrNotFound, and no run of the call is added. What had not ended by then is not
	// copied, and begins anew. The mailbox is empty. A Parent and an Owner do not go with it.
	From, FromStep string

	// Owner and Fence are set by an engine that goes on with the run itself, without a claim. Then there is no Delay.
	Owner string
	Fence lock.Fence
}

// A Started tells of one NewRun.
type Started struct {
	ID      string
	Version int
	Status  Status
	New     bool // false if the id or the key was known: ID is the run that has it
}

// A Message goes to a run from outside. It needs no ownership.
type Message struct {
	Run    string
	Action Action

	// ID tells a repeated signal from a second one.
	ID      string
	Event   string          // of a Rewind: the step
	Payload json.RawMessage // nil is null

	// Wanted keeps nothing of a signal that no wait takes now: the receipt is Unwanted.
	Wanted bool
}

// An Action says what a message does.
type Action string

// The actions.
const (
	Signal Action = "signal"
	Cancel Action = "cancel"
	Pause  Action = "pause"
	Resume Action = "resume"

	// Rewind takes a run that is running, held or failed back to before the step Event, and makes it due. Rows that are
	// not before the step go: see Before. So do the owner, the hold, the error and the count of crashes. A signal that
	// such a row has taken lies in the mailbox again. A child that only such a row knew is cancelled. If the run has no
	// such step, the receipt is Unknown.
	Rewind Action = "rewind"
)

// A Receipt tells what has become of a message.
type Receipt string

// The receipts.
const (
	// Consumed says that the run waited for the signal, and takes it. If the same signal comes again, it is Kept.
	Consumed Receipt = "consumed"

	// Kept says that the signal lies in the mailbox of the run, or that it has come before.
	Kept     Receipt = "kept"
	Unwanted Receipt = "unwanted" // no wait takes the signal, and it is not kept
	Applied  Receipt = "applied"  // the run is cancelled, paused, resumed or rewound
	Over     Receipt = "over"     // the run is over: nothing has changed
	Unknown  Receipt = "unknown"  // there is no such run, or no such step
)

// A Query selects runs. Zero fields select all.
type Query struct {
	ID       string
	Workflow string
	Status   Status
	Since    time.Time       // started at or after
	Until    time.Time       // started before
	Parent   string          // children of this run
	Input    json.RawMessage // contained in the input: see Contains
	After    *Run            // the last run of the page before: its Started and ID
	Limit    int             // 0 means no limit

	// Event selects runs that wait for the event, and whose match Payload contains. They come by the time since when
	// they wait, the longest first. It is not for use with After.
	Event   string
	Payload json.RawMessage

	// KeyPrefix selects runs of Workflow whose key begins with it. They come by key, the greatest in byte order first.
	// It is not for use with ID, After and Event.
	KeyPrefix string
}

// A Front starts, signals and reads runs. Its methods may be called concurrently.
type Front interface {
	// Start adds runs, all or none, durable on return. A run whose id or key is known is not added. Repeating Start
	// with the same ids adds nothing. If the run that is known has another input, Start is ErrKeyReused and adds
	// nothing.
	Start(ctx context.Context, runs []NewRun) ([]Started, error)

	// Send gives messages to runs, durable on return. It never waits for an owner. Messages do not depend on each
	// other: after an error some may have been given. A Cancel ends the descendants of its run too that are running,
	// also those that are being started, in one transaction.
	Send(ctx context.Context, messages []Message) ([]Receipt, error)

	// Runs yields runs by start, newest first, and runs of one time by id, greatest first. It holds no connection,
	// transaction or lock while it yields. If a run is damaged, it comes with a *DamagedError and as much as can be
	// read, and Runs goes on. Any other error ends it.
	Runs(ctx context.Context, q Query) iter.Seq2[Run, error]

	// Steps yields the journal of a run by Started, Index and Name, and then the signals that no wait has taken, oldest
	// first. A run that is not there has no steps. A step that is damaged comes with a *DamagedError, and Steps goes
	// on.
	Steps(ctx context.Context, run string) iter.Seq2[Step, error]

	// Counts returns how many runs of each workflow have each status, or only each of these. Of Running alone, it
	// costs by the runs that are running, and not by those that are over.
	Counts(ctx context.Context, of ...Status) (map[string]map[Status]int, error)
}

// A Store keeps runs. An engine needs the whole Store. Beats of processes, and who is suspected, are not its business:
// one process beats once for all that it owns in a database. So a Store should be a [lock.Beater] too.
type Store interface {
	Front
	Subscriptions

	// Claim makes a process the owner of runs of the named definitions, in one statement. A run that another call is
	// claiming is skipped. The claim need not be durable on return: any later write of the new owner makes it durable.
	//
	// Without From, Again and Lease, Claim is for runs that are due, the longest due first. Then next is how long it is
	// until the next run of these definitions is due, or 0 if the store does not know of one. If it claims as many as
	// Limit, more may be due, and next is 0. The runs of workflows with a Limit are claimed in a transaction of their
	// own for each workflow: the longest due first among them. If a Limit holds runs back, next is at most a second.
	Claim(ctx context.Context, r ClaimRequest) (claimed []Claimed, next time.Duration, err error)

	// Write adds to journals and decides how their runs go on, each entry in one atomic step. Entries are of different
	// runs, and do not depend on each other: the verdicts say of each why it changed nothing, or nil. An error without
	// verdicts leaves open what was written. Write may be repeated. It is durable on return.
	//
	// A verdict is ErrNotFound, ErrOver, lock.ErrFenced or ErrMail. What it rests on is durable too: an owner that was
	// told that it has lost a run does not own the run again after a crash of the server.
	Write(ctx context.Context, entries []Entry) (verdicts []error, err error)

	// Sweep deletes at most limit runs that are over and whose retention has passed, with their journals. 0 means no
	// limit. It also holds, as HoldUnknown, the runs that have been due for a day, if for a day no living process has
	// had their definition.
	Sweep(ctx context.Context, limit int) (deleted int, err error)
}

// A Definition names code that a process has.
type Definition struct {
	Workflow string
	Version  int
}

// A ClaimRequest asks for runs. At most one of From, Again and Lease is set.
type ClaimRequest struct {
	Process     string
	Nonce       string
	Definitions []Definition
	Limit       int

	// Limits are by the names of workflows. They bound claims of runs that are due. From, Again and Lease take runs
	// from other owners, or from lost answers. So they do not change how many runs have an owner, and heed no Limit.
	Limits map[string]Limit

	// From claims what this process owns, in place of what is due. Its beats have stood still.
	From string

	// Again claims what Process owns with this nonce. It is for a Claim or a Start whose answer was lost. Nonce should
	// be another one: otherwise the same request, if it arrives again, takes the runs from who has them by then.
	Again string

	// Lease claims what was claimed so long ago, or longer, by processes that have not beaten for so long. It is a
	// backstop: an owner that died before its first beat, or a server that has lost the beats.
	//
	// A Claim with a Lease also notes that a living process has the Definitions, for LivingFor. Without Definitions it
	// forgets what Process has noted.
	Lease time.Duration

	// MostCrashes is for From and Lease. It holds a run as Crashed if so many owners have lost it in a row without
	// progress: the journal has the same rows as it had for the owner before.
	MostCrashes int
}

// For how long definitions are known.
const (
	// LivingFor is for how long a process counts as living after it has noted its definitions.
	LivingFor = 5 * time.Minute

	// UnknownAfter is after how long a run without a living process that has its definition is held.
	UnknownAfter = 24 * time.Hour
)

// A Claimed is a run with the fence of its new owner. Its Group is not told.
type Claimed struct {
	Run
	Fence lock.Fence
	Mail  int64     // how many signals have come
	Now   time.Time // the clock of the store
}

// An Entry is one write of the owner of a run.
type Entry struct {
	Run   string
	Fence lock.Fence

	// Steps are added to the journal. A row that is Open or Retrying is replaced. It keeps its Started, and its Until
	// unless the new row has one. A row that is Late is replaced too. Any other row stays. So does an Open or Retrying
	// row if the new one has the same Outcome and no more Attempts: it comes again, and moves no deadline.
	Steps []Step

	// Next is how the run goes on.
	Next Next

	// After Park: the run is due at Due, and After after the write, whichever comes first. If both are zero, only a
	// signal wakes it. An After of a nanosecond is now.
	Due   time.Time
	After time.Duration

	// After Park with an Event: a signal of this event whose payload contains Match makes the run due.
	Event string
	Match json.RawMessage

	// Mail refuses the entry with ErrMail if the run has got another number of signals. -1 does not compare.
	Mail int64

	// After End, and Held for Stop.
	Status Status
	Output json.RawMessage
	Error  string
	Held   Hold
}

// A Next is how a run goes on after a write.
type Next int

// The ways to go on.
const (
	Stay   Next = iota // the owner keeps it
	Park               // no process owns it until it is due or a signal wakes it
	End                // it is over
	Stop               // it is held
	Record             // the Steps are Late: it needs no fence, and changes no row that is there
)

// A Listener is a Store that tells its engines what happens. What it tells is for economy only: a note may be lost.
type Listener interface {
	// Listen calls hear with each note until ctx ends. hear must not wait.
	Listen(ctx context.Context, hear func(Note))

	// Hears reports whether the notes of other processes come too at the moment.
	Hears() bool

	// Tell tells the others.
	Tell(n Note)
}

// A Note tells of a change. If Run is "", runs may be due, or, with Beats, a process has begun to beat. Otherwise the
// owner of Run has lost it.
type Note struct {
	Run   string
	Beats bool
}
