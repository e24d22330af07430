package bottest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
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

// A World is the data that outlives a process.
type World struct {
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
}

// NewWorld returns an empty world in memory.
func NewWorld() World { return World{new(checkpoint.Memory), new(snapshot.Memory)} }

// WorldOf returns the world of these stores.
func WorldOf(c checkpoint.Store, s snapshot.Store) World { return World{c, s} }

// Quiet returns a logger that drops its records.
func Quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Start is one process of a bot.
func (w World) Start(t testing.TB, d Def, o Options) *Bot {
	t.Helper()
	o.Snapshots = w.Snapshots
	if o.Logger == nil {
		o.Logger = Quiet()
	}
	bot, err := orchestrator.New(d, w.Checkpoints, &o)
	if err != nil {
		t.Fatal(err)
	}
	return bot
}

// Crash runs a turn in a process that dies while the turn is under way. No write after the call of die takes effect,
// and the lease of the process is over.
func (w World) Crash(t testing.TB, d func(die func()) Def, in Input) {
	t.Helper()
	w.CrashWith(t, d, in, nil)
}

// CrashWith is Crash with the options of the call.
func (w World) CrashWith(t testing.TB, d func(die func()) Def, in Input, call *orchestrator.CallOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	grave := &Grave{World: w}
	ends := grave.Ends()
	bot, err := orchestrator.New(d(grave.Die), ends.Checkpoints, &Options{Snapshots: ends.Snapshots, Logger: Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "s", in, call); err == nil {
		t.Fatal("the process did not die")
	}
	w.FreeUp(t, bot.Name())
}

// FreeUp fences off the owner of session s, and releases the session.
func (w World) FreeUp(t testing.TB, bot string) {
	t.Helper()
	c, err := Seize(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: bot, Session: "s"}, "another", time.Minute)
	if err == nil {
		err = w.Checkpoints.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Park leaves a parked run in session s. A process has begun it, and died.
func (w World) Park(t *testing.T, bot *Bot) {
	t.Helper()
	w.Crash(t, DiesAtOnce, Input{Text: "a", RequestID: "r"})
	WantParked(t, bot)
}

// A Grave is a process that writes nothing once it is dead.
type Grave struct {
	World
	Dead atomic.Bool
}

// Die ends the process.
func (g *Grave) Die() { g.Dead.Store(true) }

// Ends are the stores as the process sees them.
func (g *Grave) Ends() World { return g.EndsOf("Append", "Mark", "Remove", "Save", "Delete") }

// EndsOf is ends for a process that only these methods fence. No answer is as final as that of a fence, so the process
// ends at once.
func (g *Grave) EndsOf(methods ...string) World {
	around := faulttest.On(func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
		if g.Dead.Load() {
			return lock.ErrFenced
		}
		return next(ctx)
	}, methods...)
	return World{faulttest.Checkpoints(g.Checkpoints, around), faulttest.Snapshots(g.Snapshots, around)}
}

// Seize claims a session, from its owner if it has one.
func Seize(
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

// Unrenewed returns s, which cannot be reached to renew a lease.
func Unrenewed(s checkpoint.Store) checkpoint.Store {
	return faulttest.Checkpoints(s, faulttest.Fail(errors.New("no route to host"), "Renew"))
}

// A Hoarder deletes nothing.
type Hoarder struct{ snapshot.Store }

// Delete fails.
func (Hoarder) Delete(context.Context, snapshot.Key, string, lock.Fence) error { return ErrFull }

// A ReadRuns notes what is read of runs.
type ReadRuns struct {
	snapshot.Store
	Queries         []snapshot.Query
	Reads, Payloads int
}

// Runs counts what it yields.
func (s *ReadRuns) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	s.Queries = append(s.Queries, q)
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.Store.Runs(ctx, q) {
			s.Reads++
			if r.Payload != nil {
				s.Payloads++
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// AwayEffects is a ledger that may be away, or hide what was answered.
type AwayEffects struct {
	ledger.Ledger
	Away, Hidden bool
}

// Effects fails while the ledger is away.
func (l *AwayEffects) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if l.Hidden && q.AnsweredWithin > 0 {
		return func(func(ledger.Effect, error) bool) {}
	}
	if l.Away {
		return func(yield func(ledger.Effect, error) bool) { yield(ledger.Effect{}, ErrAway) }
	}
	return l.Ledger.Effects(ctx, q)
}

// Patient waits for a slow machine to write large documents.
func Patient() Options { return Options{Limits: orchestrator.Limits{SettleTimeout: 5 * time.Minute}} }

// Attempts are options with this limit.
func Attempts(n int) Options { return Options{Limits: orchestrator.Limits{Attempts: n}} }
