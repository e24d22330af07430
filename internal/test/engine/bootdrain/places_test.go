package bootdrain_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/runnote"
)

// A ward is a bot whose sessions say what their runs do: "hang…" waits for the end of ctx, others do nothing.
type ward struct {
	sessions []string

	mu   sync.Mutex // protects following fields
	done map[string]time.Duration
	from time.Time
}

func (*ward) Name() string { return "ward" }

func (w *ward) Recoverable(context.Context, bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, session := range w.sessions {
			if !yield(session, nil) {
				return
			}
		}
	}
}

func (w *ward) Recover(ctx context.Context, session string) (string, error) {
	if strings.HasPrefix(session, "hang") {
		<-ctx.Done()
		return "", ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.done[session]; !again {
		w.done[session] = time.Since(w.from)
	}
	return "settled", nil
}

// Hooks that hang, and runs that wait for the end of their context, delay other runs for seconds, not for ever.
func TestHungRunsGiveWay(t *testing.T) {
	for name, drain := range map[string]func(context.Context, *ward, *bootdrain.Options){
		"watch": func(ctx context.Context, w *ward, o *bootdrain.Options) { _ = bootdrain.Watch(ctx, w, o) },
		"drain": func(ctx context.Context, w *ward, o *bootdrain.Options) {
			_, _ = bootdrain.DrainInterrupted(ctx, w, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &ward{done: make(map[string]time.Duration), from: time.Now()}
				for i := range 20 {
					w.sessions = append(w.sessions, "hang"+strconv.Itoa(i))
				}
				w.sessions = append(w.sessions, "well")
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				drain(ctx, w, &bootdrain.Options{Logger: slog.New(slog.DiscardHandler)})
				if took, ok := w.done["well"]; !ok || took > 40*time.Second {
					t.Errorf("the one that is well was done %t, after %v", ok, took)
				}
			})
		})
	}
}

// A run that is at work takes no place: the claims alone share the places. At most Running runs go on at once, and the
// next one begins when one has ended.
func TestRunsAtWork(t *testing.T) {
	const claim, long = 10 * time.Millisecond, 10 * time.Second
	for _, test := range []struct {
		o       bootdrain.Options
		runs    int
		most    int
		elapsed time.Duration
	}{
		{bootdrain.Options{}, 200, 200, 200/4*claim + long},
		{bootdrain.Options{}, 300, 256, 2*(claim+long) + (300-256-4)/4*claim},
		{bootdrain.Options{Concurrency: 20}, 200, 200, 200/20*claim + long},
		{bootdrain.Options{Running: 4}, 12, 4, 3 * (claim + long)},
		{bootdrain.Options{Running: 1}, 3, 1, 3 * (claim + long)},
	} {
		t.Run(fmt.Sprintf("%d runs, %+v", test.runs, test.o), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var claims, mostClaims int
				b := &script{outcomes: make(map[string]string)}
				b.recover = func(ctx context.Context, _ string) {
					count := func(n int) {
						b.mu.Lock()
						defer b.mu.Unlock()
						claims += n
						mostClaims = max(mostClaims, claims)
					}
					count(+1)
					time.Sleep(claim)
					count(-1)
					runnote.AtWork(ctx)
					time.Sleep(long)
					runnote.AtWork(ctx) // as a delivery says after the run
				}
				for i := range test.runs {
					b.outcomes[strconv.Itoa(i)] = "settled"
				}
				o := test.o
				o.Logger = quiet
				report, err := bootdrain.DrainInterrupted(t.Context(), b, &o)
				if err != nil || report.Settled != test.runs || report.Scanned != test.runs {
					t.Errorf("%d of %d settled: %v", report.Settled, report.Scanned, err)
				}
				if b.most != test.most || report.Elapsed != test.elapsed {
					t.Errorf("%d at once in %v, want %d in %v", b.most, report.Elapsed, test.most, test.elapsed)
				}
				if want := max(o.Concurrency, 4); mostClaims > want {
					t.Errorf("%d claims at once, want %d at most", mostClaims, want)
				}
			})
		})
	}
}

// If as many runs hang as may go on, the next run waits until one has ended. The watch begins no run twice. At its end
// it waits for all.
func TestRunningIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 256
		b := &script{outcomes: make(map[string]string)}
		release := make(chan struct{})
		b.recover = func(ctx context.Context, session string) {
			runnote.AtWork(ctx)
			select {
			case <-release:
			case <-ctx.Done():
				time.Sleep(time.Second) // to hand off
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.outcomes, session)
		}
		for i := range most + 10 {
			b.outcomes[strconv.Itoa(i)] = "settled"
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = bootdrain.Watch(ctx, b, &bootdrain.Options{Logger: quiet})
		}()
		want := func(begun, now int) {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			if len(b.calls) != begun || b.now != now {
				t.Errorf("%d runs have begun, and %d are under way; want %d and %d", len(b.calls), b.now, begun, now)
			}
		}
		time.Sleep(time.Minute)
		want(most, most)
		for i := range 10 {
			release <- struct{}{}
			synctest.Wait()
			want(most+1+i, most)
		}
		cancel()
		<-over
		want(most+10, 0)
	})
}

// A handler may end its goroutine, as the FailNow of a test does. That loses the event, but no place.
func TestOnRunGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{done: make(map[string]time.Duration), from: time.Now()}
		for i := range 12 {
			w.sessions = append(w.sessions, strconv.Itoa(i))
		}
		var logs strings.Builder
		told := 0
		_, err := bootdrain.DrainInterrupted(t.Context(), w, &bootdrain.Options{
			Logger: slog.New(slog.NewTextHandler(&logs, nil)), OnRun: func(bootdrain.Run) { told++; runtime.Goexit() },
		})
		if err != nil || told != 12 || len(w.done) != 12 {
			t.Errorf("%v: told of %d, %d done", err, told, len(w.done))
		}
		if n := strings.Count(logs.String(), "OnRun has not returned"); n != 12 {
			t.Errorf("logged %d times", n)
		}
	})
}
