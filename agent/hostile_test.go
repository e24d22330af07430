package agent_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
)

// A reply finishes, asks a child that asks, wants an approval, and calls what nobody has. Finish comes back, and the
// rest is as if it were alone.
func TestAllInOneReply(t *testing.T) {
	st, paid := agent.InMemory(), new(atomic.Int32)
	_, clerk, _ := family(t, st, paid)
	refund := pay(paid, ledger.Idempotent)
	refund.Approve = func(refundArgs) bool { return true }
	a := newAgent(t, agent.Definition[none]{
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if last(r).Role == message.RoleUser {
				return says("", call("f", "done", `{"steps":["x"]}`), call("k", "clerk", `{"input":"pay"}`),
					call("r", "refund", `{"order":"A"}`), call("n", "nosuch", `{}`))
			}
			return says("", call("", "done", `{"steps":["y"]}`))
		}),
		Finish: agent.Output[plan]("done", ""), Tools: []agent.Tool{agent.ChildTool(clerk, ""), refund.Tool()},
	}, st)
	o := say(t, a, "s", "go")
	if o.Status != agent.Paused || o.Reason != agent.ForChildren || len(o.Pending) != 2 {
		t.Fatalf("%+v", o)
	}
	for _, p := range o.Pending {
		var err error
		o, err = a.Answer(t.Context(), "s", p.Call.ID, agent.Approve("desk"))
		settled(t, o, err)
	}
	if p, err := agent.As[plan](o); err != nil || p.Steps[0] != "y" || paid.Load() != 2 {
		t.Errorf("%+v, %v, paid %d times", p, err, paid.Load())
	}
	told(t, a, "s")
}

// Stop comes while the turn of an answer runs an effect. The effect ends, its result stays, and no model is asked: with
// an Inbox and without.
func TestStopDuringAnswer(t *testing.T) {
	for _, withInbox := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st, began, end := agent.InMemory(), make(chan struct{}), make(chan struct{})
			if !withInbox {
				st.Inbox = nil
			}
			asked := 0
			a := newAgent(t, agent.Definition[none]{
				Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, f func(string)) (agent.Reply, error) {
					asked++
					return answers(call("c", "refund", `{"order":"A"}`))(ctx, r, f)
				}),
				Tools: []agent.Tool{agent.Effect[refundArgs, string]{
					Name: "refund", Approve: func(refundArgs) bool { return true },
					Run: func(context.Context, string, refundArgs) (string, error) {
						close(began)
						<-end
						return "paid", nil
					},
				}.Tool()},
			}, st)
			say(t, a, "s", "go")
			go func() {
				<-began
				if err := a.Stop(t.Context(), "s", "", "enough"); err != nil {
					t.Error(err)
				}
				close(end)
			}()
			o, err := a.Answer(t.Context(), "s", "c", agent.Approve("desk"))
			if settled(t, o, err); o.Status != agent.Interrupted || asked != 1 {
				t.Errorf("%+v, asked %d times", o, asked)
			}
			if got := told(t, a, "s"); !strings.HasSuffix(got, "c: paid") {
				t.Error(got)
			}
			o, err = a.Continue(t.Context(), "s", nil)
			if settled(t, o, err); o.Text != "paid" {
				t.Errorf("%+v", o)
			}
		})
	}
}
