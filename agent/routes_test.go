package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/agenttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// handler serves an agent to whoever says who they are.
func handler(a *agent.Agent[none]) http.Handler {
	return agent.Handler(a, turnhttp.Options[agent.State[none]]{
		Authorize: func(r *http.Request, _ string, _ turnhttp.Action) (turnhttp.Actor, error) {
			return turnhttp.Actor(r.Header.Get("Who")), nil
		},
	})
}

// sums returns the questions of a session, with their sums.
func sums(t *testing.T, h http.Handler, session string) map[string]string {
	t.Helper()
	var doc struct{ Questions []struct{ ID, Sum string } }
	res := sent(t, h, "desk", "GET", "/sessions/"+session+"/questions", "")
	if err := json.Unmarshal(res.Body.Bytes(), &doc); err != nil || res.Code != 200 {
		t.Fatal(res.Code, res.Body, err)
	}
	all := make(map[string]string)
	for _, q := range doc.Questions {
		all[q.ID] = q.Sum
	}
	return all
}

// answered sends an answer until no other one is in the way, and returns the status, and the type or the text.
func answered(t *testing.T, h http.Handler, who, path, body string) (code int, says string) {
	t.Helper()
	for {
		res := sent(t, h, who, "POST", path, body)
		var doc struct {
			Type  string
			Reply struct{ Text, Status string }
		}
		if err := json.Unmarshal(res.Body.Bytes(), &doc); err != nil {
			t.Error(res.Code, res.Body, err)
			return res.Code, ""
		}
		if doc.Type != "/problems/busy" {
			return res.Code, doc.Type + doc.Reply.Status + doc.Reply.Text
		}
	}
}

// Two people answer all that waits at once, in two processes, with a request for each call. Of each call the first
// answer counts, and the other person is told. An answer that cannot be taken keeps no other one away. After a part of
// them the session still waits, and the model is asked once, when nothing is missing.
func TestSeveralAnswersOverHTTP(t *testing.T) {
	const calls = 4
	var models atomic.Int32
	var paid sync.Map
	asks := answers(
		call("c0", "pay", `{"order":"0"}`), call("c1", "pay", `{"order":"1"}`), call("c2", "pay", `{"order":"2"}`),
		call("c3", "pay", `{"order":"3"}`))
	d := agent.Definition[none]{
		Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, f func(string)) (agent.Reply, error) {
			models.Add(1)
			return asks(ctx, r, f)
		}),
		Tools: []agent.Tool{agent.Effect[refundArgs, string]{
			Name: "pay", Class: ledger.Idempotent, Approve: func(refundArgs) bool { return true },
			Run: func(_ context.Context, _ string, in refundArgs) (string, error) {
				if _, twice := paid.LoadOrStore(in.Order, true); twice {
					t.Errorf("%s is paid twice", in.Order)
				}
				return "paid", nil
			},
		}.Tool()},
	}
	st := agent.InMemory()
	a := newAgent(t, d, st)
	tabs := map[string]http.Handler{"ann": handler(a), "bob": handler(newAgent(t, d, st))}
	sent(t, tabs["ann"], "ann", "POST", "/sessions/s/turns", `{"message":"pay all"}`)
	sum := sums(t, tabs["bob"], "s")
	if len(sum) != calls {
		t.Fatalf("it asks %v", sum)
	}
	body := func(i int, answer string) (path, text string) {
		id := fmt.Sprint("c", i)
		return "/sessions/s/questions/" + id, `{"sum":"` + sum[id] + `","answer":` + answer + `}`
	}
	path, wrong := body(1, `{"result":"x"}`)
	if code, says := answered(t, tabs["ann"], "ann", path, wrong); code != 422 || says != "/problems/invalid" {
		t.Errorf("an answer of another kind: %d %s", code, says)
	}
	path, yes := body(0, `{"approved":true}`)
	if code, says := answered(t, tabs["ann"], "ann", path, yes); code != 200 || says != "paused" || models.Load() != 1 {
		t.Errorf("after the first answer: %d %s, and the model was asked %d times", code, says, models.Load())
	}
	var all sync.WaitGroup
	var won [calls]atomic.Int32
	var last atomic.Int32
	for who, h := range tabs {
		for i := 1; i < calls; i++ {
			all.Go(func() {
				path, text := body(i, fmt.Sprintf(`{"approved":%t}`, who == "ann"))
				code, says := answered(t, h, who, path, text)
				switch {
				case code == 200:
					won[i].Add(1)
					if strings.HasPrefix(says, "completed") {
						last.Add(1)
					}
				case code != 409 || says != "/problems/answered":
					t.Errorf("%s is told %d %s of c%d", who, code, says, i)
				}
			})
		}
	}
	all.Wait()
	s, _ := get(t, a, "s")
	for i := 1; i < calls; i++ {
		by, _ := s.AnsweredBy(fmt.Sprint("c", i))
		if _, paid := paid.Load(fmt.Sprint(i)); won[i].Load() != 1 || paid != (by == "ann") {
			t.Errorf("c%d: %d answers count, that of %q, and paid is %t", i, won[i].Load(), by, paid)
		}
	}
	if s.Status != agent.Completed || models.Load() != 2 || last.Load() != 1 || len(sums(t, tabs["ann"], "s")) != 0 {
		t.Errorf("%+v: the model was asked %d times, and %d went on", s, models.Load(), last.Load())
	}
	told(t, a, "s")
}

// What a grandchild asks is shown at the root, and answered there. The question of the one session cannot be answered
// in another.
func TestGrandchildOverHTTP(t *testing.T) {
	paid := new(atomic.Int32)
	boss, _, payer := family(t, agent.InMemory(), paid)
	h := handler(boss)
	if res := sent(t, h, "ann", "POST", "/sessions/s/turns", `{"message":"settle it"}`); res.Code != 200 ||
		!strings.Contains(res.Body.String(), `"reason":"`+string(agent.ForChildren)+`"`) {
		t.Fatal(res.Code, res.Body)
	}
	asks := sent(t, h, "desk", "GET", "/sessions/s/questions", "").Body.String()
	if !strings.Contains(asks, `"agent":"payer","kind":"approval","tool":"pay","args":{"order":"A1"}`) {
		t.Errorf("the root asks %s", asks)
	}
	child, _ := agenttest.WaitingChild(t, payer)
	for id, sum := range sums(t, h, "s") {
		yes := `{"sum":"` + sum + `","answer":{"approved":true}}`
		for at, h := range map[string]http.Handler{"child": handler(payer), "stranger": h} {
			path := "/sessions/" + strings.ReplaceAll(child, "/", "%2F") + "/questions/" + id
			if code, says := answered(t, h, "desk", path, yes); code != 404 && code != 409 || paid.Load() > 0 {
				t.Errorf("%s: %d %s, paid %d times", at, code, says, paid.Load())
			}
		}
		for range 2 {
			code, says := answered(t, h, "desk", "/sessions/s/questions/"+id, yes)
			if code != 200 || says != "completedpaid" {
				t.Errorf("%d %s", code, says)
			}
		}
		if code, says := answered(t, h, "ann", "/sessions/s/questions/"+id, yes); code != 409 {
			t.Errorf("another person: %d %s", code, says)
		}
	}
	if paid.Load() != 1 {
		t.Errorf("paid %d times", paid.Load())
	}
}

// What cannot be is refused with a type that says why, and leaves nothing: no turn, no item of the inbox, no session,
// no effect, and no call of a model.
func TestBadInput(t *testing.T) {
	w, st := new(shop), agent.InMemory()
	o := *quiet
	o.KeepSnapshots, o.Inbox = 2, st.Inbox
	a, err := agent.New(w.Definition(), st, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Bot().Shutdown(context.WithoutCancel(t.Context())) })
	for _, session := range []string{"s", "other", "gone"} {
		say(t, a, session, "refund "+session)
	}
	tag := func(s *agent.State[none]) error { s.Tags = append(s.Tags, "x"); return nil }
	for range 2 { // turn 0 is pruned
		if _, err := a.Update(t.Context(), "gone", 0, tag); err != nil {
			t.Fatal(err)
		}
	}
	small := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})
	large := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk, MaxBody: 8 << 20})
	sum, others := sums(t, small, "s"), sums(t, small, "other")
	ans := func(sum, answer string) string { return `{"sum":"` + sum + `","answer":` + answer + `}` }
	photo := ans(sum["c2"], `{"result":"photo"}`)
	huge := ans(sum["c2"], `{"result":"`+strings.Repeat("x", 1<<20)+`"}`)
	long := strings.Repeat("x", 513)
	before := kept(t, st, w)
	for _, c := range []struct {
		name, who, path, body string
		code                  int
		kind                  string
	}{
		{"a session without a name", "ann", "/turns", `{"message":"x"}`, 400, "bad-request"},
		{"a session of 513 bytes", "ann", long + "/turns", `{"message":"x"}`, 400, "bad-request"},
		{"a session with U+0000", "ann", "s%00/turns", `{"message":"x"}`, 400, "bad-request"},
		{"nothing is said", "ann", "new/turns", `{"message":" "}`, 422, "invalid"},
		{"data of a client", "ann", "new/turns", `{"message":"x","data":{"op":"create"}}`, 400, "bad-request"},
		{"said while calls wait", "ann", "s/turns", `{"message":"x"}`, 422, "invalid"},
		{"said by nobody", "", "s/turns", `{"message":"x"}`, 401, "unauthorized"},
		{"an answer to no id", "desk", "s/questions/", photo, 400, "bad-request"},
		{"an answer to an id of 513 bytes", "desk", "s/questions/" + long, photo, 400, "bad-request"},
		{"an answer to a call that never was", "desk", "s/questions/c9", photo, 404, "not-found"},
		{"an answer to a call that waits for nobody", "desk", "s/questions/c1", photo, 404, "not-found"},
		{"an answer in a session that never was", "desk", "new/questions/c2", photo, 404, "not-found"},
		{"an answer in another session", "desk", "other/questions/c2", photo, 409, "changed"},
		{"an answer to another call", "desk", "s/questions/c3", ans(sum["c2"], `{"approved":true}`), 409, "changed"},
		{"an answer with the sum of another session", "desk", "s/questions/c2", ans(others["c2"], `{"result":"x"}`), 409, "changed"},
		{"an answer without a sum", "desk", "s/questions/c2", `{"answer":{"result":"x"}}`, 400, "bad-request"},
		{"an approval of a client's call", "desk", "s/questions/c2", ans(sum["c2"], `{"approved":true}`), 422, "invalid"},
		{"a result of an approval", "desk", "s/questions/c3", ans(sum["c3"], `{"result":"x"}`), 422, "invalid"},
		{"both at once", "desk", "s/questions/c3", ans(sum["c3"], `{"approved":true,"result":"x"}`), 422, "invalid"},
		{"an answer of no kind", "desk", "s/questions/c3", ans(sum["c3"], `{}`), 422, "invalid"},
		{"an answer that is no object", "desk", "s/questions/c3", ans(sum["c3"], `"yes"`), 400, "bad-request"},
		{"an answer above 1 MiB", "desk", "s/questions/c2", huge, 413, "too-large"},
		{"an answer above 1 MiB, with a larger MaxBody", "desk", "s/questions/c2", huge, 400, "bad-request"},
		{"an answer of who may not", "ann", "s/questions/c2", photo, 403, "denied"},
		{"an answer of nobody", "", "s/questions/c2", photo, 401, "unauthorized"},
		{"a branch of a pruned turn", "ann", "gone/branch", `{"session":"new","turn":0}`, 404, "not-found"},
		{"a branch of a turn to come", "ann", "gone/branch", `{"session":"new","turn":9}`, 404, "not-found"},
		{"a branch of nothing", "ann", "never/branch", `{"session":"new"}`, 404, "not-found"},
		{"a branch to a session that exists", "ann", "gone/branch", `{"session":"s"}`, 409, "conflict"},
		{"a branch to no name", "ann", "gone/branch", `{"session":""}`, 400, "bad-request"},
		{"a branch to a name of 513 bytes", "ann", "gone/branch", `{"session":"` + long + `"}`, 400, "bad-request"},
		{"a branch of turn -1", "ann", "gone/branch", `{"session":"new","turn":-1}`, 400, "bad-request"},
		{"a branch by nobody", "", "gone/branch", `{"session":"new"}`, 401, "unauthorized"},
		{"a stop of no run", "ann", "s/stop", `{"run":""}`, 400, "bad-request"},
	} {
		h := small
		if strings.HasSuffix(c.name, "MaxBody") {
			h = large
		}
		res := sent(t, h, c.who, "POST", "/sessions/"+c.path, c.body)
		if kind := `"type":"/problems/` + c.kind + `"`; res.Code != c.code || !strings.Contains(res.Body.String(), kind) {
			t.Errorf("%s: %d %s, want %d %s", c.name, res.Code, res.Body, c.code, c.kind)
		}
		if now := kept(t, st, w); now != before {
			t.Fatalf("%s leaves\n%s\nand before it was\n%s", c.name, now, before)
		}
	}
}

// kept tells all that the stores of the shop have, and what it has done.
func kept(t *testing.T, st agent.Stores, w *shop) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintln(&b, w.Models.Load(), "models", w.Lookups.Load(), "lookups", w.Refunds.Load(), "refunds")
	for session, err := range st.Checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "support"}) {
		fmt.Fprintln(&b, "session", session, err)
		k := checkpoint.Key{Orchestrator: "support", Session: session}
		for cp, err := range st.Checkpoints.Turns(t.Context(), k, checkpoint.Newest) {
			fmt.Fprintln(&b, "turn", cp.Turn, cp.RunID, err)
		}
	}
	for _, kind := range inbox.Kinds() {
		for it, err := range st.Inbox.Items(t.Context(), inbox.Key{Orchestrator: "support"}, kind) {
			fmt.Fprintln(&b, kind, it.Session, it.ID, err)
		}
	}
	for r, err := range st.Snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "support"}}) {
		fmt.Fprintln(&b, "run", r.Session, r.ID, err)
	}
	for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{Orchestrator: "support"}) {
		fmt.Fprintln(&b, "effect", e.ID, err)
	}
	return b.String()
}
