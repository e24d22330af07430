package orchestrator_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// at runs a process whose clock goes ahead of the server's by d, or behind.
func at(t *testing.T, url string, d time.Duration, process func(t *testing.T, w world)) {
	now := time.Now().Add(d)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		process(t, world{pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)})
	})
}

// B20: the times grow from owner to owner, whatever the clocks of their processes say. The first process is an hour
// ahead, the second an hour behind, and the third takes the run from the second while that one is at work.
func TestStampsOfTakeover(t *testing.T) {
	pool := testenv.Postgres(t)
	url := pool.Config().ConnString()
	l := new(watchedLog)
	o := func(w world) Options {
		return Options{
			Snapshots: w.snapshots, TurnLog: registered(l), Logger: quiet(), Limits: orchestrator.Limits{DeadAfter: -1},
		}
	}
	recordsThen := func(phase string, then func() error) Def {
		return Def{Name: "agent", Intents: Intents{"model": {Run: func(ctx context.Context, t *Turn) error {
			if err := t.Record(ctx, phase, nil); err != nil {
				return err
			}
			return then()
		}}}}
	}
	in := Input{RequestID: "r", Text: "a"}
	at(t, url, time.Hour, func(t *testing.T, w world) {
		grave := &grave{world: w}
		ends := grave.ends()
		options := o(ends)
		d := recordsThen(turnlog.LLMComplete, func() error { grave.die(); return errDead })
		bot, err := orchestrator.New(d, ends.checkpoints, &options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
			t.Error("it did not die")
		}
		w.freeUp(t, bot.Name())
	})
	working, hold, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		at(t, url, -time.Hour, func(t *testing.T, w world) {
			bot := w.start(t, recordsThen(turnlog.ToolDispatched, func() error {
				close(working)
				<-hold
				return nil
			}), o(w))
			if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
				t.Error("the second has kept its session")
			}
		})
	}()
	<-working
	third := world{pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)}
	bot := third.start(t, recordsThen("none", nil), o(third))
	run := wantRuns(t, bot, 1)[0]
	if run.Status != snapshot.Running {
		t.Errorf("the run is %s", run.Status)
	}
	if ended, err := bot.Abandon(t.Context(), "s", run.ID); !ended || err != nil {
		t.Errorf("abandoned %t, %v", ended, err)
	}
	close(hold)
	<-over
	all := l.wantPhases(t, "started llm-complete tool-dispatched settled(cancelled)")
	for i, e := range all[1:] {
		if !all[i].At.Before(e.At) {
			t.Errorf("%s is at %v, and %s before it at %v", e.Phase, e.At, all[i].Phase, all[i].At)
		}
	}
	var server time.Time
	if err := pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&server); err != nil {
		t.Fatal(err)
	}
	if ago := server.Sub(all[0].At); ago < 0 || ago > time.Minute {
		t.Errorf("the first time is %v before the server's", ago)
	}
}

// A process without a turn log accepts an input that no log takes, and dies. A process with one finishes the turn, and
// the log has its phases without the input.
func TestInputOfAProcessWithoutLog(t *testing.T) {
	in := Input{RequestID: "r", Text: strings.Repeat("x", 1<<20-2)}
	for name, ends := range map[string]func(t *testing.T, bot *Bot) string{
		"finished": func(t *testing.T, bot *Bot) string {
			if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
				t.Error(err)
			}
			return "started settled(complete)"
		},
		"abandoned": func(t *testing.T, bot *Bot) string {
			if err := abandon(t, bot, "s"); err != nil {
				t.Error(err)
			}
			return "started settled(cancelled)"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := newWorld(), new(watchedLog)
			w.crash(t, func(die func()) Def {
				d := echo()
				d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
				return d
			}, in)
			bot := w.start(t, echo(), Options{TurnLog: l})
			l.wantPhases(t, ends(t, bot))
			execute(t, bot, Input{Text: "b"})
		})
	}
}
