package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Everything can be measured. The test judges no figure: a test says nothing about speed.
func TestQuick(t *testing.T) {
	b := &bench{scale: brief, dir: t.TempDir(), log: t.Logf}
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			if _, err := exec.LookPath("gcc"); err != nil && strings.HasSuffix(s.name, slowDisk) {
				t.Skip("no gcc builds the slow disk:", err)
			}
			b.postgres, b.redis = launch(t, testenv.StartPostgres), launch(t, testenv.StartRedis)
			measured := len(b.results)
			if err := b.run(t.Context(), regexp.MustCompile("^"+s.name+"$")); err != nil {
				t.Fatal(err)
			}
			if len(b.results) == measured {
				t.Error("nothing was measured")
			}
		})
	}
	var report strings.Builder
	if _, err := b.WriteTo(&report); err != nil {
		t.Fatal(err)
	}
	t.Log(report.String())
}

// launch leaves the server to the test.
func launch(t *testing.T, start func(testing.TB, *testenv.Options) *testenv.Server) launcher {
	return func(o *testenv.Options) (string, func() error, error) {
		return start(t, o).URL, func() error { return nil }, nil
	}
}

func TestGoals(t *testing.T) {
	r := result{samples: []sample{{100, 150, 7, 1024}, {100, 90, 8, 2048}, {100, 130, 9, 512}}}
	for _, test := range []struct {
		goal goal
		met  bool
		text string
	}{
		{goal{}, true, "1.30 × (0.90–1.50)"},
		{atLeast(1.3), true, "1.30 × (0.90–1.50)"},
		{atLeast(1.31), false, "1.30 × (0.90–1.50)"},
		{atMost(0.8), true, "0.77 × the time (0.67–1.11)"},
		{atMost(0.7), false, "0.77 × the time (0.67–1.11)"},
		{below(8e6), true, "7.69 ms (6.67–11.11)"},
		{below(7e6), false, "7.69 ms (6.67–11.11)"},
		{atPace(130), true, "130 per s (90.00–150)"},
		{atPace(131), false, "130 per s (90.00–150)"},
		{allocating(8), true, "8.00 allocations (7.00–9.00)"},
		{allocating(7), false, "8.00 allocations (7.00–9.00)"},
		{allocatingBytes(1024), true, "1.00 KiB allocated (0.50–2.00)"},
		{allocatingBytes(1023), false, "1.00 KiB allocated (0.50–2.00)"},
	} {
		if met := test.goal.met(r); met != test.met {
			t.Errorf("%v met: %v, want %v", test.goal, met, test.met)
		}
		if text := test.goal.measured(r); text != test.text {
			t.Errorf("%v: %q, want %q", test.goal, text, test.text)
		}
	}
}

func TestProse(t *testing.T) {
	for i, state := range prose(64) {
		if len(state) != stateBytes {
			t.Errorf("state %d has %d bytes, want %d", i, len(state), stateBytes)
		}
	}
}
