package orchestrator_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Short names, for the tests of this package.
type (
	Turn    = orchestrator.Turn[State]
	Next    = orchestrator.Next
	Input   = orchestrator.Input
	Intents = orchestrator.Intents[State]
	Intent  = orchestrator.Intent[State]
	Def     = orchestrator.Definition[State]
	Bot     = orchestrator.Orchestrator[State]
	Result  = orchestrator.Result[State]
	Options = orchestrator.Options
	Event   = orchestrator.Event
)

// State is the state of the bots in these tests.
type State struct {
	Said  []string
	Facts map[string]int
	A, B  string
	N     int
}

// say returns an intent that notes words.
func say(words string) func(context.Context, *Turn) error {
	return func(_ context.Context, t *Turn) error {
		t.State.Said = append(t.State.Said, words)
		return nil
	}
}

// echo is the smallest bot.
func echo() Def {
	return Def{Name: "echo", Intents: Intents{"echo": {Run: func(_ context.Context, t *Turn) error {
		t.State.Said = append(t.State.Said, t.Input.Text)
		return nil
	}}}}
}

// A world is the data that outlives a process.
type world struct {
	checkpoints checkpoint.Store
	snapshots   snapshot.Store
}

func newWorld() world { return world{new(checkpoint.Memory), new(snapshot.Memory)} }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start is one process of a bot.
func (w world) start(t testing.TB, d Def, o Options) *Bot {
	t.Helper()
	o.Snapshots = w.snapshots
	if o.Logger == nil {
		o.Logger = quiet()
	}
	bot, err := orchestrator.New(d, w.checkpoints, &o)
	if err != nil {
		t.Fatal(err)
	}
	return bot
}

func execute(t testing.TB, bot *Bot, in Input) *Result {
	t.Helper()
	res, err := bot.Execute(t.Context(), "s", in, nil)
	if err != nil {
		t.Fatalf("%q: %v", in.Text, err)
	}
	return res
}

func wantSaid(t testing.TB, s State, want ...string) {
	t.Helper()
	if !slices.Equal(s.Said, want) {
		t.Errorf("said %q, want %q", s.Said, want)
	}
}

func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

// wantOp checks how far a turn came.
func wantOp(t testing.TB, err error, op string) {
	t.Helper()
	if got := details(t, err).Op; got != op {
		t.Fatalf("got %v of %q, want an error of %q", err, got, op)
	}
}

func details(t testing.TB, err error) orchestrator.Error {
	t.Helper()
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	return *e
}

func wantRuns(t testing.TB, bot *Bot, want int) []snapshot.Run {
	t.Helper()
	var runs []snapshot.Run
	for r, err := range bot.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		r.Age = 0 // it grows
		runs = append(runs, r)
	}
	if len(runs) != want {
		t.Fatalf("%d runs in flight, want %d: %v", len(runs), want, runs)
	}
	return runs
}

// turns returns the texts of the kept turns, oldest first.
func turns(t testing.TB, bot *Bot) []string {
	t.Helper()
	var texts []string
	for res, err := range bot.Turns(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, res.Input.Text)
	}
	slices.Reverse(texts)
	return texts
}

// A diary collects events.
type diary struct {
	mu     sync.Mutex // protects following field
	events []Event
}

func (d *diary) note(ev Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, ev)
}

func (d *diary) kinds() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var kinds []string
	for _, ev := range d.events {
		kinds = append(kinds, string(ev.Kind))
	}
	return strings.Join(kinds, " ")
}

// text is an event in the form for browsers and logs.
func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	for _, ev := range d.events {
		data, _ := json.Marshal(ev)
		fmt.Fprintf(&b, "%s %v\n", data, ev.Err)
	}
	return b.String()
}

// crash runs a turn in a process that dies while the turn is under way. No write after the call of die takes effect,
// and the lease of the process is over.
func (w world) crash(t testing.TB, d func(die func()) Def, in Input) {
	t.Helper()
	w.crashWith(t, d, in, nil)
}

func (w world) crashWith(t testing.TB, d func(die func()) Def, in Input, call *orchestrator.CallOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	grave := &grave{world: w}
	ends := grave.ends()
	bot, err := orchestrator.New(d(grave.die), ends.checkpoints, &Options{Snapshots: ends.snapshots, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "s", in, call); err == nil {
		t.Fatal("the process did not die")
	}
	w.freeUp(t, bot.Name())
}

// freeUp fences off the owner of session s, and releases the session.
func (w world) freeUp(t testing.TB, bot string) {
	t.Helper()
	c, err := seize(t.Context(), w.checkpoints, checkpoint.Key{Orchestrator: bot, Session: "s"}, "another", time.Minute)
	if err == nil {
		err = w.checkpoints.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A grave is a process that writes nothing once it is dead.
type grave struct {
	world
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (g *grave) die() { g.dead.Store(true) }

// ends are the stores as the process sees them.
func (g *grave) ends() world { return g.endsOf("Append", "Mark", "Remove", "Save", "Delete") }

// endsOf is ends for a process that only these methods fence. No answer is as final as that of a fence, so the process
// ends at once.
func (g *grave) endsOf(methods ...string) world {
	around := faulttest.On(func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
		if g.dead.Load() {
			return lock.ErrFenced
		}
		return next(ctx)
	}, methods...)
	return world{faulttest.Checkpoints(g.checkpoints, around), faulttest.Snapshots(g.snapshots, around)}
}

// seize claims a session, from its owner if it has one.
func seize(
	ctx context.Context, s checkpoint.Store, k checkpoint.Key, owner string, ttl time.Duration,
) (checkpoint.Claimed, error) {
	r := checkpoint.ClaimRequest{Owner: owner, Nonce: rand.Text(), TTL: ttl}
	for {
		c, err := s.Claim(ctx, k, r)
		held, ok := errors.AsType[*checkpoint.HeldError](err)
		if !ok || ctx.Err() != nil {
			return c, err
		}
		r.From = held.Fence
	}
}

// abandon ends the run in flight.
func abandon(t testing.TB, bot *Bot, session string) error {
	t.Helper()
	_, err := bot.Abandon(t.Context(), session, "")
	return err
}
