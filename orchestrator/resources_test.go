package orchestrator_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// talking is a bot that emits so many tokens: "0 ", "1 ", …
func talking(tokens int) Def {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		for i := range tokens {
			t.Emit(fmt.Sprint(i, " "))
		}
		return nil
	}}
	return d
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprint(&b, i, " ")
	}
	return b.String()
}

// reachable is how many bytes are in use.
func reachable() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// memory is how many bytes are in use, with the stacks of goroutines.
func memory() int64 {
	n := reachable()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return n + int64(m.StackInuse)
}

// A handler of Subscribe that hangs costs one goroutine and a bounded number of events, however many follow. One call
// waits for the handler, a tenth of a second. When the handler goes on, it is told how many events it has missed.
func TestSubscriberHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := newWorld().Start(t, talking(5000), Options{})
		goOn := make(chan struct{})
		var mu sync.Mutex
		seen, missed := 0, 0
		defer bot.Subscribe(func(ev Event) {
			<-goOn
			mu.Lock()
			defer mu.Unlock()
			seen++
			missed += ev.Dropped
		})()
		start := time.Now()
		execute(t, bot, Input{Text: "a"})
		if waited := time.Since(start); waited != 100*time.Millisecond {
			t.Errorf("the first call took %v", waited)
		}
		synctest.Wait()
		goroutines, start := bubble.Goroutines(t), time.Now()
		for range 60 {
			execute(t, bot, Input{Text: "a"})
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("60 calls waited %v for a handler that hangs", waited)
		}
		synctest.Wait()
		if more := bubble.Goroutines(t) - goroutines; more > 0 {
			t.Errorf("%d more goroutines", more)
		}
		close(goOn)
		synctest.Wait()
		execute(t, bot, Input{Text: "a"}) // waits for it again
		mu.Lock()
		defer mu.Unlock()
		if seen < 2048 || seen > 2*8192+5010 || missed == 0 {
			t.Errorf("saw %d events, and was told of %d that it has missed", seen, missed)
		}
	})
}

// What waits for a handler that hangs is bounded, in bytes too: of few turns with many tokens, and of many turns.
func TestSubscriberHangsInBytes(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	few, many := 2, 2000
	if soak() {
		few, many = 5, 3500
	}
	for _, c := range []struct{ turns, tokens int }{{few, 100_000}, {many, 0}} {
		d := echo()
		d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
			for range c.tokens {
				t.Emit(strings.Repeat("x", 100))
			}
			return nil
		}}
		bot := newWorld().Start(t, d, Options{})
		for range 2 * checkpoint.DefaultKeep {
			execute(t, bot, Input{Text: "a"})
		}
		goOn := make(chan struct{})
		unsubscribe := bot.Subscribe(func(Event) { <-goOn })
		before := reachable()
		for range c.turns {
			execute(t, bot, Input{Text: "a"})
		}
		more := reachable() - before
		t.Logf("%.1f MB of %d turns with %d tokens wait for a handler that hangs", float64(more)/1e6, c.turns, c.tokens)
		if more > 8<<20 {
			t.Errorf("%d bytes wait", more)
		}
		unsubscribe()
		close(goOn)
		if kept := reachable() - before; kept > 1<<20 {
			t.Errorf("%d bytes are kept for a handler that has left", kept)
		}
	}
}

// A call gives up an OnEvent that hangs after one SettleTimeout in all, and waits for one that is slow.
func TestOnEventHangs(t *testing.T) {
	const settle = 3 * time.Second
	o := Options{Limits: orchestrator.Limits{SettleTimeout: settle}}
	play := func(t *testing.T, ctx context.Context, on func(Event)) (took time.Duration, err error) {
		start := time.Now()
		bot := newWorld().Start(t, talking(10), o)
		_, err = bot.Execute(ctx, "s", Input{Text: "a"}, &orchestrator.CallOptions{OnEvent: on})
		return time.Since(start), err
	}
	t.Run("hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			goOn := make(chan struct{})
			calls := 0
			took, err := play(t, t.Context(), func(Event) { calls++; <-goOn })
			if err != nil || took != settle {
				t.Errorf("took %v: %v", took, err)
			}
			close(goOn)
			synctest.Wait()
			if calls != 1 {
				t.Errorf("%d calls after it was given up", calls-1)
			}
		})
	})
	t.Run("is slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			took, err := play(t, t.Context(), func(Event) { calls++; time.Sleep(settle - time.Millisecond) })
			if err != nil || calls != 15 || took < 14*(settle-time.Millisecond) {
				t.Errorf("took %v, %d calls: %v", took, calls, err)
			}
		})
	})
	t.Run("is slow, and nobody waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			took, err := play(t, ctx, func(ev Event) {
				if ev.Kind == orchestrator.TurnStarted {
					defer cancel()
				}
				time.Sleep(settle - time.Millisecond)
			})
			if took > 3*settle {
				t.Errorf("took %v: %v", took, err)
			}
			time.Sleep(settle) // the handler returns
		})
	})
}

// A stream without a reader holds a bounded number of events and of bytes. Its turn settles, and its last event is
// there. A reader who comes late is told how much is missing.
func TestUnreadStream(t *testing.T) {
	tokens := 1_000_000
	if raceDetector {
		tokens = 200_000 // which still are more than 1 MiB
	}
	defer leaktest.None(t, goleak.IgnoreCurrent())
	bot := newWorld().Start(t, talking(tokens), Options{})
	before := reachable()
	st := bot.Stream(t.Context(), "s", Input{Text: "a"}, nil)
	if _, err := st.Result(); err != nil {
		t.Fatal(err)
	}
	more := reachable() - before
	t.Logf("%d tokens without a reader hold %.1f MB", tokens, float64(more)/1e6)
	if more > 6<<20 {
		t.Errorf("%d bytes", more)
	}
	var read strings.Builder
	var last Event
	missed := 0
	for ev := range st.Events() {
		read.WriteString(ev.Delta)
		missed += ev.Dropped
		last = ev
	}
	if last.Kind != orchestrator.TurnSettled || missed == 0 {
		t.Errorf("ends with %s, and %d are missing", last.Kind, missed)
	}
	if got := read.String(); got != numbers(tokens)[:len(got)] || len(got) < 1<<20-100 {
		t.Errorf("read %d bytes, and not the first", len(got))
	}
}

// A reader who is slow, but not hopeless, loses nothing: tokens are joined, each branch's for itself.
func TestSlowStream(t *testing.T) {
	const tokens = 50_000
	d := Def{Name: "two", Intents: make(Intents)}
	for _, name := range []string{"a", "b"} {
		d.Intents[name] = Intent{Run: talking(tokens).Intents["echo"].Run}
	}
	d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil }
	st := newWorld().Start(t, d, Options{}).Stream(t.Context(), "s", Input{Text: "a"}, nil)
	if _, err := st.Result(); err != nil {
		t.Fatal(err)
	}
	said := make(map[string]string)
	events := 0
	for ev := range st.Events() {
		if events++; ev.Kind == orchestrator.Token {
			said[ev.Intent] += ev.Delta
		}
		if ev.Dropped > 0 {
			t.Errorf("%d are missing", ev.Dropped)
		}
	}
	if want := numbers(tokens); said["a"] != want || said["b"] != want || events > 8192 {
		t.Errorf("%d and %d bytes of %d, in %d events", len(said["a"]), len(said["b"]), len(want), events)
	}
}

// A token that is larger than all that may wait is let in if nothing else does.
func TestLargeToken(t *testing.T) {
	d := echo()
	large := strings.Repeat("x", 3<<20)
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error { t.Emit(large); return nil }}
	st := newWorld().Start(t, d, Options{}).Stream(t.Context(), "s", Input{Text: "a"}, nil)
	if _, err := st.Result(); err != nil {
		t.Fatal(err)
	}
	size := 0
	for ev := range st.Events() {
		size += len(ev.Delta)
	}
	if size != len(large) {
		t.Errorf("%d bytes", size)
	}
}

// Events that are no tokens are bounded too, except for the event that ends the turn.
func TestManyAttempts(t *testing.T) {
	d := echo()
	fails := func(context.Context, *Turn) error { return errDead }
	d.Intents["echo"] = Intent{Retry: retry.Fixed(20_000, 0), Run: fails}
	st := newWorld().Start(t, d, Options{}).Stream(t.Context(), "s", Input{Text: "a"}, nil)
	_, err := st.Result()
	wantErr(t, err, errDead)
	events, missed := 0, 0
	var last Event
	for last = range st.Events() {
		events++
		missed += last.Dropped
	}
	if events > 16_385 || last.Kind != orchestrator.TurnFailed || events+missed != 40_003 {
		t.Errorf("%d events, %d are missing, the last is %s", events, missed, last.Kind)
	}
}

// Functions that ignore their context are counted. When there are too many, calls are refused, until some return:
// they would otherwise cost memory without bound.
func TestTooManyStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1000
		goOn := make(chan struct{})
		d := echo()
		d.Intents["echo"] = Intent{Timeout: time.Second, Run: func(_ context.Context, t *Turn) error {
			if t.Input.Text == "hang" {
				<-goOn
			}
			return nil
		}}
		bot := world{Checkpoints: new(checkpoint.Memory)}.Start(t, d, Options{})
		before, bytes := bubble.Goroutines(t), memory()
		var calls sync.WaitGroup
		for i := range most {
			calls.Go(func() {
				if _, err := bot.Execute(t.Context(), fmt.Sprint("hangs ", i), Input{Text: "hang"}, nil); err == nil {
					t.Error("a function that hangs has settled")
				}
			})
		}
		calls.Wait()
		if n := bubble.Goroutines(t) - before; n > most+10 {
			t.Errorf("%d functions that hang keep %d goroutines", most, n)
		}
		t.Logf("each of %d functions that hang keeps %d bytes", most, (memory()-bytes)/most)
		_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
		wantErr(t, err, orchestrator.ErrTooManyStuck)
		close(goOn)
		synctest.Wait()
		execute(t, bot, Input{Text: "a"})
	})
}
