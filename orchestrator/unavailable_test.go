package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// errDown is the error of a store whose server does not run.
func errDown(refused error) error {
	return errors.Join(refused, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
}

// away makes the stores of a world unreachable for d, except for some methods. It returns how many calls they got.
func awayFor(w world, d time.Duration, methods ...string) (away world, calls func() int64) {
	start := time.Now()
	var n atomic.Int64
	around := func(refused error) faulttest.Around {
		down := func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			if time.Since(start) >= d {
				return next(ctx)
			}
			n.Add(1)
			return errDown(refused)
		}
		if len(methods) == 0 {
			return down
		}
		return faulttest.On(down, methods...)
	}
	return world{
		Checkpoints: faulttest.Checkpoints(w.Checkpoints, around(checkpoint.ErrRefused)),
		Snapshots:   faulttest.Snapshots(w.Snapshots, around(snapshot.ErrRefused)),
	}, n.Load
}

// A claim waits for the store as long as it would for the session.
func TestClaimWaitsForStore(t *testing.T) {
	for name, c := range map[string]struct {
		down, patience time.Duration
		want           error
	}{
		"it comes back":            {20 * time.Second, time.Hour, nil},
		"it stays away":            {time.Hour, time.Hour, orchestrator.ErrUnavailable},
		"the caller does not wait": {time.Hour, 5 * time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, calls := awayFor(newWorld(), c.down)
				bot := w.Start(t, echo(), Options{Limits: orchestrator.Limits{LockWait: 30 * time.Second}})
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				start := time.Now()
				_, err := bot.Execute(ctx, "s", Input{RequestID: "r", Text: "a"}, nil)
				took := time.Since(start)
				if c.want == nil {
					if err != nil || took > c.down+2*time.Second {
						t.Errorf("after %v: %v", took, err)
					}
				} else {
					wantErr(t, err, c.want)
					wantErr(t, err, orchestrator.ErrUnavailable)
					wantErr(t, err, syscall.ECONNREFUSED)
					if errors.Is(err, orchestrator.ErrIndeterminate) || took != min(c.patience, 30*time.Second) {
						t.Errorf("after %v: %v", took, err)
					}
				}
				if n := calls(); n > 200 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

// A store of runs that cannot be reached begins nothing, also for a request that may have come before.
func TestBeginUnavailable(t *testing.T) {
	for _, id := range []string{"", "r"} {
		for _, hook := range []bool{false, true} {
			w, _ := awayFor(newWorld(), time.Hour, "Begin", "Runs", "Adopt", "Save")
			d := echo()
			if hook {
				d.Begin = func(context.Context, *Turn) error { return nil }
			}
			bot := w.Start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}})
			_, err := bot.Execute(t.Context(), "s", Input{RequestID: id, Text: "a"}, nil)
			wantErr(t, err, orchestrator.ErrUnavailable)
			if errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Errorf("in doubt: %v", err)
			}
		}
	}
}

// What begins nothing says so in every method.
func TestMethodsUnavailable(t *testing.T) {
	w, _ := awayFor(newWorld(), time.Hour)
	bot := w.Start(t, echo(), Options{Limits: orchestrator.Limits{LockWait: 20 * time.Millisecond}})
	errs := map[string]error{
		"Delete": bot.Delete(t.Context(), "s"),
		"Fork":   bot.Fork(t.Context(), "s", 0, "other"),
	}
	_, errs["Resume"] = bot.Resume(t.Context(), "s", nil)
	_, errs["Abandon"] = bot.Abandon(t.Context(), "s", "")
	_, errs["SkipDelivery"] = bot.SkipDelivery(t.Context(), "s", "r")
	for _, err := range bot.Turns(t.Context(), "s") {
		errs["Turns"] = err
	}
	for _, err := range bot.Runs(t.Context()) {
		errs["Runs"] = err
	}
	for _, err := range errs {
		wantErr(t, err, orchestrator.ErrUnavailable)
	}
	if len(errs) != 7 {
		t.Errorf("%d methods failed", len(errs))
	}
}

// A store that goes away once the turn has begun leaves the outcome open.
func TestAwayAfterBegin(t *testing.T) {
	w, _ := awayFor(newWorld(), time.Hour, "Append", "Save")
	bot := w.Start(t, echo(), Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}})
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "a"}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	if errors.Is(err, orchestrator.ErrUnavailable) {
		t.Errorf("nothing was begun, it says: %v", err)
	}
}

// An outage is logged when it begins and when it ends, and not for each call.
func TestOutageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := awayFor(newWorld(), 10*time.Second)
		var log bytes.Buffer
		bot := w.Start(t, echo(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			_, err := bot.Recover(t.Context(), "s")
			wantErr(t, err, orchestrator.ErrUnavailable)
		}
		for _, session := range []string{"s", "s", "other"} {
			if _, err := bot.Execute(t.Context(), session, Input{Text: "a"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		text := log.String()
		for _, line := range []string{"store takes no claim; callers wait", "store takes claims again"} {
			if n := strings.Count(text, line); n != 1 {
				t.Errorf("%q is logged %d times", line, n)
			}
		}
	})
}

// A store is asked for the run in flight, or for kept turns, and hangs. The call is given up, and the session is free
// for a process whose store answers.
func TestReadHangs(t *testing.T) {
	resume := func(ctx context.Context, b *Bot) error { _, err := b.Resume(ctx, "s", nil); return err }
	for name, c := range map[string]struct {
		method  string
		answers int64 // before it hangs
		call    func(context.Context, *Bot) error
		want    error
	}{
		"Recover": {
			"Runs", 1, func(ctx context.Context, b *Bot) error { _, err := b.Recover(ctx, "s"); return err },
			orchestrator.ErrUnavailable,
		},
		"Resume": {"Runs", 1, resume, orchestrator.ErrUnavailable},
		"Execute": {"Runs", 0, func(ctx context.Context, b *Bot) error {
			_, err := b.Execute(ctx, "s", Input{Text: "d", RequestID: "d"}, nil)
			return err
		}, orchestrator.ErrIndeterminate},
		"Delete": {
			"Runs", 0, func(ctx context.Context, b *Bot) error { return b.Delete(ctx, "s") }, orchestrator.ErrUnavailable,
		},
		"turns": {"Turns", 0, resume, orchestrator.ErrUnavailable},
		"an owed turn": {"Turns", 0, func(ctx context.Context, b *Bot) error {
			_, err := b.SkipDelivery(ctx, "s", "r")
			return err
		}, orchestrator.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, d := newWorld(), echo()
				d.Begin = func(context.Context, *Turn) error { return nil }
				d.Deliver = func(context.Context, *Result) error { return errors.New("down") }
				leaveBehind(t, w, "a")
				if c.method == "Turns" { // turns that may have settled the run
					other := worldOf(w.Checkpoints, new(snapshot.Memory)).Start(t, d, Options{})
					execute(t, other, Input{Text: "b"})
					execute(t, other, Input{Text: "c"})
				}
				hangs := hangsAt(w, c.method, c.answers).Start(t, d, Options{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				err := c.call(ctx, hangs)
				wantErr(t, err, c.want)
				if errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Minute {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				start = time.Now()
				execute(t, w.Start(t, d, Options{}), Input{Text: "e"})
				if took := time.Since(start); took > time.Second {
					t.Errorf("the session was held for another %v", took)
				}
			})
		})
	}
}

// leave leaves a run in flight.
func leaveBehind(t *testing.T, w world, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	d := echo()
	d.Intents = Intents{"echo": {Run: hang}}
	d.Begin = func(context.Context, *Turn) error { return nil }
	_, err := w.Start(t, d, Options{}).Execute(ctx, "s", Input{Text: text, RequestID: text}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
}

// hangs makes a method of the stores hang after some answers.
func hangsAt(w world, method string, answers int64) world {
	var n atomic.Int64
	around := faulttest.On(func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
		if n.Add(1) <= answers {
			return next(ctx)
		}
		<-ctx.Done()
		return ctx.Err()
	}, method)
	return worldOf(faulttest.Checkpoints(w.Checkpoints, around), faulttest.Snapshots(w.Snapshots, around))
}
