package agent_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A lateness is an agent to which users say things for later.
type lateness struct {
	*testing.T
	a *agent.Agent[none]
	h http.Handler
}

func later(t *testing.T, d agent.Definition[none], st agent.Stores) *lateness {
	t.Helper()
	d.Name, d.Retry.Attempts = "support", 1
	o := *quiet
	o.Inbox = st.Inbox
	a, err := agent.New(d, st, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return &lateness{t, a, agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})}
}

// says says something for later.
func (l *lateness) says(key, text string) *httptest.ResponseRecorder {
	l.Helper()
	r := httptest.NewRequestWithContext(
		l.Context(), "POST", "/sessions/s/turns", strings.NewReader(`{"message":"`+text+`"}`))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": key, "Who": "ann", "Prefer": "respond-async",
	} {
		r.Header.Set(name, value)
	}
	res := httptest.NewRecorder()
	l.h.ServeHTTP(res, r)
	return res
}

// runs does what the watch of another process does.
func (l *lateness) runs() {
	for session, err := range l.a.Bot().Recoverable(l.Context(), true) {
		if err == nil {
			_, _ = l.a.Bot().Recover(l.Context(), session)
		}
	}
}

// wants checks what has become of an input.
func (l *lateness) wants(key, status, says string) {
	l.Helper()
	res := sent(l.T, l.h, "ann", "GET", "/sessions/s/turns/"+key, "")
	var doc struct{ Status string }
	err := json.Unmarshal(res.Body.Bytes(), &doc)
	if err != nil || doc.Status != status || !strings.Contains(res.Body.String(), says) {
		l.Errorf("%s: %d %s, want %s with %s", key, res.Code, res.Body, status, says)
	}
}

// What users say for later is said in its order, once. While calls wait it fails, as if the user had waited, and the
// calls still wait. An answer runs what was said before it. What is said then is the next turn.
func TestSaidLater(t *testing.T) {
	w, st := new(shop), agent.InMemory()
	l := later(t, w.Definition(), st)
	for range 2 {
		for _, key := range []string{"k1", "k2"} {
			if res := l.says(key, "refund "+key); res.Code != http.StatusAccepted {
				t.Fatal(res.Code, res.Body)
			}
		}
	}
	l.wants("k1", "waiting", "")
	l.runs()
	l.wants("k1", "settled", `"status":"paused"`)
	l.wants("k2", "failed", `"type":"/problems/invalid"`)
	l.wants("k2", "failed", agent.ErrPending.Error())
	l.says("k3", "hello?")
	if o, err := l.a.Answer(t.Context(), "s", "c2", agent.Done("photo")); err != nil || len(o.Pending) != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	l.wants("k3", "failed", agent.ErrPending.Error())
	if o, err := l.a.Answer(t.Context(), "s", "c3", agent.Approve("desk")); err != nil || o.Text != "all done" {
		t.Fatalf("%+v, %v", o, err)
	}
	l.says("k4", "and again")
	l.runs()
	l.wants("k4", "settled", `"status":"paused"`)
	if got := told(t, l.a, "s"); strings.Contains(got, "k2") || strings.Contains(got, "hello?") ||
		strings.Count(got, "refund k1") != 1 || w.Refunds.Load() != 1 {
		t.Errorf("said %s, %d refunds", got, w.Refunds.Load())
	}
	if res := l.says("k5", " "); res.Code != http.StatusUnprocessableEntity {
		t.Errorf("nothing was said: %d %s", res.Code, res.Body)
	}
	if res := l.says("branch", "x"); res.Code != http.StatusUnprocessableEntity {
		t.Errorf("a key of the agent: %d %s", res.Code, res.Body)
	}
}

// What is said for later steers the turn in flight like what is said at once: into the turn, or it stops the turn. It
// is said once.
func TestSaidLaterSteers(t *testing.T) {
	for how, want := range map[agent.Steering]string{
		agent.IntoTurn: "found | user and look at B | assistant done", agent.StopTurn: "stopped | user and look at B |",
		agent.Queue: "found | assistant done | user and look at B |",
	} {
		synctest.Test(t, func(t *testing.T) {
			st, m := agent.InMemory(), &slow{may: make(chan struct{})}
			d := agent.Definition[none]{Model: m, Steer: how, Tools: []agent.Tool{
				lookup(func(context.Context, refundArgs) (string, error) { return "found", nil }),
			}}
			l, other := later(t, d, st), later(t, d, st)
			first := saying(t, l.a, "r1", "go")
			for range 2 {
				if res := other.says("r2", "and look at B"); res.Code != http.StatusAccepted {
					t.Error(res.Code, res.Body)
				}
			}
			other.wants("r1", "running", `"status":"running"`)
			other.wants("r2", "waiting", "")
			close(m.may)
			<-first
			other.runs()
			synctest.Wait()
			other.wants("r2", "settled", `"text":"done"`)
			got := told(t, l.a, "s")
			if !strings.Contains(got, want) || strings.Count(got, "look at B") != 1 || posted(t, st) != 0 {
				t.Errorf("steering %q: said %s, and %d are posted", how, got, posted(t, st))
			}
		})
	}
}

// An agent without an inbox of the engine answers at once, whatever a client prefers.
func TestNeverLater(t *testing.T) {
	a := newAgent(t, new(shop).Definition(), agent.InMemory())
	l := &lateness{t, a, agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})}
	if res := l.says("k", "refund"); res.Code != http.StatusOK || res.Header().Get("Preference-Applied") != "" {
		t.Errorf("%d %v %s", res.Code, res.Header(), res.Body)
	}
	if in := (orchestrator.Input{RequestID: "r", Text: "x"}); a.Bot().Enqueue(t.Context(), "s", in) == nil {
		t.Error("it is accepted")
	}
}
