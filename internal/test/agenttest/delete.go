package agenttest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
)

// A state forgets children that are done. Delete finds all of them by their names, and says so if it cannot.
func manyChildren(t *testing.T, st agent.Stores) {
	child := New(t, agent.Definition[None]{Name: "child", Model: agent.ModelFunc(
		func(context.Context, agent.Request, func(string)) (agent.Reply, error) { return Says("done") },
	)}, st)
	tool, friend := agent.ChildTool(child, ""), agent.ChildTool(child, "")
	friend.Name, friend.Bind = "friend", true
	d := agent.Definition[None]{
		Model: Answers(Call("", "child", `{"input":"x"}`), Call("", "child", `{"input":"x"}`),
			Call("", "friend", `{"input":"x"}`)),
		Tools: []agent.Tool{tool, friend},
	}
	a := New(t, d, st)
	bound := ""
	for range 60 {
		Say(t, a, "s", "go")
		s, _ := Get(t, a, "s")
		if len(s.Children) > 52 {
			t.Fatalf("the state knows %d children", len(s.Children))
		}
		for session, name := range s.Children {
			if name == "friend" && bound == "" {
				bound = session
			}
		}
		if s.Children[bound] != "friend" {
			t.Fatal("the conversation that is bound is forgotten")
		}
	}
	if n := len(Sessions(t, st, "child")); n != 121 {
		t.Errorf("%d children", n)
	}
	d.Tools = []agent.Tool{friend}
	if err := New(t, d, st).Delete(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), `"child"`) {
		t.Error(err)
	}
	if err := a.Delete(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if n := len(Sessions(t, st, "child")); n != 0 {
		t.Errorf("%d children are left", n)
	}
}

// A session is deleted while its turn runs, whose children no settled state has. The turn ends, and nothing is left of
// either.
func deleteDuringRun(t *testing.T, st agent.Stores) {
	asked, end := make(chan struct{}), make(chan struct{})
	child := New(t, agent.Definition[None]{
		Name: "child", Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
			return Says("done")
		}),
	}, st)
	a := New(t, agent.Definition[None]{
		Model: Answers(Call("c", "child", `{"input":"x"}`), Call("l", "lookup", `{"order":"A"}`)),
		Tools: []agent.Tool{agent.ChildTool(child, ""), Lookup(func(context.Context, Order) (string, error) {
			close(asked)
			<-end
			return "x", nil
		})},
	}, st)
	Say(t, child, "s/child/NOCHILDOFTHESESSION", "another session")
	done := make(chan error)
	go func() {
		_, err := a.Say(t.Context(), "s", agent.Text("go"), nil)
		done <- err
	}()
	<-asked
	if err := a.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	close(end)
	if err := <-done; err == nil {
		t.Error("the turn has settled")
	}
	if n, m := len(Sessions(t, st, "support")), len(Sessions(t, st, "child")); n != 0 || m != 1 {
		t.Errorf("%d sessions and %d children are left", n, m)
	}
}

// A parent is deleted while its child is in its first turn, and one whose name leaves no room for those of children.
// Nothing is left of either child.
func deleteChildren(t *testing.T, st agent.Stores) {
	began, end := make(chan struct{}, 2), make(chan struct{})
	child := New(t, agent.Definition[None]{
		Name: "child", Model: agent.ModelFunc(
			func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
				began <- struct{}{}
				<-end
				return Says("hello")
			},
		),
	}, st)
	a := New(t, agent.Definition[None]{
		Model: Answers(Call("c", "child", `{"input":"x"}`)), Tools: []agent.Tool{agent.ChildTool(child, "")},
	}, st)
	done := make(chan error)
	go func() {
		_, err := a.Say(t.Context(), "s", agent.Text("go"), nil)
		done <- err
	}()
	<-began
	long := strings.Repeat("s", 500)
	for _, session := range []string{"s", long} {
		if err := a.Delete(t.Context(), session); err != nil {
			t.Error(err)
		}
		if session == "s" {
			close(end)
			if err := <-done; err == nil {
				t.Error("the turn has settled")
			}
			Say(t, a, long, "go")
		}
	}
	for r, err := range child.Bot().Runs(t.Context()) {
		t.Errorf("%s is in flight, %v", r.Session, err)
	}
	if n := len(Sessions(t, st, "child")); n != 0 {
		t.Errorf("%d children are left", n)
	}
}

// A deploy removes a ChildTool. Delete does not leave the children in silence.
func deleteLostChild(t *testing.T, st agent.Stores) {
	paid := new(atomic.Int32)
	boss, clerk, _ := Family(t, st, paid)
	Say(t, boss, "s", "go")
	d := agent.Definition[None]{Name: "boss", Model: Answers()}
	if err := New(t, d, st).Delete(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "clerk") {
		t.Error(err)
	}
	if err := boss.Delete(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if n := len(Sessions(t, st, clerk.Name())); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}
