package orchestrator_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// A ledger that cannot read an effect of a run says nothing about the run, which is neither ended nor deleted. A store
// that cannot read the run says that it can only be deleted.
func TestDamageOfWhat(t *testing.T) {
	d := single(func(context.Context, *Turn) error { return nil })
	for what, kept := range map[string]bool{"effect": true, "run": false} {
		runs, effects := new(snapshot.Memory), new(ledger.Memory)
		suspend(t, runs, effects, d.Name, "s", doubting("effect s"))
		w, o := worldOf(new(checkpoint.Memory), runs), Options{Ledger: effects}
		if kept {
			o.Ledger = faulttest.Ledger(effects, faulttest.On(
				func(context.Context, faulttest.Call, func(context.Context) error) error {
					return ledger.Damaged("effect s", errors.New("no state"))
				}, "AdoptEffects"))
		} else {
			w.Snapshots = damagedRuns{runs}
		}
		_, err := w.Start(t, d, o).Abandon(t.Context(), "s", "")
		damage, ok := errors.AsType[*store.DamagedError](err)
		if ok != kept || kept && damage.What != what {
			t.Errorf("%s: %v", what, err)
		}
		var left []string
		for r, err := range runs.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: d.Name}}) {
			if err != nil || r.Status != snapshot.Suspended {
				t.Errorf("%s: the run is %s, %v", what, r.Status, err)
			}
			left = append(left, r.ID)
		}
		if slices.Contains(left, "run s") != kept {
			t.Errorf("%s: the runs %q are left", what, left)
		}
	}
}

// One run that the snapshot store refuses to read holds up no other. A ledger that refuses a read ends the look.
func TestRefusedByWhom(t *testing.T) {
	d := single(func(context.Context, *Turn) error { return nil })
	for by, want := range map[string][]string{"snapshots": {"b", ""}, "ledger": {""}} {
		runs, effects := &refusing{Store: new(snapshot.Memory)}, &refusingEffects{Ledger: new(ledger.Memory)}
		bot := worldOf(new(checkpoint.Memory), runs).Start(t, d,
			Options{Ledger: effects, Limits: orchestrator.Limits{DeadAfter: -1}})
		for _, session := range []string{"a", "b"} {
			suspend(t, runs, effects, d.Name, session, doubting("effect "+session))
			answer(t, effects, "effect "+session)
		}
		runs.on, effects.on = by == "snapshots", by == "ledger"
		var got []string
		for session, err := range bot.Recoverable(t.Context(), true) {
			got = append(got, session)
			if errors.Is(err, store.ErrRefused) != (session == "") {
				t.Errorf("%s: %q: %v", by, session, err)
			}
			if err != nil && by == "ledger" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s refuses: %q are found, want %q", by, got, want)
		}
	}
}

// refusing does not read the run of session a.
type refusing struct {
	snapshot.Store
	on bool
}

func (s *refusing) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	if s.on && q.Session == "a" {
		return func(yield func(snapshot.Run, error) bool) { yield(snapshot.Run{}, store.ErrRefused) }
	}
	return s.Store.Runs(ctx, q)
}

// refusingEffects does not tell what the run of session a waits for.
type refusingEffects struct {
	ledger.Ledger
	on bool
}

func (l *refusingEffects) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if l.on && q.RunID == "run a" {
		return func(yield func(ledger.Effect, error) bool) { yield(ledger.Effect{}, store.ErrRefused) }
	}
	return l.Ledger.Effects(ctx, q)
}
