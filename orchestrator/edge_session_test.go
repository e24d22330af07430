package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// No session has the empty name. Abandon of that name returns an error, and ends no waiting call.
func TestAbandonNobody(t *testing.T) {
	d, started := hanging()
	w := world{Checkpoints: new(checkpoint.Memory)}
	bot := w.Start(t, d, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	run := func(ctx context.Context, text string) {
		_, err := bot.Execute(ctx, "s", Input{Text: text}, nil)
		done <- err
	}
	go run(ctx, "")
	<-started
	go run(t.Context(), "quick")
	for range 100 { // until the second waits
		time.Sleep(time.Millisecond)
	}
	if err := abandon(t, bot, ""); err == nil {
		t.Error("no error")
	}
	cancel()
	first, second := <-done, <-done
	if errors.Is(first, orchestrator.ErrAbandoned) || errors.Is(second, orchestrator.ErrAbandoned) {
		t.Errorf("%v; %v", first, second)
	}
}

// Work that a turn has started may outlive the turn, with the values of its context. It may then call for the session.
func TestReentrantAfterwards(t *testing.T) {
	var inner context.Context
	d := echo()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
		inner = context.WithoutCancel(ctx)
		return nil
	}}
	bot := newWorld().Start(t, d, Options{})
	execute(t, bot, Input{Text: "a"})
	if _, err := bot.Execute(inner, "s", Input{Text: "b"}, nil); err != nil {
		t.Error(err)
	}
}

func steal(t *testing.T, w world, name string) {
	_, err := seize(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: name, Session: "s"}, "thief", time.Minute)
	if err != nil {
		t.Error(err)
	}
}

// An owner learns that it is late after its caller has gone. It does not summarize.
func TestLateAndLeft(t *testing.T) {
	for name, gone := range map[string]bool{"caller there": false, "caller gone": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			compacted := false
			d := echo()
			armed := false
			d.Deliver = func(context.Context, *Result) error {
				if armed {
					if gone {
						cancel()
					}
					steal(t, w, "echo")
				}
				return nil
			}
			bot := w.Start(t, d, Options{Compaction: orchestrator.Compaction{
				After: 1, Keep: 1,
				Run: func(context.Context, orchestrator.Range) (u orchestrator.Usage, err error) {
					compacted = true
					return u, nil
				},
			}})
			execute(t, bot, Input{Text: "a"})
			armed = true
			if _, err := bot.Execute(ctx, "s", Input{Text: "b"}, nil); err != nil {
				t.Error(err)
			}
			if compacted {
				t.Error("summarized by a late owner")
			}
		})
	}
}

// If an owner has lost the session, its hook gets the error.
func TestDeliverOfLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := echo()
		var took time.Duration
		d.Deliver = func(ctx context.Context, _ *Result) error {
			steal(t, w, "echo")
			start := time.Now()
			<-ctx.Done()
			took = time.Since(start)
			return ctx.Err()
		}
		bot := w.Start(t, d, Options{Limits: orchestrator.Limits{
			LeaseTTL:      time.Minute,
			SettleTimeout: time.Hour,
		}})
		execute(t, bot, Input{Text: "a"})
		if took > time.Minute {
			t.Errorf("told after %v, with a lease of a minute", took)
		}
	})
}

// If the fate of a run in flight is unknown, the error does not say that the input was refused.
func TestLeftNotRefused(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
	w.Snapshots = faulttest.Snapshots(w.Snapshots, faulttest.Fail(errors.New("no reply"), "Adopt"))
	bot := w.Start(t, steps(nil), Options{Limits: orchestrator.Limits{SettleTimeout: 30 * time.Millisecond}})
	events := new(diary)
	_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"},
		&orchestrator.CallOptions{OnEvent: events.Note})
	wantErr(t, err, orchestrator.ErrIndeterminate)
	if got := events.Kinds(); got != "turn.left" {
		t.Errorf("events %s", got)
	}
}

// A reader that changes an event does not change the turn.
func TestEventIsOwn(t *testing.T) {
	goOn := make(chan struct{})
	d := steps(nil)
	one := d.Intents["one"]
	d.Intents["one"] = Intent{
		Next: one.Next,
		Run:  func(ctx context.Context, t *Turn) error { <-goOn; return one.Run(ctx, t) },
	}
	bot := newWorld().Start(t, d, Options{})
	st := bot.Stream(t.Context(), "s", Input{Text: "a"}, nil)
	for ev := range st.Events() {
		if ev.Kind == orchestrator.Routed && ev.Iteration == 0 {
			ev.Next.Intents[0] = "zero"
			close(goOn)
		}
	}
	res, err := st.Result()
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Steps[0].Next.Intents[0]; got != "one" {
		t.Errorf("the stored turn says that %q ran", got)
	}
}

// A claim that hangs is bounded by LockWait.
func TestClaimHangs(t *testing.T) {
	t.Parallel()
	hung := func(ctx context.Context, _ faulttest.Call, _ func(context.Context) error) error {
		<-ctx.Done()
		return ctx.Err()
	}
	bot, err := orchestrator.New(echo(), faulttest.Checkpoints(new(checkpoint.Memory), faulttest.On(hung, "Claim")),
		&Options{Logger: quiet(), Limits: orchestrator.Limits{
			LockWait:      30 * time.Millisecond,
			SettleTimeout: 10 * time.Millisecond,
		}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bot.Execute(soon(t), "s", Input{}, nil)
	wantErr(t, err, orchestrator.ErrUnavailable)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it reads like the caller's own deadline: %v", err)
	}
}
