package orchestrator

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/message"
)

// A Turn is what Begin, Route, Evaluate and the intents see. Each parallel branch has its own; only its methods may be called
// from several goroutines. A Turn made by hand works: Emit goes nowhere, Logger is slog.Default.
type Turn[S any] struct {
	Session          string
	Index, Iteration int
	RunID            string
	Input            Input
	State            S
	History          []message.Message // from Options.History; read-only
	Choices          []Choice          // the intents by name; read-only
	Ran              []string          // intents that ran in this turn, oldest first
	Feedback         string            // from Evaluate

	line *line // to the engine; nil in a turn made by hand

	mu    sync.Mutex // protects following field
	usage Usage      // of a turn made by hand
}

// A line connects a Turn to the engine for as long as its function may run.
type line struct {
	meter   *meter
	home    home
	intent  string
	attempt int

	inCtx *atomic.Pointer[line] // by which a Tool finds it; nil: it cannot

	mu  sync.Mutex // protects following field, and is held while something is emitted
	cut bool       // the function has returned, or was given up
}

func (l *line) emit(ev Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.home.emit(ev)
	}
}

func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	if l.inCtx != nil {
		l.inCtx.Store(nil)
	}
}

// home is where a line ends.
type home interface {
	emit(ev Event)
	logger() *slog.Logger
}

type lineKey struct{}

// withLine lets a Tool that is called with ctx find the turn that calls it. A context that outlives the turn keeps nothing of it.
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
	mu    sync.Mutex // protects following fields
	used  Usage
	dead  bool
	calls map[string]json.RawMessage // calls of tools, by their ids: what each was asked
}

func (m *meter) add(u Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if cost := m.used.Cost + u.Cost; math.IsNaN(cost) || math.IsInf(cost, 0) {
		u.Cost = 0 // JSON has no such number, and the turn could neither settle nor fail
	}
	if !m.dead {
		m.used = m.used.plus(u)
	}
}

func (m *meter) total() Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// kill makes the turns of a run deaf: a function that outlives its turn changes nothing.
func (m *meter) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

// Emit sends a token to whoever streams this turn.
func (t *Turn[S]) Emit(delta string) {
	if t.line != nil {
		t.line.emit(Event{Kind: Token, Intent: t.line.intent, Attempt: t.line.attempt, Delta: delta})
	}
}

// AddUsage counts towards the turn, also if what used it fails.
func (t *Turn[S]) AddUsage(u Usage) {
	if t.line != nil {
		t.line.meter.add(u)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.usage = t.usage.plus(u)
}

// Usage is that of the turn so far, over a resume too.
func (t *Turn[S]) Usage() Usage {
	if t.line != nil {
		return t.line.meter.total()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.usage
}

// Logger carries orchestrator, session, turn, run and intent.
func (t *Turn[S]) Logger() *slog.Logger {
	if t.line == nil {
		return slog.Default()
	}
	l := t.line.home.logger().With("session", t.Session, "turn", t.Index, "run", t.RunID)
	if t.line.intent != "" {
		l = l.With("intent", t.line.intent)
	}
	return l
}

// LogValue keeps state, input and history out of logs.
func (t *Turn[S]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("session", t.Session), slog.Int("turn", t.Index), slog.Int("iteration", t.Iteration), slog.String("run", t.RunID))
}

// An Input opens a turn. All that a turn needs of its caller goes in here, for it is what a resume has. Limits.Input
// bounds it.
type Input struct {
	RequestID string // a repeat gets the recorded result; "": none
	Text      string
	Data      json.RawMessage
}

// LogValue keeps what the user said out of logs.
func (in Input) LogValue() slog.Value {
	return slog.GroupValue(slog.String("request", in.RequestID))
}
