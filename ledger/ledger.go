package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/valid"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// A Class says what a recovery may do with an effect whose outcome is unknown.
type Class int

// The classes.
const (
	// Ask stops, and a person decides. It is the default.
	Ask Class = iota
	// Pure changes nothing in the world, such as a call of a model or a read: it runs again, unless its result is
	// recorded.
	Pure
	// Idempotent runs again with the same key. The other side recognises the key.
	Idempotent
	// Verifiable asks the other side whether it happened.
	Verifiable
)

// String returns the name of the class, for a list that a person reads.
func (c Class) String() string {
	switch c {
	case Ask:
		return "ask"
	case Pure:
		return "pure"
	case Idempotent:
		return "idempotent"
	case Verifiable:
		return "verifiable"
	}
	return "class " + strconv.Itoa(int(c))
}

// A State is how far an effect has come. Issued and Unknown are open.
type State string

// The states.
const (
	// Issued is under way. Or its process has gone, and no owner has adopted the run yet.
	Issued State = "issued"
	// Completed has a result. It is final.
	Completed State = "completed"
	// Failed certainly did not happen, by any attempt. It may be issued again.
	Failed State = "failed"
	// Unknown may have happened, and no owner with authority is at work on it.
	Unknown State = "unknown"
	// Skipped shall not happen: a person has said so. Only the late result of an attempt changes it.
	Skipped State = "skipped"
)

// Open reports whether the outcome of an effect in this state is not known.
func (s State) Open() bool { return s == Issued || s == Unknown }

// An Effect is one thing to be done in the world, however often it is tried.
type Effect struct {
	// ID is made of what identifies the effect. It is also the key to hand to the other side.
	ID string

	// Orchestrator, Session and RunID say who issued the effect last, and Iteration and Intent where. Each tells calls
	// of one name apart. Key is empty if the effect belongs to its place in the run.
	Orchestrator, Session, RunID string
	Iteration                    int
	Intent, Name, Each, Key      string

	// Began is when the run began. It is zero unless it is certain that no run of the same input began before. Issue
	// reads it after a Raise. A ledger does not keep it.
	Began time.Time

	Class    Class
	State    State
	Attempts int
	Fence    lock.Fence // of the owner that issued it last

	// Unsure says that an attempt before the last one may have happened. Then the failure of the last attempt does not
	// make the effect Failed: see Finish. Only an effect that is open is Unsure.
	Unsure bool

	// Args and Result are as redacted. ArgsSum is of the arguments before, see [SameArgs].
	Args, Result json.RawMessage
	ArgsSum      string

	// Redacted says that Result is not what the effect brought.
	Redacted bool

	// Error is the text of the error of the last attempt.
	Error string

	// IssuedAt is when the last attempt was issued, FinishedAt when the effect came to its state, by the clock of the
	// ledger. FinishedAt is zero while it is Issued.
	IssuedAt, FinishedAt time.Time

	// Age is how long ago the last attempt was issued, by the clock of the ledger, when the ledger returned the effect.
	// A ledger does not keep it. It is never negative. A caller that compares IssuedAt with its own clock would compare
	// the clocks of two machines.
	Age time.Duration

	// AnsweredBy is who answered for the effect, and AnsweredAt when.
	AnsweredBy string
	AnsweredAt time.Time
}

// The conditions of a ledger. The package comment says what each means.
var (
	ErrInDoubt  = errors.New("ledger: effect in doubt")
	ErrChanged  = store.Verdict("ledger: effect has other arguments than before")
	ErrRepeated = errors.New("ledger: effect named twice, tell the calls apart with Each or Key")
	ErrSkipped  = errors.New("ledger: effect skipped")
	ErrRedacted = errors.New("ledger: result was redacted and cannot be given back")
	ErrAnswered = store.Verdict("ledger: effect is not in doubt any more")
	ErrNotFound = store.Verdict("ledger: effect not found")
	ErrInvalid  = store.ErrInvalid
	ErrSchema   = store.ErrSchema
	ErrRefused  = store.ErrRefused
	ErrDamaged  = store.ErrDamaged
)

// A DamagedError is the ErrDamaged of one effect. Nothing can be said of this effect until its row is repaired. ID is
// the id of the effect, and Key is empty.
type DamagedError = store.DamagedError

// NotDone marks an error after which this attempt certainly did not happen: it was declined, refused, or never sent. It
// says nothing of earlier attempts: see Unsure. NotSent finds out what was never sent. Any other error of an effect
// means that the outcome is unknown. NotDone returns nil if err is nil.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return &notDone{err}
}

// IsNotDone reports whether NotDone has marked err, or an error that err wraps.
func IsNotDone(err error) bool {
	_, ok := errors.AsType[*notDone](err)
	return ok
}

type notDone struct{ err error }

func (e *notDone) Error() string { return e.err.Error() }

func (e *notDone) Unwrap() error { return e.err }

// SameArgs reports whether two sums may be of the same arguments. A sum names the key that it was made with, before a
// colon. Sums of different keys are not compared.
func SameArgs(a, b string) bool {
	keyA, _, _ := strings.Cut(a, ":")
	keyB, _, _ := strings.Cut(b, ":")
	return a == b || keyA != keyB
}

// A Query selects effects. Zero fields select all.
type Query struct {
	Orchestrator, Session, RunID, ID string

	// Open selects what is Issued or Unknown. It costs by these, and not by all.
	Open bool

	// AnsweredWithin selects what a person has answered in this time before now, by the clock of the ledger, whatever
	// has become of it since. An effect that was issued anew has no answer. It costs by these, and not by all.
	AnsweredWithin time.Duration

	// Brief is for who asks which effects there are. They come without Args, Result and Error, which are not read.
	Brief bool
}

// An Outcome is how an attempt ended: Completed with a Result, Failed, Unknown or Skipped, the latter three perhaps
// with an Error. Failed is about this attempt only, unless a person says so.
type Outcome struct {
	State  State
	Result json.RawMessage
	Error  string

	// Redacted says that Result is not what the effect brought.
	Redacted bool

	// By is who answered, if a person did. Then the outcome is taken only if the effect is in doubt.
	By string

	// Sure says that the person knows that no process is at work on the effect any more. Otherwise an answer for an
	// effect that is Issued is lock.ErrHeld.
	Sure bool
}

// A Ledger keeps one row for each effect, and for each run the highest fence that it has seen. Its methods may be
// called concurrently. Each Effect that a method returns has its Age.
type Ledger interface {
	// Adopt makes f the fence of the run. From then on lower fences are refused. What these have left Issued to the run
	// is Unknown, in the same step. A new owner calls Adopt before it goes on with the run or ends it. The same f again
	// changes nothing.
	Adopt(ctx context.Context, runID string, f lock.Fence) error

	// Issue notes the intent to try e. issued says that the caller may act now, as the attempt that is returned. Of e
	// it reads what identifies the effect, the class, the fence and the arguments, and with again the Attempts and
	// whether the State is Failed.
	//
	// An effect that is known stays as it is, and is returned. With again it is issued anew, to this run, if its last
	// attempt is that of e, and if it has Failed, is Unknown, or is Issued to this run. So a copy of the call that
	// arrives late issues nothing. The same call again by the fence that has issued the effect gets the same attempt,
	// because the first answer may have been lost. An effect that is Issued to another run is that run's.
	//
	// A new attempt is Unsure if the effect was Issued or Unknown. It is not if the effect has Failed, or if the State
	// of e is Failed: the caller knows that no attempt so far has happened, because it has asked the other side.
	//
	// If the window of a Raise is open, and the Raise concerns e, a new effect is not issued. It is noted as attempt 1
	// that is Unknown. Its Error says why. See DoubtedAfter. A new attempt at an effect that had Failed before
	// the Raise is not issued either, unless the State of e is Failed. It is noted as Unknown too.
	//
	// A fence that is higher than the run's adopts the run. If the known effect has other arguments and is not Pure,
	// Issue returns the effect and ErrChanged.
	Issue(ctx context.Context, e Effect, again bool) (now Effect, issued bool, err error)

	// Finish notes the outcome of an attempt, of a former owner too. It returns the effect as it stands then.
	//
	// The first result stays for ever. A Completed outcome is taken from any attempt, in each other state. Another
	// outcome is taken from the last attempt only, while the effect is open. What is not taken changes nothing and is
	// no error, unless a person answers: see Outcome.
	//
	// Failed closes an effect only if no earlier attempt may have happened. If the effect is Unsure, a Failed outcome
	// makes it Unknown and keeps the Error. The answer of a person is about all attempts: it makes the effect Failed.
	Finish(ctx context.Context, id string, attempt int, o Outcome) (now Effect, err error)

	// Record is Issue and Finish of an effect that changes nothing in the world, in one step. What is Completed stays,
	// and is returned.
	Record(ctx context.Context, e Effect) (now Effect, err error)

	// Effects yields effects, the first issued first.
	//
	// If an effect is damaged, Effects yields a *DamagedError with as much of the effect as can be read. Then Effects
	// goes on. Any other error ends it. If the state of an effect cannot be told, Open selects it.
	Effects(ctx context.Context, q Query) iter.Seq2[Effect, error]

	// Prune forgets effects without Key that are not open and have come to their state before a time, and fences of
	// that age of runs without effects. It returns how many effects it has forgotten. The time must be before each run
	// in flight has begun: a run that is resumed asks for its effects again.
	Prune(ctx context.Context, before time.Time) (forgotten int, err error)
}

// Load returns the effect with the ID of q, or ErrNotFound if q selects none. If the effect is damaged, Load returns a
// *DamagedError with as much of the effect as can be read. It reads nothing but this effect.
func Load(ctx context.Context, l Ledger, q Query) (Effect, error) {
	if err := valid.ID("effect id", q.ID); err != nil {
		return Effect{}, err
	}
	for e, err := range l.Effects(ctx, q) {
		return e, err
	}
	return Effect{}, ErrNotFound
}

// DefaultDoubt is how long the window of a Raise is open, if the options of the ledger do not say.
const DefaultDoubt = 24 * time.Hour

// An Answer is a person's word on an effect in doubt, about all its attempts. It landed, with this Result. Or it shall
// be skipped. Or it did not land, and may be tried again.
type Answer struct {
	Landed, Skip bool
	Result       json.RawMessage

	// By is who says so. It must not be empty.
	By string

	// Sure says that no process is at work on the effect any more. It is for an effect that is Issued and whose run is
	// lost.
	Sure bool
}

// Resolve answers for an effect that is in doubt. If the effect is Issued, Resolve returns lock.ErrHeld: a process may
// be at work on it. If it is not in doubt any more, Resolve returns ErrAnswered. Of two answers at once one is taken.
func Resolve(ctx context.Context, l Ledger, id string, a Answer) error {
	o := Outcome{State: Failed, Result: a.Result, By: a.By, Sure: a.Sure}
	switch {
	case a.Landed && a.Skip:
		return fmt.Errorf("%w: an answer that says both landed and skip", ErrInvalid)
	case a.Landed:
		o.State = Completed
	case a.Skip:
		o.State = Skipped
	}
	if a.By == "" {
		return fmt.Errorf("%w: an answer that does not say whose it is", ErrInvalid)
	}
	e, err := Load(ctx, l, Query{ID: id})
	if err == nil {
		_, err = l.Finish(ctx, id, e.Attempts, o)
	}
	return err
}
