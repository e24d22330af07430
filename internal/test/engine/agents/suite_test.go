package agents_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/agenttest"
)

// What the sessions of agents do on any stores, on each site. A thousand answers take long: in memory they are always
// given, and here with HOLDFAST_SOAK=1.
func TestSessions(t *testing.T) {
	var skipped []string
	if !soak() {
		skipped = append(skipped, "answered-long-ago")
	}
	for name, open := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agenttest.Run(t, func(t *testing.T) agent.Stores {
				st, shut, err := open(t).open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(shut)
				st.TurnLog = nil
				return st
			}, skipped...)
		})
	}
}
