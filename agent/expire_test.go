package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// dueBy returns the sessions that have something due in a year.
func dueBy[C any](t *testing.T, a *agent.Agent[C]) (all []string) {
	t.Helper()
	for _, label := range []string{agent.LabelUntil, agent.LabelExpires} {
		q := checkpoint.SessionQuery{Label: label, By: time.Now().Add(365 * 24 * time.Hour)}
		for session, err := range a.Sessions(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, session)
		}
	}
	return all
}

// expire lets an agent do what is due, and fails the test if it is something else.
func expire[C any](t *testing.T, a *agent.Agent[C], want int) {
	t.Helper()
	if n, err := a.Expire(t.Context(), 0); n != want || err != nil {
		t.Errorf("%d were due, %v, want %d", n, err, want)
	}
}

// An answer that does not come in time: what the model is told, once, and by whichever process looks first. A child is
// told by its root, and by itself if that does not. Calls that wait for ever have no label.
func TestUntil(t *testing.T) {
	payer := func(t *testing.T, st agent.Stores, until time.Duration) *agent.Agent[none] {
		return newAgent(t, agent.Definition[none]{
			Name: "payer", Model: answers(call("p", "pay", `{"order":"A1"}`)),
			Tools: []agent.Tool{agent.Effect[refundArgs, string]{
				Name: "pay", Approve: func(refundArgs) bool { return true }, Until: until,
				Run: func(context.Context, string, refundArgs) (string, error) { return "paid", nil },
			}.Tool()},
		}, st)
	}
	camera := func(otherwise string) func(*testing.T, agent.Stores) agent.Tool {
		return func(*testing.T, agent.Stores) agent.Tool {
			tool := agent.ClientTool[refundArgs]("tool", "")
			tool.Until, tool.Otherwise = time.Hour, otherwise
			return tool
		}
	}
	for name, c := range map[string]struct {
		tool  func(*testing.T, agent.Stores) agent.Tool
		args  string
		child bool // finds it out for itself
		want  string
	}{
		"approval": {func(*testing.T, agent.Stores) agent.Tool {
			return agent.Effect[refundArgs, string]{
				Name: "tool", Approve: func(refundArgs) bool { return true }, Until: time.Hour,
				Run: func(context.Context, string, refundArgs) (string, error) { panic("nobody has agreed") },
			}.Tool()
		}, `{"order":"A1"}`, false, "not executed: refused. nobody has answered in time"},
		"client":  {camera(""), `{"order":"A1"}`, false, "nobody has answered in time"},
		"default": {camera("no photo"), `{"order":"A1"}`, false, "no photo"},
		"child": {func(t *testing.T, st agent.Stores) agent.Tool {
			tool := agent.ChildTool(payer(t, st, time.Hour), "")
			tool.Name = "tool"
			return tool
		}, `{"input":"x"}`, false, "not executed: refused. nobody has answered in time"},
		"child first": {func(t *testing.T, st agent.Stores) agent.Tool {
			tool := agent.ChildTool(payer(t, st, time.Hour), "")
			tool.Name = "tool"
			return tool
		}, `{"input":"x"}`, true, "not executed: refused. nobody has answered in time"},
		"bounded child": {func(t *testing.T, st agent.Stores) agent.Tool {
			tool := agent.ChildTool(payer(t, st, 0), "")
			tool.Name, tool.Until = "tool", time.Hour
			return tool
		}, `{"input":"x"}`, false, "not executed: refused. nobody has answered in time"},
		"for ever": {func(*testing.T, agent.Stores) agent.Tool {
			tool := agent.ClientTool[refundArgs]("tool", "")
			return tool
		}, `{"order":"A1"}`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := agent.InMemory()
				d := agent.Definition[none]{
					Model: answers(call("c", "tool", c.args)), Tools: []agent.Tool{c.tool(t, st)},
				}
				a := newAgent(t, d, st)
				o := say(t, a, "s", "go")
				id := o.Pending[0].Call.ID
				if c.want == "" {
					if due := dueBy(t, a); len(due) > 0 || !o.Pending[0].Until.IsZero() {
						t.Errorf("%v are due", due)
					}
					return
				}
				time.Sleep(time.Hour - time.Second)
				expire(t, a, 0)
				time.Sleep(time.Second)
				if c.child {
					time.Sleep(time.Minute)
					expire(t, payer(t, st, 0), 1)
				}
				all := []*agent.Agent[none]{newAgent(t, d, st), newAgent(t, d, st)}
				var done atomic.Int64
				var group sync.WaitGroup
				for _, a := range all {
					group.Go(func() {
						n, err := a.Expire(t.Context(), 1)
						if err != nil {
							t.Error(err)
						}
						done.Add(int64(n))
					})
				}
				group.Wait()
				if done.Load() < 1 {
					t.Error("nobody has looked")
				}
				expire(t, a, 0)
				s, _ := get(t, a, "s")
				// It was told, and the model has said it again.
				if got := told(t, a, "s"); s.Status != agent.Completed || strings.Count(got, c.want) != 2 {
					t.Errorf("%s: %s", s.Status, got)
				}
				if by, _ := s.AnsweredBy(id); by != agent.OutOfTime || len(dueBy(t, a)) > 0 {
					t.Errorf("%q has answered, and %v are due", by, dueBy(t, a))
				}
				ans := agent.Approve("ann")
				if o.Pending[0].Kind == agent.Client {
					ans = agent.Done("x")
				}
				if _, err := a.Answer(t.Context(), "s", id, ans); !errors.Is(err, agent.ErrAnswered) {
					t.Error(err)
				}
			})
		})
	}
}

// A real answer and the end of the time come at once, in two processes. One of them counts.
func TestUntilRace(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			st := agent.InMemory()
			tool := agent.ClientTool[none]("camera", "")
			tool.Until = time.Minute
			d := agent.Definition[none]{Model: answers(call("c", "camera", `{}`)), Tools: []agent.Tool{tool}}
			a, other := newAgent(t, d, st), newAgent(t, d, st)
			say(t, a, "s", "go")
			time.Sleep(time.Minute)
			var n int
			var sweeping, late error
			var group sync.WaitGroup
			group.Go(func() { n, sweeping = other.Expire(t.Context(), 0) })
			group.Go(func() { _, late = a.Answer(t.Context(), "s", "c", agent.Done("photo")) })
			group.Wait()
			if sweeping != nil || (n == 1) != errors.Is(late, agent.ErrAnswered) {
				t.Errorf("%d are out of time, %v, and the answer is %v", n, sweeping, late)
			}
			told(t, a, "s")
		})
	}
}

// remains returns what the stores have of a session and its children.
func remains(t *testing.T, st agent.Stores) (all []string) {
	t.Helper()
	for _, name := range []string{"support", "child"} {
		for _, session := range sessionsOf(t, st, name) {
			all = append(all, name+" "+session)
		}
	}
	k := transcript.Key{Orchestrator: "support", Session: "s"}
	if n := stored(t, st.Transcript, "s"); n > 0 {
		all = append(all, "messages")
	}
	for it, err := range st.Inbox.Items(t.Context(), k, inbox.Stop) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, "inbox "+it.ID)
	}
	return all
}

// expiring returns an agent whose session expires in an hour, and has a child, messages in the transcript and a note in
// the inbox.
func expiring(t *testing.T, st agent.Stores) *agent.Agent[none] {
	t.Helper()
	child := newAgent(t, agent.Definition[none]{Name: "child", Model: agent.ModelFunc(
		func(context.Context, agent.Request, func(string)) (agent.Reply, error) { return says("done") },
	)}, st)
	d := agent.Definition[none]{
		Model: answers(call("", "child", `{"input":"x"}`)), Tools: []agent.Tool{agent.ChildTool(child, "")},
	}
	return newAgent(t, d, st)
}

func begins(t *testing.T, st agent.Stores, a *agent.Agent[none]) {
	t.Helper()
	a.SetTail(1)
	l := agent.Labels{Expires: time.Now().Add(time.Hour)}
	if err := a.Create(t.Context(), "s", none{}, l); err != nil {
		t.Fatal(err)
	}
	o := say(t, a, "s", "go")
	k := inbox.Key{Orchestrator: "support", Session: "s"}
	if _, err := st.Inbox.Post(t.Context(), inbox.Item{Key: k, Kind: inbox.Stop, ID: o.Run, By: "x"}); err != nil {
		t.Fatal(err)
	}
}

// A session that has expired is deleted with its children. A crash at any call of a store leaves nothing that a repeat
// does not find.
func TestSessionExpires(t *testing.T) {
	for _, made := range []bool{false, true} {
		calls := int32(1)
		for number := int32(1); number <= calls && !t.Failed(); number++ {
			synctest.Test(t, func(t *testing.T) {
				st := agent.InMemory()
				a := expiring(t, st)
				begins(t, st, a)
				expire(t, a, 0)
				time.Sleep(time.Hour)

				dying := st
				around, seen := fault{made, true}.at(number)
				dying.Checkpoints = faulttest.Checkpoints(st.Checkpoints, around)
				dying.Transcript = faulttest.Transcripts(st.Transcript, around)
				dying.Inbox = faulttest.Inbox(st.Inbox, around)
				_, err := expiring(t, dying).Expire(t.Context(), 0)
				if calls = seen.Load() + 1; err == nil && len(remains(t, st)) > 0 {
					t.Errorf("call %d: no error, and %v is left", number, remains(t, st))
				}
				time.Sleep(time.Hour) // a lease has ended
				o := &bootdrain.Options{Logger: quiet.Logger}
				if r, err := bootdrain.DrainInterrupted(t.Context(), a.Bot(), o); err != nil || r.Failed > 0 {
					t.Error(r, err)
				}
				if _, err := a.Bot().Sweep(t.Context(), 0); err != nil {
					t.Error(err)
				}
				if all := remains(t, st); len(all) > 0 {
					t.Errorf("call %d: %v is left", number, all)
				}
			})
		}
	}
}

// A session with a run in flight lives, and so does one that has got more time.
func TestExpiresDuringRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := agent.InMemory()
		talks, end := make(chan struct{}), make(chan struct{})
		waiting := agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if last(r).Role == message.RoleUser && words(last(r)) == "wait" {
				talks <- struct{}{}
				<-end
			}
			return says("done")
		})
		a := newAgent(t, agent.Definition[none]{Model: waiting, ReplyTimeout: 24 * time.Hour}, st)
		begins(t, st, a)
		done := make(chan error)
		go func() {
			_, err := a.Say(t.Context(), "s", agent.Text("wait"), nil)
			done <- err
		}()
		<-talks
		time.Sleep(2 * time.Hour)
		expire(t, newAgent(t, agent.Definition[none]{Model: waiting, ReplyTimeout: 24 * time.Hour}, st), 0)
		end <- struct{}{}
		if err := <-done; err != nil {
			t.Error(err)
		}
		more := func(s *agent.State[none]) error { s.Expires = time.Now().Add(time.Hour); return nil }
		if _, err := a.Update(t.Context(), "s", 0, more); err != nil {
			t.Error(err)
		}
		expire(t, a, 0)
		_, version := get(t, a, "s")
		if err := a.Branch(t.Context(), "s", version, "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		say(t, a, "b", "more")
		expire(t, a, 2) // the branch has expired too
		if all := remains(t, st); len(all) > 0 {
			t.Errorf("%v is left", all)
		}
	})
}

// While an expired session is being deleted, it takes no more turns. A branch of it lives, but for its time.
func TestExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := agent.InMemory()
		a := expiring(t, st)
		begins(t, st, a)
		time.Sleep(time.Hour)
		away := st
		away.Transcript = faulttest.Transcripts(st.Transcript,
			func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
				if strings.HasSuffix(c.Method, "Trim") {
					return errModel
				}
				return next(ctx)
			})
		if n, err := expiring(t, away).Expire(t.Context(), 0); n != 0 || !errors.Is(err, errModel) {
			t.Fatal(n, err)
		}
		if _, err := a.Say(t.Context(), "s", agent.Text("more"), nil); !errors.Is(err, agent.ErrUnknown) {
			t.Error(err)
		}
		if all := runsOf(t, a, "s"); all[len(all)-1] != "3 end completed" {
			t.Errorf("runs %q", all)
		}
		_, version := get(t, a, "s")
		if err := a.Branch(t.Context(), "s", version, "b"); err != nil {
			t.Error(err)
		}
		say(t, a, "b", "more")
		expire(t, a, 2)
		if all := remains(t, st); len(all) > 0 {
			t.Errorf("%v is left", all)
		}
	})
}

// The questions of a session say when they expire.
func TestQuestionExpires(t *testing.T) {
	tool := agent.ClientTool[none]("camera", "")
	tool.Until = time.Hour
	d := agent.Definition[none]{Model: answers(call("c", "camera", `{}`)), Tools: []agent.Tool{tool}}
	a := newAgent(t, d, agent.InMemory())
	o := say(t, a, "s", "go")
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: turnhttp.Anyone})
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), "GET", "/sessions/s/questions", nil))
	var doc struct{ Questions []struct{ Expires time.Time } }
	if err := json.Unmarshal(res.Body.Bytes(), &doc); err != nil || len(doc.Questions) != 1 ||
		!doc.Questions[0].Expires.Equal(o.Pending[0].Until) || time.Until(o.Pending[0].Until) < 50*time.Minute {
		t.Errorf("%s, %v, want %v", res.Body, err, o.Pending)
	}
}

func words(m message.Message) string { return m.Blocks[0].Text }
