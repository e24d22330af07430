package orchestrator_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// manySessions is how many sessions one process has in these tests.
func manySessions() int {
	if raceDetector {
		return 2000
	}
	return 10_000
}

// visitAll runs turns in each of n sessions, 100 sessions at once.
func visitAll(t *testing.T, bot *Bot, first, n, turns int) {
	t.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 100 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				for range turns {
					if _, err := bot.Execute(t.Context(), fmt.Sprint("session ", first+int(i)), Input{Text: "hello"},
						nil); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// An idle session costs no goroutine and no run: 10,000 sessions leave only their rows.
func TestManySessions(t *testing.T) {
	n := manySessions()
	w := newWorld()
	bot := w.Start(t, steps(nil), Options{})
	before := runtime.NumGoroutine()
	visitAll(t, bot, 0, n, 2)
	leaktest.None(t)
	// A few more are no leak: the runtime counts its own while they run finalizers.
	if more := runtime.NumGoroutine() - before; more > n/100 {
		t.Errorf("%d more goroutines after %d sessions", more, n)
	}
	sessions := 0
	for session, err := range w.Checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "steps"}) {
		if err != nil {
			t.Fatal(err)
		}
		sessions++
		cp, err := checkpoint.Load(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: "steps", Session: session},
			checkpoint.Newest)
		if err != nil || cp.Turn != 1 {
			t.Fatalf("%s: turn %d, %v", session, cp.Turn, err)
		}
	}
	if sessions != n {
		t.Errorf("%d sessions, want %d", sessions, n)
	}
	for r, err := range w.Snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "steps"}}) {
		t.Errorf("%s is in flight, %v", r.Session, err)
	}
}

// The engine keeps no data of a session that it has left. Over stores that keep no data either, memory use is the same
// as before, with a subscriber and a stream too. On a busy machine a queue of events may grow once, so one round of
// three that leaves nothing is enough.
func TestSessionsKeepNoMemory(t *testing.T) {
	d := steps(nil)
	d.Deliver = func(context.Context, *Result) error { return nil }
	bot := worldOf(new(noRows), noRuns{}).Start(t, d, Options{})
	var heard atomic.Int64
	defer bot.Subscribe(func(Event) { heard.Add(1) })()
	stream := func(session string) {
		st := bot.Stream(t.Context(), session, Input{Text: "hello"}, nil)
		for range st.Events() {
		}
		if _, err := st.Result(); err != nil {
			t.Error(err)
		}
	}
	n := manySessions()
	visitAll(t, bot, 0, n/10, 1)
	stream("warm")
	const each = 16 // bytes; a map's entry alone would be more
	var grown int64
	for round := 1; round <= 3; round++ {
		before := heap()
		visitAll(t, bot, round*n, n, 1)
		for i := range 100 {
			stream(fmt.Sprint("streamed ", round, i))
		}
		grown = int64(heap()) - int64(before)
		t.Logf("%d sessions left %d bytes behind", n, grown)
		if grown <= int64(each*n) {
			break
		}
	}
	if grown > int64(each*n) {
		t.Errorf("%d sessions left %d bytes behind, %d each", n, grown, grown/int64(n))
	}
	runtime.KeepAlive(bot)
	if heard.Load() == 0 {
		t.Error("nothing was heard")
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	var m runtime.MemStats
	// Pooled memory survives one collection.
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// noRows owns every session and keeps nothing. Each turn is a session's first.
type noRows struct{ epoch atomic.Int64 }

func (s *noRows) Claim(
	_ context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: s.epoch.Add(1), Nonce: r.Nonce}}
	c.Born = c.Fence.Epoch
	return c, nil
}

func (*noRows) Renew(context.Context, time.Duration, []checkpoint.Lease) ([]checkpoint.Lease, error) {
	return nil, nil
}

func (*noRows) Held(context.Context, string, []string) (map[string]string, error) { return nil, nil }

func (*noRows) Append(context.Context, checkpoint.Lease, checkpoint.Checkpoint, checkpoint.AppendOptions) error {
	return nil
}

func (*noRows) Mark(context.Context, checkpoint.Lease, checkpoint.Marks) error { return nil }

func (*noRows) Delete(context.Context, checkpoint.Lease) error { return nil }

func (*noRows) Turns(context.Context, checkpoint.Key, int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(func(checkpoint.Checkpoint, error) bool) {}
}

func (*noRows) Sessions(context.Context, checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(func(string, error) bool) {}
}

// noRuns accepts every run and keeps none.
type noRuns struct{ snapshot.Store }

func (noRuns) Begin(context.Context, snapshot.Run) (*snapshot.Run, error) { return nil, nil }

func (noRuns) Save(context.Context, snapshot.Run) error { return nil }

func (noRuns) Delete(context.Context, snapshot.Key, string, lock.Fence) error { return nil }

// The callers of one session queue. No caller is forgotten. If a caller gives up, it leaves no trace.
func TestManyCallers(t *testing.T) {
	const callers = 1000
	bot := newWorld().Start(t, echo(), Options{KeepSnapshots: 1})
	gone, leave := context.WithCancel(t.Context())
	leave()
	var wg sync.WaitGroup
	var settled, left atomic.Int32
	for i := range callers {
		ctx := t.Context()
		if i%2 == 0 {
			ctx = gone
		}
		wg.Go(func() {
			switch _, err := bot.Execute(ctx, "s", Input{}, nil); {
			case err == nil:
				settled.Add(1)
			case errors.Is(err, context.Canceled):
				left.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if settled.Load() != callers/2 || left.Load() != callers/2 {
		t.Errorf("%d settled, %d left", settled.Load(), left.Load())
	}
	leaktest.None(t)
}

// A nest is bots that call one another: an input "b c" to a says "a", and passes "c" on to b.
type nest map[string]*Bot

func newNest(t *testing.T, w world, o Options, names ...string) nest {
	bots := make(nest)
	for _, name := range names {
		bots[name] = w.Start(t, Def{
			Name: name,
			Intents: Intents{"call": {Run: func(ctx context.Context, t *Turn) error {
				t.State.Said = append(t.State.Said, name)
				if t.Input.Text == "" {
					return nil
				}
				res, err := bots[t.Input.Text[:1]].Execute(ctx, t.Session, Input{Text: t.Input.Text[1:]}, nil)
				if err == nil {
					t.State.Said = append(t.State.Said, res.State.Said...)
				}
				return err
			}}},
		}, o)
	}
	return bots
}

// A turn may call another bot, also for a session with the same name, which is another session. It may not call for its
// own session, however deep.
func TestNested(t *testing.T) {
	w := newWorld()
	bots := newNest(t, w, Options{}, "a", "b", "c")
	res := execute(t, bots["a"], Input{Text: "bc"})
	wantSaid(t, res.State, "a", "b", "c")
	for name, bot := range bots {
		if got := turns(t, bot); len(got) != 1 {
			t.Errorf("%s has turns %q", name, got)
		}
	}
	for _, path := range []string{"a", "ba", "bca", "bcb", "bb"} {
		_, err := bots["a"].Execute(t.Context(), "s", Input{Text: path}, nil)
		wantErr(t, err, orchestrator.ErrReentrant)
		if errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for name, bot := range bots {
		wantRuns(t, bot, 0)
		if got := turns(t, bot); len(got) != 1 {
			t.Errorf("%s has turns %q", name, got)
		}
	}
	wantSaid(t, execute(t, bots["c"], Input{}).State, "c", "c")
}

// Branches of one turn that call for one session of another bot queue for it: neither is inside the other.
func TestNestedBranches(t *testing.T) {
	w := newWorld()
	child := w.Start(t, echo(), Options{})
	call := func(ctx context.Context, t *Turn) error {
		_, err := child.Execute(ctx, "shared", Input{Text: "x"}, nil)
		return err
	}
	intents := Intents{}
	var names []string
	for i := range 5 {
		names = append(names, "branch "+strconv.Itoa(i))
		intents[names[i]] = Intent{Run: call}
	}
	route := func(context.Context, *Turn) (Next, error) { return orchestrator.To(names...), nil }
	execute(t, w.Start(t, Def{Name: "parent", Intents: intents, Route: route}, Options{}), Input{})
	cp, err := checkpoint.Load(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: "echo", Session: "shared"},
		checkpoint.Newest)
	if err != nil || cp.Turn != len(names)-1 {
		t.Errorf("turn %d, %v", cp.Turn, err)
	}
}

// Two turns that call for each other's session cannot see it. They wait no longer than LockWait, and then both get an
// error.
func TestCrossedCalls(t *testing.T) {
	w := newWorld()
	var met sync.WaitGroup
	met.Add(2)
	var bots [2]*Bot
	for i, name := range []string{"left", "right"} {
		bots[i] = w.Start(t, Def{Name: name, Intents: Intents{"call": {Run: func(ctx context.Context, t *Turn) error {
			if t.Input.Text == "end" {
				return nil
			}
			met.Done()
			met.Wait()
			_, err := bots[1-i].Execute(ctx, "s", Input{Text: "end"}, nil)
			return err
		}}}}, Options{Limits: orchestrator.Limits{LockWait: 30 * time.Millisecond}})
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, bot := range bots {
		wg.Go(func() { _, errs[i] = bot.Execute(t.Context(), "s", Input{Text: rand.Text()}, nil) })
	}
	wg.Wait()
	if !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, orchestrator.ErrBusy) }) {
		t.Errorf("got %v", errs)
	}
	for _, bot := range bots {
		wantRuns(t, bot, 0)
		execute(t, bot, Input{Text: "end"})
	}
}
