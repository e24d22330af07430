package orchestrator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
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
		process(t, world{pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)})
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
			Snapshots: w.snapshots, TurnLog: turnlog.New(l, nil), Logger: quiet(),
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

// A turn records faster than one phase a millisecond, and is suspended. A person answers at once, and another process
// goes on. Its phases are later than those before.
func TestStampsOfSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, effects := newWorld(), new(turnlog.Memory), new(ledger.Memory)
		d := Def{Name: "agent", Intents: Intents{"model": {Run: func(ctx context.Context, t *Turn) error {
			for range 50 {
				if err := t.Record(ctx, turnlog.LLMComplete, nil); err != nil {
					return err
				}
			}
			fails := func(context.Context, string) (string, error) { return "", errTimeout }
			_, err := orchestrator.Once(ctx, t, "pay", fails, nil)
			return err
		}}}}
		o := Options{TurnLog: l, Ledger: effects}
		in := Input{Text: "x", RequestID: "r"}
		first := w.start(t, d, o)
		_, err := first.Execute(t.Context(), "s", in, nil)
		doubt, ok := errors.AsType[*orchestrator.InDoubtError](err)
		if !ok {
			t.Fatalf("got %v, want an effect in doubt", err)
		}
		answer := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"paid"`)}
		if err := ledger.Resolve(t.Context(), effects, doubt.Effects[0], answer); err != nil {
			t.Fatal(err)
		}
		res := execute(t, w.start(t, d, o), in)
		entries, err := l.Restore(t.Context(), res.RunID)
		if err != nil {
			t.Fatal(err)
		}
		last := entries[len(entries)-1]
		if len(entries) != 102 || last.Phase != turnlog.Settled {
			t.Errorf("%d entries, the last is %s", len(entries), last.Phase)
		}
		for i, e := range entries[1:] {
			if !entries[i].At.Before(e.At) {
				t.Fatalf("entry %d is at %v, and the one before at %v", i+1, e.At, entries[i].At)
			}
		}
	})
}

// A turn records faster than one phase a millisecond, and its caller goes away. The next call goes on at once. Its
// phases are later than those before.
func TestStampsOfLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(), new(turnlog.Memory)
		ctx, leave := context.WithCancel(t.Context())
		d := Def{Name: "agent", Intents: Intents{"model": {Run: func(ctx context.Context, t *Turn) error {
			for range 50 {
				if err := t.Record(ctx, turnlog.LLMComplete, nil); err != nil {
					return err
				}
			}
			leave()
			return ctx.Err()
		}}}}
		bot, in := w.start(t, d, Options{TurnLog: l}), Input{Text: "x", RequestID: "r"}
		if _, err := bot.Execute(ctx, "s", in, nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Fatalf("got %v, want a turn that was left", err)
		}
		res := execute(t, bot, in)
		entries, err := l.Restore(t.Context(), res.RunID)
		if last := len(entries) - 1; err != nil || last != 101 || entries[last].Phase != turnlog.Settled {
			t.Errorf("%d entries, %v", len(entries), err)
		}
	})
}
