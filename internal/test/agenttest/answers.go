package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Of a reply with three calls one runs, and two wait. Another process takes the answers, in any order. The model is
// asked again once all have their results.
func mixedBatch(t *testing.T, st agent.Stores) {
	w := new(Shop)
	a := New(t, w.Definition(), st)
	in := orchestrator.Input{RequestID: "r1", Text: "refund A1"}
	o, err := a.Say(t.Context(), "s", in, nil)
	if Settled(t, o, err); o.Status != agent.Paused || o.Reason != agent.ForRest || len(o.Pending) != 2 {
		t.Fatalf("%+v", o)
	}
	Told(t, a, "s")
	o, err = a.Say(t.Context(), "s", in, nil)
	if Settled(t, o, err); !o.Replayed {
		t.Error("a repeat ran")
	}
	if _, err := a.Say(t.Context(), "s", agent.Text("hello?"), nil); !errors.Is(err, agent.ErrPending) {
		t.Error(err)
	}

	a = New(t, w.Definition(), st) // another process
	for _, bad := range []struct {
		call string
		ans  agent.Answer
		want error
	}{
		{"c2", agent.Approve("desk"), agent.ErrKind},
		{"c3", agent.Done("x"), agent.ErrKind},
		{"c1", agent.Done("x"), agent.ErrNoCall},
		{"c9", agent.Approve("desk"), agent.ErrNoCall},
	} {
		_, err := a.Answer(t.Context(), "s", bad.call, bad.ans)
		if in := new(orchestrator.InputError); !errors.Is(err, bad.want) || !errors.As(err, &in) {
			t.Errorf("%s: %v, want %v", bad.call, err, bad.want)
		}
	}
	o, err = a.Answer(t.Context(), "s", "c2", agent.Done("photo"))
	if Settled(t, o, err); o.Status != agent.Paused || len(o.Pending) != 1 || w.Models.Load() != 1 {
		t.Fatalf("%+v", o)
	}
	o, err = a.Answer(t.Context(), "s", "c2", agent.Done("photo"))
	if Settled(t, o, err); !o.Replayed {
		t.Error("the same answer ran")
	}
	if _, err := a.Answer(t.Context(), "s", "c2", agent.Done("other")); !errors.Is(err, agent.ErrAnswered) {
		t.Error(err)
	}
	if _, err := a.Continue(t.Context(), "s", nil); !errors.Is(err, agent.ErrPending) {
		t.Error(err)
	}
	o, err = a.Submit(t.Context(), "s", "c3", agent.Approve("desk"))
	if Settled(t, o, err); o.Status != agent.Paused || len(o.Pending) != 0 || w.Refunds.Load() != 0 {
		t.Fatalf("%+v", o)
	}
	o, err = a.Continue(t.Context(), "s", nil)
	if Settled(t, o, err); o.Status != agent.Completed || o.Text != "all done" {
		t.Fatalf("%+v", o)
	}
	if w.Models.Load() != 2 || w.Lookups.Load() != 1 || w.Refunds.Load() != 1 {
		t.Errorf("%d models, %d lookups, %d refunds", w.Models.Load(), w.Lookups.Load(), w.Refunds.Load())
	}
	if _, err := a.Answer(t.Context(), "s", "c3", agent.Refuse("owner", "")); !errors.Is(err, agent.ErrAnswered) {
		t.Error(err)
	}
	want := `user refund A1 | assistant working | c1=lookup{"order":"A1"} | c2=camera{} | c3=refund{"order":"A1"} | ` +
		`c1: found | c2: photo | c3: paid | assistant all done`
	if got := Told(t, a, "s"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s, version := Get(t, a, "s"); s.Spent.Input != 20 || s.Resumes != 1 || version != 4 || !By(&s, "c3", "desk") {
		t.Errorf("version %d, %+v", version, s)
	}
}

// Each answer that does not fit is refused with an error of its own, and changes nothing. The session waits for a
// client and an approval, and a deploy has removed a tool whose call waits.
func eachAnswer(t *testing.T, st agent.Stores) {
	w := new(Shop)
	d := w.Definition()
	model := d.Model
	d.Model = agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
		reply, err := model.Reply(ctx, r, token)
		if Last(r).Role == message.RoleUser {
			more := []message.Block{Call("c4", "gone", `{}`), Call("c5", "sold", `{"order":"A2"}`)}
			reply.Message.Blocks = append(reply.Message.Blocks, more...)
		}
		return reply, err
	})
	now := d
	d.Tools = append([]agent.Tool{
		agent.ClientTool[None]("gone", ""),
		agent.Effect[Order, string]{
			Name: "sold", Approve: func(Order) bool { return true },
			Run: func(context.Context, string, Order) (string, error) { panic("it is gone") },
		}.Tool(),
	}, d.Tools...)
	Say(t, New(t, d, st), "s", "refund A1")
	Say(t, New(t, d, st), "other", "refund A1")
	a := New(t, now, st) // after a deploy, and a restart
	large, tooLarge := strings.Repeat("x", 1<<20), errors.New("an InputError")
	for _, c := range []struct {
		name, session, call string
		ans                 agent.Answer
		want                error
		version             int // after it
	}{
		{"wrong kind", "s", "c2", agent.Approve("ann"), agent.ErrKind, 1},
		{"wrong kind", "s", "c3", agent.Done("x"), agent.ErrKind, 1},
		{"no kind", "s", "c3", agent.Answer{Approved: true}, agent.ErrKind, 1},
		{"waits for nobody", "s", "c1", agent.Done("x"), agent.ErrNoCall, 1},
		{"never was", "s", "c9", agent.Done("x"), agent.ErrNoCall, 1},
		{"empty id", "s", "", agent.Done("x"), agent.ErrNoCall, 1},
		{"unknown session", "none", "c2", agent.Done("x"), agent.ErrNoCall, 0},
		{"partial", "s", "c2", agent.Done("photo"), nil, 2},
		{"the same again", "s", "c2", agent.Done("photo"), nil, 2},
		{"twice", "s", "c2", agent.Done("other"), agent.ErrAnswered, 2},
		{"gone client", "s", "c4", agent.Done("from a client"), nil, 3},
		{"gone approval", "s", "c5", agent.Approve("ann"), nil, 4},
		{"last", "s", "c3", agent.Approve("ann"), nil, 5},
		{"late", "s", "c3", agent.Refuse("bob", ""), agent.ErrAnswered, 5},
		{"too large", "other", "c2", agent.Done(large), tooLarge, 1},
		{"too much to say", "other", "c3", agent.Refuse("ann", large), tooLarge, 1},
		{"large", "other", "c2", agent.Done(large[1000:]), nil, 2},
	} {
		_, err := a.Answer(t.Context(), c.session, c.call, c.ans)
		in := new(orchestrator.InputError)
		if !errors.Is(err, c.want) && !errors.Is(c.want, tooLarge) || c.want != nil && !errors.As(err, &in) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if _, version, _ := a.Get(t.Context(), c.session); version != c.version {
			t.Errorf("%s: version %d, want %d", c.name, version, c.version)
		}
	}
	got := Told(t, a, "s")
	for _, want := range []string{"c2: photo", "c3: paid", "c4: from a client", "c5: no such tool"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	if w.Models.Load() != 3 || w.Refunds.Load() != 1 {
		t.Errorf("%d models, %d refunds", w.Models.Load(), w.Refunds.Load())
	}
}

// What was approved runs with the arguments that were shown: if a call comes again under the same id, it gets another
// one, and the answer to the first one is for no call.
func approvalIsBound(t *testing.T, st agent.Stores) {
	cents := 0
	w := new(Shop)
	d := w.Definition()
	d.Model = agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		cents++
		return Says(Long, Call("c3", "refund", fmt.Sprintf(`{"order":"A1","cents":%d}`, cents)))
	})
	a := New(t, d, st)
	shown := Say(t, a, "s", "refund a little").Pending[0].Call
	if _, err := a.Drop(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	more := Say(t, a, "s", "refund more").Pending[0].Call
	if shown.ID == more.ID || string(shown.Args) == string(more.Args) {
		t.Errorf("%+v and %+v", shown, more)
	}
	if _, err := a.Answer(t.Context(), "s", shown.ID, agent.Approve("ann")); !errors.Is(err, agent.ErrNoCall) {
		t.Error(err)
	}
	if w.Refunds.Load() != 0 {
		t.Error("it was paid")
	}
}

// Two people answer one call at once, in two processes. One answer counts, and the other person is told.
func answersRace(t *testing.T, st agent.Stores) {
	for i := range 20 {
		w, session := new(Shop), fmt.Sprint("s", i)
		d := w.Definition()
		d.Model = Answers(Call("c3", "refund", `{"order":"A1"}`))
		all := []*agent.Agent[None]{New(t, d, st), New(t, d, st)}
		Say(t, all[0], session, "x")
		var first, late atomic.Int32
		var group sync.WaitGroup
		for i, ans := range []agent.Answer{agent.Approve("desk"), agent.Refuse("owner", "no")} {
			group.Go(func() {
				switch _, err := all[i].Answer(t.Context(), session, "c3", ans); {
				case err == nil:
					first.Add(1)
				case errors.Is(err, agent.ErrAnswered):
					late.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if first.Load() != 1 || late.Load() != 1 || w.Refunds.Load() > 1 {
			t.Fatalf("%d were first, %d late, %d refunds", first.Load(), late.Load(), w.Refunds.Load())
		}
		Told(t, all[0], session)
	}
}

// asking returns an agent whose model asks for a camera under the ids that the user names, and fails if the user wants.
func asking(t *testing.T, st agent.Stores) *agent.Agent[None] {
	t.Helper()
	return New(t, agent.Definition[None]{
		Tools: []agent.Tool{
			agent.ClientTool[None]("camera", ""),
			Lookup(func(context.Context, Order) (string, error) { return "found", nil }),
		},
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			m := Last(r)
			if m.Role != message.RoleUser {
				return Says(Long)
			}
			var calls []message.Block
			for _, id := range strings.Fields(m.Blocks[0].Text) {
				if id == "fail" {
					return agent.Reply{}, ErrModel
				}
				if name, ok := strings.CutPrefix(id, "free-"); ok {
					calls = append(calls, Call(name, "lookup", `{"order":"A"}`))
				} else {
					calls = append(calls, Call(id, "camera", `{}`))
				}
			}
			return Says(Long, calls...)
		}),
	}, st)
}

// A state knows the newest 1,000 answers. An answer to an older call is late, too, after a restart and in a branch. A
// call that has waited for nobody, one that was dropped, and one that never was, have no answer. The state stays small.
func answeredLongAgo(t *testing.T, st agent.Stores) {
	a := asking(t, st)
	id := func(n int) string { return fmt.Sprintf("call_%024d", n) }
	people := []string{"ann@example.org", "bob@example.org"}
	for turn := range 22 {
		ids := []string{"free-lookup" + fmt.Sprint(turn)}
		for i := range 50 {
			ids = append(ids, id(50*turn+i))
		}
		Say(t, a, "s", strings.Join(ids, " "))
		for _, id := range ids[1:] {
			ans := agent.Done("x")
			ans.By = people[turn%2]
			o, err := a.Answer(t.Context(), "s", id, ans)
			Settled(t, o, err)
		}
		if turn == 0 {
			Say(t, a, "s", "dropped")
			o, err := a.Drop(t.Context(), "s")
			Settled(t, o, err)
		}
	}
	for i := range 50 { // a turn that fails leaves a gap in the numbers of what was said
		if _, err := a.Say(t.Context(), "s", agent.Text("fail"), nil); err == nil {
			t.Fatal("the model has not failed")
		}
		Say(t, a, "s", fmt.Sprint("free-more", i))
	}
	s, version := Get(t, a, "s")
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 64<<10 || len(s.Answered.Calls) != 4*1000+2*20 || len(s.Said) < 50 {
		t.Errorf("the state has %d bytes, the answers %d, and %d spans", len(raw), len(s.Answered.Calls), len(s.Said))
	}
	for n := range 1100 {
		by, ok := s.AnsweredBy(id(n))
		if want := people[n/50%2]; ok != (n >= 100) || ok && by != want {
			t.Errorf("%s: %q, %t, want %q", id(n), by, ok, want)
		}
	}
	if err := a.Branch(t.Context(), "s", version, "b"); err != nil {
		t.Fatal(err)
	}
	a = asking(t, st)
	for _, session := range []string{"s", "b"} {
		_, version := Get(t, a, session)
		for call, want := range map[string]error{
			id(0): agent.ErrAnswered, id(99): agent.ErrAnswered, id(100): agent.ErrAnswered,
			id(1099):  agent.ErrAnswered,
			"lookup0": agent.ErrNoCall, "dropped": agent.ErrNoCall, "never": agent.ErrNoCall,
		} {
			_, err := a.Answer(t.Context(), session, call, agent.Done("y"))
			if in := new(orchestrator.InputError); !errors.Is(err, want) || !errors.As(err, &in) {
				t.Errorf("%s %s: %v, want %v", session, call, err, want)
			}
		}
		if _, now := Get(t, a, session); now != version {
			t.Errorf("%s: version %d after %d", session, now, version)
		}
	}
}

// A deploy changes a tool while its call waits. What was answered holds: a refusal refuses, and the result of a client
// is the result. What does not fit any more is told to the model.
func deployWhilePaused(t *testing.T, st agent.Stores) {
	var paid atomic.Int32
	run := func(context.Context, string, Order) (string, error) { paid.Add(1); return "paid", nil }
	approve := func(Order) bool { return true }
	old := agent.Effect[Order, string]{Name: "refund", Run: run, Approve: approve}.Tool()
	free := agent.Effect[Order, string]{Name: "refund", Run: run}.Tool()
	stricter := agent.Effect[Plan, string]{
		Name: "refund", Run: func(context.Context, string, Plan) (string, error) { paid.Add(1); return "", nil },
	}.Tool()
	client := agent.ClientTool[Order]("refund", "")
	for _, c := range []struct {
		name     string
		was, now agent.Tool
		answer   agent.Answer
		want     string
		paid     int32
	}{
		{"needs no approval now, refused", old, free, agent.Refuse("ann", "no"), "not executed: refused. no", 0},
		{"needs no approval now, approved", old, free, agent.Approve("ann"), "paid", 1},
		{"is renamed", old, agent.Tool{Name: "other", Run: free.Run}, agent.Approve("ann"), "no such tool", 0},
		{"has another schema", old, stricter, agent.Approve("ann"), "the arguments do not fit", 0},
		{"runs at the client now", old, client, agent.Approve("ann"), "not executed: the tool has changed", 0},
		{"ran at the client", client, free, agent.Done("by hand"), "by hand", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			paid.Store(0)
			model := Answers(Call("c", "refund", `{"order":"A"}`))
			d := agent.Definition[Seen]{Model: model, Tools: []agent.Tool{c.was}}
			a := New(t, d, st)
			Say(t, a, c.name, "go")
			_, err := a.Update(t.Context(), c.name, 0, func(s *agent.State[Seen]) error {
				s.Custom.Seen = map[string]bool{"paused": true}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			o, err := a.Submit(t.Context(), c.name, "c", c.answer)
			Settled(t, o, err)
			d.Tools = []agent.Tool{c.now}
			a = New(t, d, st)
			o, err = a.Continue(t.Context(), c.name, nil)
			if Settled(t, o, err); !strings.HasPrefix(o.Text, c.want) || paid.Load() != c.paid ||
				!o.Custom.Seen["paused"] {
				t.Errorf("%+v, paid %d times, want %q", o, paid.Load(), c.want)
			}
			Told(t, a, c.name)
		})
	}
}

// Many large answers fit into a state, and so do their results.
func largeAnswers(t *testing.T, st agent.Stores) {
	var calls []message.Block
	ids := []string{"a", "b", "c", "d", "e", "f"}
	for _, id := range ids {
		calls = append(calls, Call(id, "camera", `{}`))
	}
	a := New(t, agent.Definition[None]{
		Model: Answers(calls...), Tools: []agent.Tool{agent.ClientTool[None]("camera", "")},
	}, st)
	Say(t, a, "s", "go")
	photo := strings.Repeat("é", 500<<10)
	for _, id := range ids {
		ans := agent.Done(photo)
		ans.By = photo[:1000]
		o, err := a.Answer(t.Context(), "s", id, ans)
		Settled(t, o, err)
	}
	if s, _ := Get(t, a, "s"); s.Status != agent.Completed || len(s.Answered.By[0]) > 600 {
		t.Errorf("%s %d", s.Status, len(s.Answered.By[0]))
	}
	Told(t, a, "s")
}
