package bot_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/orchestrator"
)

func (s *shop) newConcierge(bound bool) *orchestrator.Orchestrator[bot.ConciergeState] {
	s.t.Helper()
	tool := bot.AsTool(s.bot, func(st *bot.State) string { return st.Reply }, bound)
	settings := s.stores.Options
	settings.Logger = quiet()
	o, err := orchestrator.New(bot.Concierge("concierge", new(model.Scripted), tool), s.stores.Checkpoints(), &settings)
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// A concierge has the refund bot as a tool. If the calls of a customer share a session, "yes please" goes on with the
// order of before. If each call has its own, it does not.
func TestConcierge(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		for _, tt := range []struct {
			bound bool
			yes   string
		}{{true, "is paid"}, {false, "All right. Is there anything else?"}} {
			session := map[bool]string{true: "bound", false: "fresh"}[tt.bound]
			c := s.newConcierge(tt.bound)
			for _, turn := range [][2]string{
				{"Where is A-1013?", "Shall I?"}, {"Yes please", tt.yes}, {"Hello", "Hello"},
			} {
				res, err := c.Execute(t.Context(), session, orchestrator.Input{Text: turn[0]}, nil)
				if err != nil || !strings.Contains(res.State.Reply, turn[1]) {
					t.Fatalf("%t: %q: %+v, %v, want %q", tt.bound, turn[0], res, err, turn[1])
				}
				if res.State.Asked == "" {
					continue
				}
				if own := strings.HasPrefix(res.State.Asked, session+"/"); own == tt.bound {
					t.Errorf("%t: the session of the call is %q", tt.bound, res.State.Asked)
				}
				for child, err := range s.bot.Turns(t.Context(), res.State.Asked) {
					if err != nil || child.Usage.Input == 0 || child.Usage.Input >= res.Usage.Input {
						t.Errorf("the child has used %+v, the parent %+v, %v", child.Usage, res.Usage, err)
					}
					break
				}
			}
		}
		s.pays.WantPaid(t, "A-1013")
	})
}
