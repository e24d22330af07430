package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// Compaction runs once for each range that is due, and not on every turn from then on. Its event has its usage. The
// Result has not, because a replay must equal the Result.
func TestCompaction(t *testing.T) {
	c := new(compactor)
	events := new(diary)
	bot := newWorld().Start(t, echo(), Options{Compaction: orchestrator.Compaction{After: 5, Keep: 2, Run: c.Run}})
	for i := range 12 {
		in := Input{Text: "x", RequestID: fmt.Sprint("r", i)}
		res, err := bot.Execute(t.Context(), "s", in, &orchestrator.CallOptions{OnEvent: events.Note})
		if err != nil {
			t.Fatal(err)
		}
		if again := execute(t, bot, in); again.Usage != res.Usage {
			t.Errorf("turn %d used %v, and %v when it is replayed", i, res.Usage, again.Usage)
		}
	}
	used := 0
	for _, ev := range events.Events {
		if ev.Kind == orchestrator.Compacted {
			used += ev.Usage.Input
		}
	}
	if used != 300 {
		t.Errorf("events tell of %d tokens of compaction", used)
	}
	if got := c.Spans(); got != "0-2 3-5 6-8" {
		t.Errorf("ranges %s", got)
	}
	if n := strings.Count(events.Kinds(), "compacted turn.settled"); n != 3 {
		t.Errorf("%d compactions heard of: %s", n, events.Kinds())
	}
	if c.Ranges[0].ID == c.Ranges[1].ID {
		t.Error("two ranges have one ID")
	}
}

// A compaction that fails is tried again, with the same range and id until another range would be due too. It fails no
// turn.
func TestCompactionFails(t *testing.T) {
	c := &compactor{Fail: errors.New("model is down")}
	var logs bytes.Buffer
	bot := newWorld().Start(t, echo(), Options{
		Compaction: orchestrator.Compaction{After: 3, Keep: 1, Run: c.Run},
		Logger:     slog.New(slog.NewTextHandler(&logs, nil)),
	})
	for range 5 {
		execute(t, bot, Input{Text: "x"})
	}
	c.Fail = nil
	execute(t, bot, Input{Text: "x"})
	if got := c.Spans(); got != "0-1 0-1 0-3 0-4" || c.Ranges[0] != c.Ranges[1] {
		t.Errorf("ranges %s", got)
	}
	if n := strings.Count(logs.String(), "not compacted"); n != 3 {
		t.Errorf("%d log lines:\n%s", n, &logs)
	}
}

// A Compaction that is new to a session summarizes all that it does not keep at once, whatever After and Keep are.
func TestCompactionAddedLate(t *testing.T) {
	const before, after = 100, 30
	for _, o := range []orchestrator.Compaction{
		{After: 4, Keep: 8}, {After: 8, Keep: 8}, {After: 9, Keep: 8}, {After: 12, Keep: 8}, {After: 30, Keep: 8}, {After: 1},
	} {
		w, c := newWorld(), new(compactor)
		bot := w.Start(t, echo(), Options{})
		for range before {
			execute(t, bot, Input{Text: "x"})
		}
		o.Run = c.Run
		bot = w.Start(t, echo(), Options{Compaction: o})
		for range after {
			execute(t, bot, Input{Text: "x"})
		}
		if first := c.Ranges[0]; first.From != 0 || first.Through != before-8 {
			t.Errorf("After %d: the first range is %d-%d", o.After, first.From, first.Through)
		}
		due := max(o.After-8, 1)
		for i, r := range c.Ranges[1:] {
			if r.From != c.Ranges[i].Through+1 || r.Through != r.From+due-1 {
				t.Errorf("After %d: ranges %s", o.After, c.Spans())
			}
		}
		if left := before + after - 1 - c.Ranges[len(c.Ranges)-1].Through; left >= 8+due {
			t.Errorf("After %d: %d turns are left", o.After, left)
		}
	}
}

// A Due that obeys its context and says no once its time is up has not answered. The turns that follow do not wait for
// it again.
func TestCompactionDueHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, c := 0, new(compactor)
		bot := newWorld().Start(t, echo(), Options{Compaction: orchestrator.Compaction{
			Keep: 1, Run: c.Run, Timeout: 10 * time.Second,
			Due: func(ctx context.Context, _ orchestrator.Range) bool {
				asked++
				<-ctx.Done()
				return false
			},
		}})
		start := time.Now()
		for range 5 {
			execute(t, bot, Input{Text: "x"})
		}
		if took := time.Since(start); asked != 1 || took >= 20*time.Second {
			t.Errorf("asked %d times, in %v", asked, took)
		}
	})
}

// A crash between Run and the mark brings the same range again.
func TestCompactionCrashes(t *testing.T) {
	for name, due := range map[string]func(context.Context, orchestrator.Range) bool{
		"by turns": nil,
		"by func":  func(_ context.Context, r orchestrator.Range) bool { return r.Through-r.From >= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				c := new(compactor)
				compaction := orchestrator.Compaction{Keep: 1, Due: due, Run: c.Run}
				if due == nil {
					compaction.After = 3
				}
				bot := w.Start(t, echo(), Options{Compaction: compaction})
				execute(t, bot, Input{Text: "x"})
				execute(t, bot, Input{Text: "x"})
				g := &grave{World: w}
				dying := g.Ends()
				crash := compaction
				crash.Run = func(ctx context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
					used, err := c.Run(ctx, r)
					g.Die()
					return used, err
				}
				limits := orchestrator.Limits{SettleTimeout: 10 * time.Millisecond, LeaseTTL: 20 * time.Millisecond}
				execute(t, dying.Start(t, echo(), Options{Compaction: crash, Limits: limits}), Input{Text: "x"})
				execute(t, bot, Input{Text: "x"})
				execute(t, bot, Input{Text: "x"})
				if got := c.Spans(); !strings.HasPrefix(got, "0-1 0-1") || c.Ranges[0] != c.Ranges[1] ||
					len(c.Ranges) > 3 {
					t.Errorf("ranges %s", got)
				}
			})
		})
	}
}

// A summarizer that hangs delays a turn by its timeout, and no turn is lost.
func TestCompactionHangs(t *testing.T) {
	w := newWorld()
	hang := func(ctx context.Context, _ orchestrator.Range) (orchestrator.Usage, error) {
		<-ctx.Done()
		return orchestrator.Usage{}, ctx.Err()
	}
	bot := w.Start(t, echo(), Options{Compaction: orchestrator.Compaction{
		After: 1, Keep: 1, Run: hang,
		Timeout: time.Millisecond,
	}})
	for range 3 {
		execute(t, bot, Input{Text: "x"})
	}
	release, released := make(chan struct{}), make(chan struct{})
	ignore := func(context.Context, orchestrator.Range) (orchestrator.Usage, error) {
		<-release
		defer close(released)
		return orchestrator.Usage{}, nil
	}
	bot = w.Start(t, echo(), Options{
		Compaction: orchestrator.Compaction{After: 1, Keep: 1, Run: ignore, Timeout: time.Millisecond},
		Limits:     orchestrator.Limits{SettleTimeout: 10 * time.Millisecond},
	})
	execute(t, bot, Input{Text: "x"})
	close(release)
	<-released
	if got := len(turns(t, bot)); got != 4 {
		t.Errorf("%d turns", got)
	}
}

func TestCompactByHand(t *testing.T) {
	c := new(compactor)
	bot := newWorld().Start(t, echo(), Options{Compaction: orchestrator.Compaction{Keep: 2, Run: c.Run}})
	for range 6 {
		execute(t, bot, Input{Text: "x"})
	}
	for range 2 {
		if err := bot.Compact(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Spans(); got != "0-3" {
		t.Errorf("ranges %s", got)
	}
	if err := newWorld().Start(t, echo(), Options{}).Compact(t.Context(), "s"); err == nil {
		t.Error("compacted by nobody")
	}
	d, started := hanging()
	bot = newWorld().Start(t, d, Options{
		Compaction: orchestrator.Compaction{Run: c.Run},
		Limits:     orchestrator.Limits{LockWait: time.Millisecond},
	})
	ctx, cancel := context.WithCancel(t.Context())
	st := bot.Stream(ctx, "s", Input{}, nil)
	<-started
	wantErr(t, bot.Compact(t.Context(), "s"), orchestrator.ErrBusy)
	cancel()
	_, err := st.Result()
	wantErr(t, err, context.Canceled)
}

// A summarizer ignores the end of its context, and is given up. The session is free at once. Another process gets the
// same range, under the same id, while the first summarizer still runs.
func TestStuckSummarizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		ranges := make(chan orchestrator.Range, 2)
		var stuck atomic.Bool
		o := Options{Compaction: orchestrator.Compaction{
			After: 3, Keep: 1, Run: func(_ context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
				ranges <- r
				if stuck.CompareAndSwap(false, true) {
					<-release
				}
				return orchestrator.Usage{}, nil
			},
		}}
		w := newWorld()
		first, second := w.Start(t, echo(), o), w.Start(t, echo(), o)
		execute(t, first, Input{Text: "1"})
		execute(t, first, Input{Text: "2"})
		execute(t, first, Input{Text: "3"}) // its summarizer is given up
		start := time.Now()
		execute(t, second, Input{Text: "4"})
		took := time.Since(start)
		if a, b := <-ranges, <-ranges; took > time.Second || a != b {
			t.Errorf("after %v: %v, %v", took, a, b)
		}
	})
}
