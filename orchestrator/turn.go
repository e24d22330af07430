package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
)

// A Turn is the argument of Begin, Route, Evaluate and the intents. Each parallel branch has a Turn of its own. Only
// its methods may be called from several goroutines. A Turn made by hand works: Emit goes nowhere, Logger is
// slog.Default.
type Turn[S any] struct {
	Session          string
	Index, Iteration int
	RunID            string
	Input            Input
	State            S

	// Item is the item of ForEach that the intent runs for, as JSON; the function Item decodes it. ItemNumber counts
	// the items of the intent in this iteration, from 1. A resume and a retry see the same number.
	Item       json.RawMessage
	ItemNumber int
	History    []message.Message // from Options.History; read-only
	Choices    []Choice          // the intents by name; read-only

	// Ran are the intents that ran in this turn, oldest first.
	Ran      []string
	Feedback string // from Evaluate

	// Attempt counts the attempts of the intent by its Retry, from 1. In other functions it is 1.
	Attempt int

	// line leads to the engine; nil in a Turn made by hand.
	line *line

	mu sync.Mutex // protects following field

	// usage is for a Turn made by hand.
	usage Usage
}

// A place is where in a run a function of the bot runs. Intents may be named like other places: the place tells them
// apart.
type place string

const (
	inBegin    place = "begin"
	inRoute    place = "route"
	inEvaluate place = "evaluate"
	inThen     place = "then"
	inIntent   place = "intent"
	inFail     place = "fail"
)

// An asker is the branch, or the hook, that has named an effect.
type asker struct {
	in     place
	intent string
	item   int
}

// A line connects a Turn to the engine for as long as its function may run.
type line struct {
	meter *meter
	home  home
	world world
	asker
	attempt int
	origin

	// inCtx is how a Tool finds the line. If it is nil, a Tool cannot find the line.
	inCtx *atomic.Pointer[line]

	// mu protects the following fields. It is held while an event is emitted.
	mu sync.Mutex

	// cut says that the function has returned, or was given up.
	cut bool

	// anew counts the calls of BeginAnew.
	anew int

	// used are the places of effects that the function has named.
	used []string

	// upcoming are the effects of Ahead.
	upcoming []ledger.Effect
}

// An origin is the turn of a line, for effects, phases and the calls of tools. A goroutine that outlives the function
// may still read it.
type origin struct {
	session, run    string
	by              string
	turn, iteration int
	fence           lock.Fence

	// epoch is Anew of the runPayload, and failures are its Failures.
	epoch    int64
	failures int

	// began is when the run began, if no earlier call may have begun it; zero otherwise.
	began time.Time
}

// emit emits an event of the function.
func (l *line) emit(ev Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(ev)
}

// tell is emit. The caller holds mu.
func (l *line) tell(ev Event) {
	if !l.cut {
		ev.Intent, ev.Item, ev.Attempt = l.intent, l.item, l.attempt+l.anew
		l.home.emit(ev)
	}
}

// attempts returns the number of the attempt, which BeginAnew counts too.
func (l *line) attempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempt + l.anew
}

func (l *line) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	if l.inCtx != nil {
		l.inCtx.Store(nil)
	}
}

// tries names the attempt of the line, as far as the bot has decided it. It is the same after a crash. It is "" for the
// first attempt at a run that was begun once at most.
func (l *line) tries() string {
	attempt := l.attempts()
	if l.epoch == 0 && l.failures == 0 && attempt <= 1 {
		return ""
	}
	return fmt.Sprint(l.epoch, l.failures, max(attempt, 1))
}

// use notes that an attempt has named an effect. Only an effect with a Key may be named twice.
func (l *line) use(id string, keyed bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cut:
		return errOver
	case keyed:
		return nil
	case slices.Contains(l.used, id):
		return ledger.ErrRepeated
	}
	l.used = append(l.used, id)
	return nil
}

// free takes back what use has noted of an effect without a Key.
func (l *line) free(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = slices.DeleteFunc(l.used, func(used string) bool { return used == id })
}

// A onceCall is a call of Once without its types.
type onceCall struct {
	effect ledger.Effect
	run    func(ctx context.Context, key string) (json.RawMessage, error)
	verify func(ctx context.Context, key string) (value json.RawMessage, landed bool, err error)

	// settles is OnceOptions.Settles, keep is KeepOnRetry, and usage is Usage.
	settles time.Duration
	keep    bool
	usage   func(value json.RawMessage) Usage

	// fresh says that this call has issued the first attempt.
	fresh bool
}

// A home takes the events, the usage and the phases of a line, and has its logger.
type home interface {
	emit(ev Event)
	spent(u Usage)
	logger() *slog.Logger
	recordPhase(ctx context.Context, l *line, phase string, state any, soon bool) error
}

// A world takes the effects of a line.
type world interface {
	once(ctx context.Context, l *line, c onceCall) (json.RawMessage, error)
	effectFor(l *line, c onceCall) (ledger.Effect, error)
	ahead(l *line, intent string, c onceCall) error
	toolStarts(ctx context.Context, l *line, effects bool) error
	toolEnds(id string, effects, first bool, err error) error
}

type lineKey struct{}

// withLine lets a Tool that is called with ctx find the turn that calls it. A context that outlives the turn keeps
// nothing of the turn alive.
func withLine(ctx context.Context, l *line) context.Context {
	l.inCtx = new(atomic.Pointer[line])
	l.inCtx.Store(l)
	return context.WithValue(ctx, lineKey{}, l.inCtx)
}

func lineIn(ctx context.Context) *line {
	if in, ok := ctx.Value(lineKey{}).(*atomic.Pointer[line]); ok {
		return in.Load()
	}
	return nil
}

// A meter adds up the usage of a run.
type meter struct {
	mu   sync.Mutex // protects following fields
	used Usage
	dead bool

	// provider is that of the first call that names one.
	provider string

	// calls are the calls of tools, by their ids, with the args of each.
	calls map[string]json.RawMessage

	// counted is what of the usage of such calls, and of effects with OnceOptions.Usage, is counted since the iteration
	// began.
	counted map[string]Usage
}

func (m *meter) add(u Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plus(u)
}

// plus is add. The caller holds mu.
func (m *meter) plus(u Usage) {
	if cost := m.used.Cost + u.Cost; math.IsNaN(cost) || math.IsInf(cost, 0) {
		u.Cost = 0 // JSON has no such number, and the turn could neither settle nor fail
	}
	if !m.dead {
		m.used, m.provider = m.used.plus(u), cmp.Or(m.provider, u.Provider)
	}
}

// addOnce is add, unless the usage of this effect is counted already, by whichever process. It reports whether it was.
func (m *meter) addOnce(effect string, u Usage) (added bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, counted := m.counted[effect]; counted {
		return false
	}
	m.plus(u)
	if m.counted == nil {
		m.counted = make(map[string]Usage)
	}
	m.counted[effect] = u
	return true
}

// by returns who has the model that has answered; "" if no call has said it.
func (m *meter) by() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.provider
}

func (m *meter) total() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// iterated forgets the calls of an iteration that is saved: they are not made again.
func (m *meter) iterated() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted = nil
}

// kill stops the count for a run: a function that outlives its turn changes nothing.
func (m *meter) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

// Emit sends a token to the listeners of this turn: its Stream, OnEvent and the handlers of Subscribe.
func (t *Turn[S]) Emit(delta string) {
	if t.line != nil {
		t.line.emit(Event{Kind: Token, Delta: delta})
	}
}

// BeginAnew says that the intent begins anew because of err: what it has emitted and shown so far is void. Listeners
// get an IntentEnded with err, and an IntentStarted of the next attempt. It is for an intent that tries again by
// itself, and whose Retry tries once. The state stays as it is. In other functions BeginAnew does nothing.
func (t *Turn[S]) BeginAnew(err error) {
	l := t.line
	if l == nil || l.in != inIntent {
		return
	}
	if err == nil {
		err = errAttempt
	}
	failed := Event{Kind: IntentEnded, Usage: l.meter.total(), Err: logtext.Public(logtext.Private(err))}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(failed)
	l.anew++
	l.tell(Event{Kind: IntentStarted})
}

// MaxPart is how many bytes a part may have, as JSON.
const MaxPart = 64 << 10

// Show sends a part of the reply, as JSON, to whom Emit sends tokens: a call of a tool, its result, or what else there
// is to see. Like a token it is no record, may be dropped, and is void if its attempt fails. The error says that part
// is no JSON, or larger than MaxPart.
func (t *Turn[S]) Show(part any) error {
	data, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("orchestrator: show: %w", err)
	}
	if len(data) > MaxPart {
		return fmt.Errorf("orchestrator: show: a part of %d bytes, and %d are the most", len(data), MaxPart)
	}
	if t.line != nil {
		t.line.emit(Event{Kind: Part, Data: data})
	}
	return nil
}

// AddUsage counts u towards the turn, even if the function that used it fails.
func (t *Turn[S]) AddUsage(u Usage) {
	if t.line != nil {
		t.line.meter.add(u)
		t.line.home.spent(u)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usage = t.usage.plus(u)
}

// Record records in Options.TurnLog that the turn has passed a phase: turnlog.LLMComplete, say, or one that the
// registry of the log knows. state is kept as JSON. The entry is durable when Record returns.
//
// A phase that is not registered is turnlog.ErrPhase, and so are Started and Settled, which the engine records. A state
// that is no JSON is turnlog.ErrState. Then nothing is recorded, and the turn may go on. If the log does not take the
// entry, no function of the bot runs after this one, and the turn is left in flight.
//
// In Begin, Record is refused: the turn is not recorded yet. Without a turn log, and in a Turn made by hand, Record
// does nothing.
func (t *Turn[S]) Record(ctx context.Context, phase string, state any) error {
	if t.line == nil {
		return nil
	}
	return t.line.home.recordPhase(ctx, t.line, phase, state, false)
}

// RecordSoon is Record for an entry that need not be durable before the function goes on. If stores and turn log are
// one database, as snapshot.EffectJoiner says, the next save of the run carries the entry, and it costs no write of its
// own. The entry is durable before the next iteration begins, before the turn settles or fails, and before the run
// waits for a person. If the process dies before that, the function runs again, and records it then. In any other case
// RecordSoon is Record.
func (t *Turn[S]) RecordSoon(ctx context.Context, phase string, state any) error {
	if t.line == nil {
		return nil
	}
	return t.line.home.recordPhase(ctx, t.line, phase, state, true)
}

// Usage returns the usage of the turn so far. It includes the usage before a resume.
func (t *Turn[S]) Usage() Usage {
	if t.line != nil {
		return t.line.meter.total()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.usage
}

// Logger returns a logger that carries orchestrator, session, turn, run, intent and the number of the item.
func (t *Turn[S]) Logger() *slog.Logger {
	if t.line == nil {
		return slog.Default()
	}
	l := t.line.home.logger().With("session", t.Session, "turn", t.Index, "run", t.RunID)
	if t.line.intent != "" {
		l = l.With("intent", t.line.intent)
	}
	if t.line.item > 0 {
		l = l.With("item", t.line.item)
	}
	return l
}

// LogValue keeps state, input and history out of logs.
func (t *Turn[S]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("session", t.Session), slog.Int("turn", t.Index), slog.Int("iteration", t.Iteration),
		slog.String("run", t.RunID))
}
