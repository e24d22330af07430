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

// errDown is what a store returns whose server does not run.
func errDown(refused error) error {
	return errors.Join(refused, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
}

// away makes the stores of a world unreachable for d, except for some methods. It returns how many calls they got.
func (w world) away(d time.Duration, methods ...string) (away world, calls func() int64) {
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
		faulttest.Checkpoints(w.checkpoints, around(checkpoint.ErrRefused)),
		faulttest.Snapshots(w.snapshots, around(snapshot.ErrRefused)),
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
				w, calls := newWorld().away(c.down)
				bot := w.start(t, echo(), Options{Limits: orchestrator.Limits{LockWait: 30 * time.Second}})
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
			w, _ := newWorld().away(time.Hour, "Begin", "Runs", "Adopt", "Save")
			d := echo()
			if hook {
				d.Begin = func(context.Context, *Turn) error { return nil }
			}
			bot := w.start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}})
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
	w, _ := newWorld().away(time.Hour)
	bot := w.start(t, echo(), Options{Limits: orchestrator.Limits{LockWait: 20 * time.Millisecond}})
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
	w, _ := newWorld().away(time.Hour, "Append", "Save")
	bot := w.start(t, echo(), Options{Limits: orchestrator.Limits{SettleTimeout: 50 * time.Millisecond}})
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "a"}, nil)
	wantErr(t, err, orchestrator.ErrIndeterminate)
	if errors.Is(err, orchestrator.ErrUnavailable) {
		t.Errorf("nothing was begun, it says: %v", err)
	}
}

// An outage is logged when it begins and when it ends, and not for each call.
func TestOutageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newWorld().away(10 * time.Second)
		var log bytes.Buffer
		bot := w.start(t, echo(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
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
