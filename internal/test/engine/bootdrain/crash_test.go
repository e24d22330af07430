package bootdrain_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// The outcome of turns whose processes are killed in the middle, or shut down.
func TestProcesses(t *testing.T) {
	together(t, map[string]func(*testing.T){
		"first turn crashed": firstTurnCrashed,
		"finished run":       finishedRun,
		"handed off":         handedOff,
		"poison":             poison,
		"cost":               cost,
	})
	leaktest.None(t, testenv.Leaks()...)
}

// 20 processes boot at once on 200 orphans. Each run starts once. With stores other than PostgreSQL there are fewer,
// unless HOLDFAST_SOAK is 1: all 20 processes look at all 200 sessions.
func TestBootTogether(t *testing.T) {
	sites(t, func(t *testing.T, s site, w opened) {
		processes, orphans := 20, 200
		if (s.Postgres == "" || s.Redis != "") && !soak() {
			processes, orphans = 4, 40
		}
		sessions := names("s", orphans)
		orphan(t, s, w, sessions...)
		var booting []*child
		for range processes {
			booting = append(booting, job{Do: drainAll, Site: s}.start(t))
		}
		for _, p := range booting {
			p.hear(ready)
		}
		for _, p := range booting {
			p.goOn()
		}
		sum := make(outcomes)
		busy := 0
		for _, p := range booting {
			got := p.outcomes()
			if got["settled"] > 0 {
				busy++
			}
			for outcome, n := range got {
				sum[outcome] += n
			}
		}
		t.Logf("%v; %d of %d processes settled some", sum, busy, processes)
		if !sum.only("settled", orphans) {
			t.Errorf("%v, want %d settled", sum, orphans)
		}
		b := w.start(t, nil)
		wantRuns(t, b, 0)
		for _, session := range sessions {
			wantTurns(t, b, session, "hello")
			w.wantStarts(t, session, "hello", 2)
		}
	})
	leaktest.None(t, testenv.Leaks()...)
}

// Inputs come while a drain is under way: for sessions whose turn has crashed, and for others. The crashed turn settles
// before the input.
func TestLiveTraffic(t *testing.T) {
	const each = 6
	sites(t, func(t *testing.T, s site, w opened) {
		crashed, both, other := names("crashed", each), names("both", each), names("other", each)
		orphan(t, s, w, append(crashed, both...)...)
		draining, serving := w.start(t, nil), w.start(t, nil)
		ctx := patience(t)
		var all sync.WaitGroup
		all.Go(func() {
			got, err := passes(ctx, draining)
			if err != nil || got["settled"] < each || !got.only("settled", got["settled"]) {
				t.Errorf("%v, %v", got, err)
			}
			t.Log(got)
		})
		for i, session := range append(both, other...) {
			b := []*bot{draining, serving}[i%2]
			all.Go(func() {
				for _, text := range []string{"one", "two"} {
					if _, err := b.Execute(ctx, session, orchestrator.Input{Text: text}, nil); err != nil {
						t.Errorf("%s: %q: %v", session, text, err)
					}
				}
			})
		}
		all.Wait()
		wantRuns(t, serving, 0)
		for i := range each {
			wantTurns(t, serving, crashed[i], "hello")
			wantTurns(t, serving, both[i], "hello", "one", "two")
			wantTurns(t, serving, other[i], "one", "two")
			w.wantStarts(t, crashed[i], "hello", 2)
			w.wantStarts(t, both[i], "hello", 2)
			for _, text := range []string{"one", "two"} {
				w.wantStarts(t, both[i], text, 1)
				w.wantStarts(t, other[i], text, 1)
			}
		}
	})
	leaktest.None(t, testenv.Leaks()...)
}

// A session whose first turn crashed has no settled turn. A drain still finds its run.
func firstTurnCrashed(t *testing.T) {
	sites(t, func(t *testing.T, s site, w opened) {
		orphan(t, s, w, "s")
		b := w.start(t, nil)
		for session, err := range w.checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: b.Name()}) {
			t.Fatalf("a session has a settled turn: %q, %v", session, err)
		}
		if got, err := passes(patience(t), b); err != nil || !got.only("settled", 1) || got["cleaned"] > 0 {
			t.Errorf("%v, %v", got, err)
		}
		wantTurns(t, b, "s", "hello")
		w.wantStarts(t, "s", "hello", 2)
		wantRuns(t, b, 0)
	})
}

// A process was killed after a turn had settled and before its run was deleted. A drain deletes the run and does not
// run it again.
func finishedRun(t *testing.T) {
	sites(t, func(t *testing.T, s site, w opened) {
		job{
			Do: execute, Site: s, Body: finish, DieIn: "delete", Sessions: []string{"s"},
			Text: "hello",
		}.start(t).killed()
		b := w.start(t, nil)
		wantTurns(t, b, "s", "hello")
		wantRuns(t, b, 1)
		if got, err := passes(patience(t), b); err != nil || !got.only("cleaned", 1) {
			t.Errorf("%v, %v", got, err)
		}
		wantTurns(t, b, "s", "hello")
		w.wantStarts(t, "s", "hello", 1)
		wantRuns(t, b, 0)
	})
}

func names(kind string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s %d", kind, i))
	}
	return all
}
