package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A Backlog is exact after a crash, which the process that died could not count.
func TestBacklog(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		w.Crash(t, steps, Input{Text: "a"})
		d := steps(nil)
		d.Deliver = func(context.Context, *Result) error { return errors.New("down") }
		bot := w.Start(t, d, Options{})
		b, err := bot.Backlog(t.Context())
		if b.OldestRunning <= 0 || b.OldestRunning > time.Minute {
			t.Errorf("the run is %v old", b.OldestRunning)
		}
		if b.OldestRunning = 0; err != nil || b != (orchestrator.Backlog{Running: 1}) {
			t.Errorf("after the crash: %+v, %v", b, err)
		}
		if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
			t.Fatal(err)
		}
		if got, err := bot.Backlog(t.Context()); err != nil || got != (orchestrator.Backlog{Owed: 1}) {
			t.Errorf("after the resume: %+v, %v", got, err)
		}
		impatient := w.Start(t, d, attempts(1))
		if _, err := impatient.Execute(t.Context(), "other", Input{Text: "a"}, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := bot.Backlog(t.Context()); err != nil || got != (orchestrator.Backlog{Owed: 2, OwedParked: 1}) {
			t.Errorf("with a parked delivery: %+v, %v", got, err)
		}
	})
}

// A store that is away keeps back its own gauges, and no others. However many collections there are, the stores are
// read once in five seconds, for five seconds at most, and not at all after the end.
func TestObserveBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := meteredBy(t)
		runs := &readRuns{Store: new(snapshot.Memory)}
		effects := &awayEffects{Ledger: new(ledger.Memory)}
		bot := worldOf(new(checkpoint.Memory), runs).Start(t, echo(), Options{
			Ledger: effects, Limits: orchestrator.Limits{DeadAfter: -1},
		})
		stop, err := bot.ObserveBacklog()
		if err != nil {
			t.Fatal(err)
		}
		collected := func() map[string]float64 {
			t.Helper()
			return collectAll(t, reader)
		}
		for range 3 {
			if got := collected(); len(runs.Queries) != 1 || got["holdfast.effects.in_doubt "] != 0 {
				t.Errorf("%d reads, %v", len(runs.Queries), got)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		effects.Away = true
		got := collected()
		_, doubt := got["holdfast.effects.in_doubt "]
		if _, ok := got["holdfast.runs running"]; !ok || doubt || len(runs.Queries) != 2 {
			t.Errorf("with the ledger away, after %d reads: %v", len(runs.Queries), got)
		}
		effects.Away = false
		time.Sleep(5 * time.Second)
		if _, ok := collected()["holdfast.effects.in_doubt "]; !ok {
			t.Error("the ledger is there again, and its gauge is not")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if got := collected(); len(runs.Queries) != 3 || got["holdfast.turns settled"] != 0 {
			t.Errorf("after the end: %d reads, %v", len(runs.Queries), got)
		}
	})
}
