package orchestrator_test

import (
	"path"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/engine/enginetest"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// After a failure at any place in a turn, the turn is stored entirely or not at all, and callers were told so. All
// stores have the same number of points.
func TestCrashEverywhere(t *testing.T) {
	scenarios := make(map[bool][]string)
	backends(t, func(t *testing.T, w world) {
		stores := enginetest.Stores{
			Checkpoints: w.Checkpoints, Snapshots: w.Snapshots,
			Ledger: new(ledger.Memory), TurnLog: new(turnlog.Memory),
		}
		crash(t, stores, scenarios)
		if runs, ok := w.Snapshots.(snapshot.Joiner); ok && runs.Join(w.Checkpoints) != nil {
			stores.Joined = true
			crash(t, stores, scenarios)
		}
		if _, ok := w.Snapshots.(*snapshot.Memory); ok { // as the ledger is
			stores.Carries = true
			crash(t, stores, make(map[bool][]string))
		}
	})
	leaktest.None(t, testenv.Leaks()...)
}

// crash compares the number of points with that of the stores that ran before.
func crash(t *testing.T, s enginetest.Stores, scenarios map[bool][]string) {
	t.Helper()
	// Each point suffers some of its faults. A soak does all of them.
	m := enginetest.Matrix{Share: 6}
	if pair := path.Base(t.Name()); pair != "memory" {
		// Each pair on a disk or on servers has a quarter of the points. Together they have all.
		m.Share, m.Every = 24, 4
		m.First = slices.Index([]string{"sqlite", "postgres", "redis", "postgres_and_redis"}, pair)
		if m.First < 0 {
			t.Fatalf("no quarter is for %s", pair)
		}
	}
	start := time.Now()
	rep := m.Run(t.Context(), s)
	t.Logf("%d points in %d scenarios, %d trials with a fault, %v, joined: %v",
		rep.Points, len(rep.Scenarios), rep.Trials, time.Since(start).Round(time.Millisecond), s.Joined)
	for _, f := range rep.Findings {
		t.Error(f)
	}
	if scenarios[s.Joined] == nil {
		scenarios[s.Joined] = rep.Scenarios
	}
	if !slices.Equal(rep.Scenarios, scenarios[s.Joined]) {
		t.Errorf("the points are %q, and were %q", rep.Scenarios, scenarios[s.Joined])
	}
}
