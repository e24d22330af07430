package orchestrator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/enginetest"
	"github.com/holdfast-go/holdfast/internal/testenv"
)

// Whatever fails in a turn, wherever: afterwards the turn is there entirely or not at all, and nobody was told otherwise.
// It is the same on all stores, down to the number of points.
func TestCrashEverywhere(t *testing.T) {
	var scenarios []string
	backends(t, func(t *testing.T, w world) {
		m := enginetest.Matrix{Share: 3} // each point suffers some of its faults; a soak does it all
		if !strings.HasSuffix(t.Name(), "/memory") {
			m.Share = 24 // the race detector makes drivers slow
		}
		start := time.Now()
		rep := m.Run(t.Context(), enginetest.Stores{Checkpoints: w.checkpoints, Snapshots: w.snapshots})
		t.Logf("%d points in %d scenarios, %d histories with a fault, %v",
			rep.Points, len(rep.Scenarios), rep.Histories, time.Since(start).Round(time.Millisecond))
		for _, f := range rep.Findings {
			t.Error(f)
		}
		if scenarios == nil {
			scenarios = rep.Scenarios
		}
		if !slices.Equal(rep.Scenarios, scenarios) {
			t.Errorf("the points are %q, and were %q", rep.Scenarios, scenarios)
		}
	})
	goleak.VerifyNone(t, testenv.Leaks()...)
}
