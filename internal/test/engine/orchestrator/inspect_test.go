package orchestrator_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A session is inspected before its first turn, while it is at work, after a turn and after a crash.
func TestInspect(t *testing.T) {
	for name, open := range map[string]func(*testing.T) world{
		"memory": func(*testing.T) world { return newWorld() }, "sqlite": onSQLite,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			d, started := hanging()
			bot := w.Start(t, d, Options{})
			st := inspect(t, bot)
			wantStanding(t, st, orchestrator.Standing{Turn: -1})
			if st.Run != nil || st.LeaseLeft != 0 || st.Beats != 0 {
				t.Errorf("without a session: %+v", st)
			}
			execute(t, bot, Input{Text: "quick"})
			wantStanding(t, inspect(t, bot), orchestrator.Standing{Turn: 0})

			ctx, leave := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := bot.Execute(ctx, "s", Input{Text: "slow", RequestID: "r"}, nil)
				done <- err
			}()
			<-started
			atWork(t, w, w.Start(t, d, Options{}))
			leave()
			wantErr(t, <-done, orchestrator.ErrIndeterminate)
			st = inspect(t, bot)
			wantStanding(t, st, orchestrator.Standing{Turn: 0})
			if st.Run == nil || st.Run.Status != snapshot.Waiting {
				t.Errorf("left in flight: %+v", st.Run)
			}
		})
	}
}

// atWork inspects session s from another process while a call is at work in its second turn.
func atWork(t *testing.T, w world, other *Bot) {
	t.Helper()
	st := inspect(t, other)
	if st.Owner == "" || st.LeaseLeft <= 0 {
		t.Fatalf("at work without an owner: %+v", st)
	}
	wantStanding(t, st, orchestrator.Standing{Owner: st.Owner, Turn: 0})
	beats, err := w.Checkpoints.(lock.Beater).Beat(t.Context(), st.Owner)
	if err != nil {
		t.Fatal(err)
	}
	if st = inspect(t, other); st.Beats < beats[st.Owner] {
		t.Errorf("%d beats, want %d", st.Beats, beats[st.Owner])
	}
	r := st.Run
	if r == nil || r.ID == "" || r.RequestID != "r" || r.Turn != 1 || r.Iteration != 0 ||
		r.Status != snapshot.Running || r.Started.IsZero() || r.Saved.IsZero() {
		t.Errorf("at work: %+v", r)
	}
}
