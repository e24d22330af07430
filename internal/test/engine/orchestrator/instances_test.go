package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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

// seedEnv fixes the choices of clients and faults, but not the order in which they meet.
const seedEnv = "HOLDFAST_TEST_SEED"

const (
	fleetSize     = 3
	fleetSessions = 50
	fleetTurns    = 2000
	fleetAtOnce   = 16
	fleetTTL      = 500 * time.Millisecond
)

// Several processes serve the same sessions behind a lock that keeps no process out. They lose their leases in the
// middle of turns, stop and go on late, so that others take over before or after their leases end, and lose requests
// and replies. If clients do not know an outcome, they send the input again, sometimes twice at once. No turn is lost,
// doubled or out of order.
func TestInstances(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		t.Parallel()
		violations := newFleet(t, w).serve(t)
		for _, v := range violations[:min(10, len(violations))] {
			t.Error(v)
		}
		if len(violations) > 10 {
			t.Errorf("%d violations", len(violations))
		}
	})
}

// turnsOf returns how many turns a test of a world takes. Unless there is time, a world on a disk or on servers gets a
// quarter of the turns.
func turnsOf(w world) int {
	if _, ok := w.Snapshots.(*snapshot.Memory); !ok && !soak() {
		return fleetTurns / 4
	}
	return fleetTurns
}

// A fleet is some processes that run the same bots.
type fleet struct {
	world
	ctx       context.Context
	seed      uint64
	instances []*instance
	count     tally

	calm   atomic.Bool // no more faults
	clock  atomic.Int64
	serial atomic.Int64
	behind sync.WaitGroup // goroutines that nothing awaits

	witness witness

	mu  sync.Mutex // protects following field
	rng *rand.Rand
}

// A tally counts the events of a test.
type tally struct{ calls, twice, again, stolen, stopped, lost, late, failed, inherited atomic.Int64 }

func (c *tally) String() string {
	return fmt.Sprintf("%d calls, %d of them at the same time as another, %d again; "+
		"%d sessions stolen, %d of them settled by the heir, "+
		"%d processes stopped, %d requests or replies lost, %d late, %d failures told",
		c.calls.Load(), c.twice.Load(), c.again.Load(), c.stolen.Load(), c.inherited.Load(), c.stopped.Load(),
		c.lost.Load(), c.late.Load(), c.failed.Load())
}

func newFleet(t *testing.T, w world) *fleet {
	f := &fleet{world: w, ctx: t.Context(), seed: rand.Uint64(), witness: newWitness()}
	if fixed := os.Getenv(seedEnv); fixed != "" {
		var err error
		if f.seed, err = strconv.ParseUint(fixed, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	f.rng = rand.New(rand.NewPCG(f.seed, 0))
	for _, policy := range []orchestrator.OnInterrupted{
		orchestrator.ResumeFirst, orchestrator.Reject,
		orchestrator.AbandonFirst,
	} {
		f.instances = append(f.instances, f.start(t, policy))
	}
	return f
}

// An instance is one process. While it is stopped, none of its calls is sent.
type instance struct {
	fleet   *fleet
	bots    [2]*Bot // one delivers, and its sessions are the odd ones
	stopped atomic.Pointer[chan struct{}]
}

func (f *fleet) start(t *testing.T, policy orchestrator.OnInterrupted) *instance {
	i := &instance{fleet: f}
	w := (&wire{world: f.world, pass: i.pass}).ends()
	for n := range i.bots {
		i.bots[n] = w.Start(t, f.bot(n == 1), Options{
			Locker: faulttest.Everybody{}, KeepSnapshots: checkpoint.KeepAll, OnInterrupted: policy,
			Limits: orchestrator.Limits{
				LeaseTTL: fleetTTL, DeadAfter: fleetTTL / 4, LockWait: 6 * fleetTTL, SettleTimeout: 3 * fleetTTL,
				Attempts: 1_000_000,
			},
		})
	}
	return i
}

func nameOf(session int) string { return fmt.Sprintf("s%02d", session) }

func (i *instance) serving(session string) *Bot { return i.bots[session[len(session)-1]%2] }

// bot notes each of its iterations. No two notes are alike.
func (f *fleet) bot(delivers bool) Def {
	note := func(_ context.Context, t *Turn) error {
		switch {
		case f.calm.Load():
		case f.chance(10):
			return errBot
		case f.chance(10):
			f.steal(f.another(nil), t.Session)
		}
		t.State.Said = append(t.State.Said, fmt.Sprintf("%s %d %d", t.Input.Text, t.Iteration, f.serial.Add(1)))
		return nil
	}
	d := Def{
		Name: "fleet", Iterate: true, Intents: Intents{"note": {Run: note}},
		Evaluate: func(_ context.Context, t *Turn) (Next, error) {
			if t.Iteration+1 < notesOf(t.Input) {
				return orchestrator.To("note"), nil
			}
			return orchestrator.End, nil
		},
	}
	if delivers {
		d.Name = "fleet that delivers"
		d.Deliver = func(_ context.Context, r *Result) error {
			f.witness.delivery(r)
			return nil
		}
	}
	return d
}

// notesOf returns how many iterations an input takes.
func notesOf(in Input) int { return 1 + int(in.Text[0])%2 }

// chance is true in this many of a thousand cases.
func (f *fleet) chance(permille int) bool { return f.below(1000) < permille }

func (f *fleet) below(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(n)
}

// upTo returns a time below d, in milliseconds, because an int of 32 bits does not count the nanoseconds.
func (f *fleet) upTo(d time.Duration) time.Duration {
	return time.Duration(f.below(int(d.Milliseconds()))) * time.Millisecond
}

// another returns a process other than i.
func (f *fleet) another(i *instance) *instance {
	for {
		if other := f.instances[f.below(len(f.instances))]; other != i {
			return other
		}
	}
}

// repeatable are the calls that may arrive late. A late Begin is one more input, and a late Claim one more owner.
var repeatable = []string{"Append", "Mark", "Save", "Delete"}

// pass is the network of an instance.
func (i *instance) pass(ctx context.Context, r faulttest.Call, send func(context.Context) error) error {
	if stopped := i.stopped.Load(); stopped != nil {
		<-*stopped
	}
	f := i.fleet
	send = f.witness.watching(r, send)
	if f.calm.Load() || slices.Contains([]string{"Renew", "Beat", "Rest"}, r.Method) {
		return send(ctx)
	}
	if r.Method != "Claim" && f.chance(20) {
		f.steal(f.another(i), r.Session)
	}
	switch dice := f.below(1000); {
	case dice < 3:
		f.count.lost.Add(1)
		return errLost
	case dice < 8:
		f.count.lost.Add(1)
		return errors.Join(send(ctx), errLost)
	case dice < 11 && slices.Contains(repeatable, r.Method):
		f.count.late.Add(1)
		f.behind.Go(func() { _ = send(context.WithoutCancel(ctx)) })
		return errLost
	}
	return send(ctx)
}

// steal takes a session from its owner. The heir goes on with the run in flight, or ends it. This happens before the
// next call of the owner, or during that call.
func (f *fleet) steal(heir *instance, session string) {
	f.count.stolen.Add(1)
	ctx := f.ctx // the heir is another process
	bot := heir.serving(session)
	inherit := func() {
		_, err := bot.Abandon(ctx, session, "")
		f.judge("abandon", err)
	}
	if f.chance(700) {
		f.takeAway(ctx, checkpoint.Key{Orchestrator: bot.Name(), Session: session})
		inherit = func() {
			outcome, err := bot.Recover(ctx, session)
			if outcome == "settled" {
				f.count.inherited.Add(1)
			}
			f.judge("recover", err)
		}
	}
	if f.chance(500) {
		f.behind.Go(inherit)
	} else {
		inherit()
	}
}

func (f *fleet) takeAway(ctx context.Context, k checkpoint.Key) {
	c, err := seize(ctx, f.Checkpoints, k, "thief", fleetTTL)
	if err == nil {
		err = f.Checkpoints.Mark(ctx, c.Lease, checkpoint.Marks{Release: true})
	}
	f.judge("steal", err)
}

// judge notes an error that no fault explains.
func (f *fleet) judge(what string, err error) {
	expected := []error{
		nil, errBot, errGone, errLost, orchestrator.ErrInterrupted, orchestrator.ErrAbandoned,
		orchestrator.ErrIndeterminate, lock.ErrFenced,
	}
	if !slow(err) && !slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) {
		f.witness.errorf("%s: %v", what, err)
	}
}

// slow reports whether an error comes from a session that another has, or from a store that is too slow.
func slow(err error) bool {
	return slices.ContainsFunc([]error{
		orchestrator.ErrBusy, orchestrator.ErrUnavailable, lock.ErrLost, lock.ErrExpired, context.DeadlineExceeded,
	}, func(e error) bool { return errors.Is(err, e) })
}

// The same test convicts an Append that takes a zombie for the owner.
func TestInstancesConvict(t *testing.T) {
	w := newWorld()
	w.Checkpoints = &unfenced{Store: w.Checkpoints, latest: make(map[checkpoint.Key]checkpoint.Lease)}
	violations := newFleet(t, w).serve(t)
	if len(violations) == 0 {
		t.Fatal("not convicted")
	}
	t.Logf("%d violations, such as %s", len(violations), violations[0])
}

// unfenced knows the latest lease of each session, and uses it for every Append.
type unfenced struct {
	checkpoint.Store

	mu     sync.Mutex // protects following field
	latest map[checkpoint.Key]checkpoint.Lease
}

func (s *unfenced) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.latest[k] = c.Lease
	}
	return c, err
}

func (s *unfenced) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	err := s.Store.Append(ctx, l, cp, o)
	if !errors.Is(err, lock.ErrFenced) {
		return err
	}
	// The session may have no owner.
	if _, err := s.Claim(ctx, l.Key, checkpoint.ClaimRequest{
		Owner: "zombie", Nonce: cp.RunID,
		TTL: fleetTTL,
	}); err == nil {
		o.Release = true
	}
	s.mu.Lock()
	l = s.latest[l.Key]
	s.mu.Unlock()
	return s.Store.Append(ctx, l, cp, o)
}
