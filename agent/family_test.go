package agent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A process dies while a child pays, and the parent is stopped. The model of the parent is not told that nothing was
// done.
func TestStopDeadChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, m := agent.InMemory(), new(mess)
		st.Snapshots = &weakSnapshots{st.Snapshots, m.fails}
		child := newAgent(t, agent.Definition[none]{
			Name: "child", Model: answers(call("p", "pay", `{"order":"A"}`)),
			Tools: []agent.Tool{agent.Effect[refundArgs, string]{Name: "pay", Run: m.pay}.Tool()},
		}, st)
		a := newAgent(t, agent.Definition[none]{
			Model: answers(call("c", "child", `{"input":"x"}`)), Tools: []agent.Tool{agent.ChildTool(child, "")},
		}, st)
		in := orchestrator.Input{RequestID: "r", Text: "go"}
		if o, err := a.Say(t.Context(), "s", in, nil); err == nil {
			t.Errorf("%+v", o)
		}
		m.trouble.Store(false)
		if err := a.Stop(t.Context(), "s", "", "enough"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		o, err := a.Say(t.Context(), "s", in, nil)
		if settled(t, o, err); o.Status != agent.Interrupted || m.paid.Load() != 1 {
			t.Errorf("%+v, paid %d times", o, m.paid.Load())
		}
		if got := told(t, a, "s"); !strings.HasSuffix(got, "a part of it may have been done: stopped") {
			t.Error(got)
		}
	})
}
