package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

func holdsNone(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q holds %q", text, part)
		}
	}
}

// wantOneLine shows that the text of an error is one line, and says nothing twice.
func wantOneLine(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	text := err.Error()
	if strings.ContainsAny(text, "\n\r\t") {
		t.Errorf("several lines: %q", text)
	}
	said := make(map[string]bool)
	for one := range strings.SplitSeq(text, "; ") {
		if said[one] {
			t.Errorf("%q is there twice: %s", one, text)
		}
		said[one] = true
		seen := make(map[string]bool)
		for part := range strings.SplitSeq(one, ": ") {
			if seen[part] {
				t.Errorf("%q is there twice: %s", part, text)
			}
			seen[part] = true
		}
	}
}

// Each error that a turn can meet is one line that says nothing twice, however it was wrapped and joined.
func TestErrorsAreOneLine(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	several := errors.Join(refused, errors.New("dial udp\n\tconnection refused\n"), refused)
	limits := orchestrator.Limits{
		LockWait: time.Second, SettleTimeout: time.Second, TurnTimeout: 10 * time.Second, Iterations: 2,
	}
	fails := func(err error) Def {
		d := echo()
		d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { return err }}
		return d
	}
	untilEnd := func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return ctx.Err() }
	deaf := func(context.Context, *Turn) error { time.Sleep(time.Minute); return nil }
	causeOfEnd := func(ctx context.Context, _ *Turn) error {
		<-ctx.Done()
		return fmt.Errorf("model: %w", context.Cause(ctx))
	}
	fan := func(run func(context.Context, *Turn) error) Def {
		return Def{Name: "fan", Intents: Intents{"a": {Run: run}, "b": {Run: run}}, Route: func(
			context.Context, *Turn,
		) (Next, error) {
			return orchestrator.To("a", "b"), nil
		}}
	}
	slow := func(run func(context.Context, *Turn) error) Def {
		d := echo()
		d.Intents["echo"] = Intent{Run: run, Timeout: time.Second, Retry: retry.Policy{Attempts: 2}}
		return d
	}
	begin := echo()
	begin.Begin = func(context.Context, *Turn) error { return &orchestrator.InputError{Field: "text", Reason: "a\nb"} }
	panics := echo()
	panics.Begin = func(context.Context, *Turn) error { panic("a\nb") }
	fault := func(err error, methods ...string) faulttest.Around { return faulttest.Fail(err, methods...) }
	hang := faulttest.On(func(ctx context.Context, _ faulttest.Call, _ func(context.Context) error) error {
		<-ctx.Done()
		return fmt.Errorf("timeout: %w", ctx.Err())
	}, "Claim", "Begin", "Append", "Save")
	none := fault(nil)
	for name, c := range map[string]struct {
		def    Def
		around faulttest.Around
		ctx    time.Duration
	}{
		"several lines":              {fails(several), none, 0},
		"input":                      {begin, none, 0},
		"panic":                      {panics, none, 0},
		"stuck":                      {slowTurn(deaf), none, 0},
		"turn timeout, bare":         {slowTurn(untilEnd), none, 0},
		"turn timeout, wrapped":      {slowTurn(causeOfEnd), none, 0},
		"intent timeout":             {slow(untilEnd), none, 0},
		"intent timeout, wrapped":    {slow(causeOfEnd), none, 0},
		"fan-out":                    {fan(func(context.Context, *Turn) error { return several }), none, 0},
		"fan-out, turn timeout":      {fan(causeOfEnd), none, 0},
		"deadline of the caller":     {slowTurn(untilEnd), none, 5 * time.Second},
		"deadline, and not saved":    {slowTurn(untilEnd), fault(several, "Save"), 5 * time.Second},
		"failed, and not saved":      {fails(several), fault(several, "Save"), 0},
		"claim":                      {echo(), fault(several, "Claim"), 0},
		"claim refused":              {echo(), fault(errDown(checkpoint.ErrRefused), "Claim"), 0},
		"claim refused, and ctx":     {echo(), fault(errDown(checkpoint.ErrRefused), "Claim"), 100 * time.Millisecond},
		"begin refused":              {echo(), fault(errDown(snapshot.ErrRefused), "Begin"), 0},
		"begin":                      {echo(), fault(several, "Begin"), 0},
		"append":                     {echo(), fault(several, "Append"), 0},
		"append conflicts, and runs": {echo(), fault(checkpoint.ErrConflict, "Append", "Turns"), 0},
		"no answer":                  {echo(), hang, 0},
		"no answer, and ctx":         {echo(), hang, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				o := Options{Limits: limits}
				faulty := worldOf(
					faulttest.Checkpoints(w.Checkpoints, c.around), faulttest.Snapshots(w.Snapshots, c.around))
				bot := faulty.Start(t, c.def, o)
				ctx := t.Context()
				if c.ctx > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.ctx)
					defer cancel()
				}
				for _, id := range []string{"", "r"} {
					_, err := bot.Execute(ctx, "s"+id, Input{RequestID: id, Text: "a"}, nil)
					wantOneLine(t, err)
				}
				time.Sleep(time.Hour) // the functions that were given up return
			})
		})
	}
}

func slowTurn(run func(context.Context, *Turn) error) Def {
	d := echo()
	d.Intents["echo"] = Intent{Run: run}
	return d
}

// An error says whose time was up: the turn's, the intent's or the caller's.
func TestTimeoutsNameThemselves(t *testing.T) {
	kinds := []error{orchestrator.ErrTurnTimeout, orchestrator.ErrIntentTimeout}
	for name, c := range map[string]struct {
		turn, intent, caller time.Duration
		want                 error // one of kinds, or nil for the caller's
	}{
		"turn":   {time.Second, time.Minute, time.Minute, orchestrator.ErrTurnTimeout},
		"intent": {time.Minute, time.Second, time.Minute, orchestrator.ErrIntentTimeout},
		"caller": {time.Minute, time.Minute, time.Second, nil},
	} {
		for what, run := range map[string]func(context.Context, *Turn) error{
			"returns the end of ctx": func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return ctx.Err() },
			"returns its own":        func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return errors.New("cut off") },
		} {
			t.Run(name+", and the intent "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := Def{Name: "slow", Intents: Intents{"slow": {Run: run, Timeout: c.intent}}}
					bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{TurnTimeout: c.turn}})
					ctx, cancel := context.WithTimeout(t.Context(), c.caller)
					defer cancel()
					_, err := bot.Execute(ctx, "s", Input{}, nil)
					wantErr(t, err, context.DeadlineExceeded)
					for _, kind := range kinds {
						if is := errors.Is(err, kind); is != (kind == c.want) { //nolint:errorlint // one of kinds
							t.Errorf("%v: is %q: %v", err, kind, is)
						}
					}
					if errors.Is(err, orchestrator.ErrIndeterminate) != (c.want == nil) {
						t.Errorf("%v", err)
					}
				})
			})
		}
	}
}

// What a bot that was called says of its own time is not said of the caller's turn.
func TestTimeoutOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowTurn(func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return ctx.Err() })
		child := newWorld().Start(t, slow, Options{Limits: orchestrator.Limits{TurnTimeout: time.Second}})
		d := Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, _ *Turn) error {
			_, err := child.Execute(ctx, "child", Input{}, nil)
			wantErr(t, err, orchestrator.ErrTurnTimeout)
			return err
		}}}}
		_, err := newWorld().Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, err, context.DeadlineExceeded)
		if errors.Is(err, orchestrator.ErrTurnTimeout) {
			t.Errorf("the parent's turn has no limit: %v", err)
		}
	})
}

// An attempt that takes too long may be followed by one that does not.
func TestIntentTimeoutIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		d := Def{Name: "slow", Intents: Intents{"slow": {
			Timeout: time.Second, Retry: retry.Policy{Attempts: 2},
			Run: func(ctx context.Context, _ *Turn) error {
				if attempts++; attempts > 1 {
					return nil
				}
				<-ctx.Done()
				wantErr(t, context.Cause(ctx), orchestrator.ErrIntentTimeout)
				return ctx.Err()
			},
		}}}
		if _, err := newWorld().Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, nil); err != nil {
			t.Error(err)
		}
	})
}

// The stack of a panic is logged once, also if the panic goes on through several bots and is tried to be caught.
func TestStackIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	child := newWorld().Start(t, slowTurn(func(context.Context, *Turn) error { panic("card 4711") }), o)
	d := Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, _ *Turn) error {
		_, err := child.Execute(ctx, "child", Input{}, nil)
		panic(err)
	}}}}
	_, err := newWorld().Start(t, d, o).Execute(t.Context(), "s", Input{}, nil)
	if p, ok := errors.AsType[*orchestrator.PanicError](err); !ok ||
		!bytes.Contains(p.Stack, []byte("errortext_test.go")) {
		t.Errorf("got %v", err)
	}
	if n := strings.Count(log.String(), "errortext_test.go:"); n == 0 || strings.Count(log.String(), "[running]") != 1 {
		t.Errorf("stacks: %s", log.String())
	}
	for _, part := range []string{"function panicked", "session=child", "run=", "type=string"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("%q is missing: %s", part, log.String())
		}
	}
	holdsNone(t, log.String(), "4711")
}
