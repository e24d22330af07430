package orchestrator_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
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
		process(t, worldOf(pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)))
	})
}

// B20: the times grow from owner to owner, whatever the clocks of their processes say. The first process is an hour
// ahead, the second an hour behind, and the third takes the run from the second while that one is at work.
func TestStampsOfTakeover(t *testing.T) {
	pool := testenv.Postgres(t)
	url := pool.Config().ConnString()
	l := new(turnlog.Memory)
	o := func(w world) Options {
		return Options{
			Snapshots: w.Snapshots, TurnLog: turnlog.New(l, nil), Logger: quiet(),
			Limits: orchestrator.Limits{DeadAfter: -1},
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
		grave := &grave{World: w}
		ends := grave.Ends()
		options := o(ends)
		d := recordsThen(turnlog.LLMComplete, func() error { grave.Die(); return errDead })
		bot, err := orchestrator.New(d, ends.Checkpoints, &options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
			t.Error("it did not die")
		}
		w.FreeUp(t, bot.Name())
	})
	working, hold, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		at(t, url, -time.Hour, func(t *testing.T, w world) {
			bot := w.Start(t, recordsThen(turnlog.ToolDispatched, func() error {
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
	third := worldOf(pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil))
	bot := third.Start(t, recordsThen("none", nil), o(third))
	run := wantRuns(t, bot, 1)[0]
	if run.Status != snapshot.Running {
		t.Errorf("the run is %s", run.Status)
	}
	if ended, err := bot.Abandon(t.Context(), "s", run.ID); !ended || err != nil {
		t.Errorf("abandoned %t, %v", ended, err)
	}
	close(hold)
	<-over
	all, err := l.Restore(t.Context(), run.ID)
	if err != nil || len(all) != 4 || !strings.Contains(string(all[3].State), `"cancelled"`) {
		t.Fatalf("the log has %+v, error %v", all, err)
	}
	for i, phase := range strings.Fields("started llm-complete tool-dispatched settled") {
		if all[i].Phase != phase {
			t.Errorf("phase %d is %q, want %s", i, all[i].Phase, phase)
		}
	}
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
