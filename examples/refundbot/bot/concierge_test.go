package bot_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
)

// A concierge is a parent, and the refund bot its child. If the calls of a customer share a session, "yes please" goes
// on with the order of before. If each call has its own, it does not.
func TestConcierge(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		for _, tt := range []struct {
			bound    bool
			yes      string
			children int
		}{{true, "is paid", 1}, {false, "All right. Is there anything else?", 2}} {
			session := map[bool]string{true: "bound", false: "fresh"}[tt.bound]
			o := s.options()
			o.Bind = tt.bound
			c := s.newBot(o).Concierge
			for _, turn := range [][2]string{
				{"Where is A-1013?", "Shall I?"}, {"Yes please", tt.yes}, {"Hello", "Hello"},
			} {
				o, err := c.Say(t.Context(), session, agent.Text(turn[0]), nil)
				if err != nil || !strings.Contains(o.Text, turn[1]) {
					t.Fatalf("%t: %q: %+v, %v, want %q", tt.bound, turn[0], o, err, turn[1])
				}
			}
			parent, _, err := c.Get(t.Context(), session)
			if err != nil || len(parent.Children) != tt.children {
				t.Errorf("%t: children %v, %v", tt.bound, parent.Children, err)
			}
			for _, child := range slices.Collect(maps.Keys(parent.Children)) {
				now, _, err := s.bot.Refunds.Get(t.Context(), child)
				used := now.Spent.Input
				if err != nil || now.Parent != session || used == 0 || used >= parent.Spent.Input {
					t.Errorf("the child has used %+v, the parent %+v, %v", now.Spent, parent.Spent, err)
				}
			}
		}
		s.pays.WantPaid(t, "A-1013")
	})
}
