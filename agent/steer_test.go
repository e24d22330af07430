package agent_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A slow agent waits in its model until it may go on, and knows what it was shown.
type slow struct {
	may   chan struct{}
	shown []string
}

func (m *slow) Reply(ctx context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	m.shown = append(m.shown, print(r.Said))
	select {
	case <-m.may:
	case <-ctx.Done():
		return agent.Reply{}, context.Cause(ctx)
	}
	if len(m.shown)%2 == 1 {
		return says("", call("", "lookup", `{"order":"A"}`))
	}
	return says("done")
}

func (m *slow) agent(t *testing.T, st agent.Stores, how agent.Steering) *agent.Agent[none] {
	return newAgent(t, agent.Definition[none]{
		Model: m, Steer: how, Tools: []agent.Tool{
			lookup(func(context.Context, refundArgs) (string, error) { return "found", nil }),
		},
	}, st)
}

type said struct {
	o   *agent.Outcome[none]
	err error
}

// saying says something in another goroutine, as another caller.
func saying(t *testing.T, a *agent.Agent[none], request, text string) <-chan said {
	done := make(chan said, 1)
	go func() {
		o, err := a.Say(t.Context(), "s", orchestrator.Input{RequestID: request, Text: text}, nil)
		done <- said{o, err}
	}()
	synctest.Wait()
	return done
}

// posted returns what is in the inbox for the turn in flight.
func posted(t *testing.T, st agent.Stores) (n int) {
	k := inbox.Key{Orchestrator: "support", Session: "s"}
	for _, err := range st.Inbox.Items(t.Context(), k, inbox.Message) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A message steers the turn that another process runs: its model sees it before the next reply, and once. Whoever sends
// it again changes nothing.
func TestSteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, m := agent.InMemory(), &slow{may: make(chan struct{})}
		a, other := m.agent(t, st, agent.IntoTurn), m.agent(t, st, agent.IntoTurn)
		defer func() { _, _ = a.Bot().Shutdown(t.Context()), other.Bot().Shutdown(t.Context()) }()
		first := saying(t, a, "r1", "go")
		second := saying(t, other, "r2", "and look at B")
		again := saying(t, a, "r2", "and look at B")
		if n := posted(t, st); n != 1 {
			t.Errorf("%d messages are posted, want 1", n)
		}
		m.may <- struct{}{}
		synctest.Wait()
		if !strings.HasSuffix(m.shown[1], "found | user and look at B") {
			t.Errorf("the model was shown %s", m.shown[1])
		}
		m.may <- struct{}{}
		var outs []*agent.Outcome[none]
		for _, c := range []<-chan said{first, second, again} {
			got := <-c
			if settled(t, got.o, got.err); got.o.Text != "done" || got.o.Status != agent.Completed {
				t.Errorf("%+v", got.o)
			}
			outs = append(outs, got.o)
		}
		if outs[1].Version != 2 || outs[2].Version != 2 || len(m.shown) != 2 || posted(t, st) != 0 {
			t.Errorf("%+v, %+v: the model was asked %d times", outs[1], outs[2], len(m.shown))
		}
		got := saying(t, a, "r2", "and look at B")
		if o := <-got; o.err != nil || !o.o.Replayed {
			t.Errorf("sent again: %+v, %v", o.o, o.err)
		}
		if n := strings.Count(told(t, a, "s"), "look at B"); n != 1 {
			t.Errorf("said %d times", n)
		}
	})
}

// A message that comes during the last reply is the next turn. While calls wait it is refused, and no later turn takes
// it.
func TestSteerLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, m := agent.InMemory(), &slow{may: make(chan struct{})}
		a := m.agent(t, st, agent.IntoTurn)
		defer func() { _ = a.Bot().Shutdown(t.Context()) }()
		first := saying(t, a, "r1", "go")
		m.may <- struct{}{}
		synctest.Wait()
		second := saying(t, a, "r2", "one more")
		m.may <- struct{}{}
		<-first
		synctest.Wait()
		if want := " | assistant done | user one more"; !strings.HasSuffix(m.shown[2], want) {
			t.Errorf("the model was shown %s", m.shown[2])
		}
		close(m.may)
		if o := <-second; o.err != nil || o.o.Version != 2 || posted(t, st) != 0 {
			t.Errorf("%+v, %v, %d posted", o.o, o.err, posted(t, st))
		}

		waits := &slow{may: make(chan struct{})}
		d := agent.Definition[none]{
			Model: waits, Steer: agent.IntoTurn,
			Tools: []agent.Tool{agent.ClientTool[refundArgs]("lookup", "")},
		}
		b := newAgent(t, d, agent.InMemory())
		defer func() { _ = b.Bot().Shutdown(t.Context()) }()
		first = saying(t, b, "r1", "go")
		second = saying(t, b, "r2", "hurry")
		close(waits.may)
		if o := <-second; !errors.Is(o.err, agent.ErrPending) {
			t.Errorf("%+v, %v, want ErrPending", o.o, o.err)
		}
		o, err := b.Answer(t.Context(), "s", (<-first).o.Pending[0].Call.ID, agent.Done("found"))
		if settled(t, o, err); strings.Contains(told(t, b, "s"), "hurry") {
			t.Errorf("a message that was refused was said: %s", told(t, b, "s"))
		}
	})
}

// With StopTurn a message stops the turn in flight, but not one that comes again.
func TestSteerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, m := agent.InMemory(), &slow{may: make(chan struct{})}
		a, other := m.agent(t, st, agent.StopTurn), m.agent(t, st, agent.StopTurn)
		defer func() { _, _ = a.Bot().Shutdown(t.Context()), other.Bot().Shutdown(t.Context()) }()
		first := saying(t, a, "r1", "go")
		again := saying(t, a, "r1", "go")
		second := saying(t, other, "r2", "no, stop that")
		if o := <-first; o.err != nil || o.o.Status != agent.Interrupted || o.o.Interrupt.Reason == "" {
			t.Errorf("%+v, %v", o.o, o.err)
		}
		if o := <-again; o.err != nil || o.o.Version != 1 {
			t.Errorf("%+v, %v", o.o, o.err)
		}
		synctest.Wait()
		late := saying(t, other, "r1", "go")
		close(m.may)
		if o := <-second; o.err != nil || o.o.Status != agent.Completed {
			t.Errorf("%+v, %v", o.o, o.err)
		}
		if o := <-late; o.err != nil || !o.o.Replayed {
			t.Errorf("%+v, %v", o.o, o.err)
		}
		if got := told(t, a, "s"); strings.Count(got, "user") != 2 {
			t.Errorf("said %s", got)
		}
	})
}

// Over HTTP a message steers too, by the key of its request.
func TestSteerHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slow{may: make(chan struct{})}
		a := m.agent(t, agent.InMemory(), agent.IntoTurn)
		defer func() { _ = a.Bot().Shutdown(t.Context()) }()
		h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: turnhttp.Anyone})
		post := func(key, text string) <-chan *httptest.ResponseRecorder {
			done := make(chan *httptest.ResponseRecorder, 1)
			go func() {
				body := strings.NewReader(`{"message":"` + text + `"}`)
				r := httptest.NewRequestWithContext(t.Context(), "POST", "/sessions/s/turns", body)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Idempotency-Key", key)
				res := httptest.NewRecorder()
				h.ServeHTTP(res, r)
				done <- res
			}()
			synctest.Wait()
			return done
		}
		all := []<-chan *httptest.ResponseRecorder{post("r1", "go"), post("r2", "look at B"), post("r2", "look at B")}
		close(m.may)
		for _, done := range all {
			if res := <-done; res.Code != 200 || !strings.Contains(res.Body.String(), `"text":"done"`) {
				t.Errorf("%d %s", res.Code, res.Body)
			}
		}
		if got := told(t, a, "s"); len(m.shown) != 2 || strings.Count(got, "look at B") != 1 {
			t.Errorf("asked %d times; said %s", len(m.shown), got)
		}
	})
}

// A message without a request id steers too.
func TestSteerUnnamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, m := agent.InMemory(), &slow{may: make(chan struct{})}
		a := m.agent(t, st, agent.IntoTurn)
		defer func() { _ = a.Bot().Shutdown(t.Context()) }()
		first, second := saying(t, a, "", "go"), saying(t, a, "", "look at B")
		if n := posted(t, st); n != 1 {
			t.Errorf("%d messages are posted, want 1", n)
		}
		close(m.may)
		for _, c := range []<-chan said{first, second} {
			got := <-c
			settled(t, got.o, got.err)
		}
		if got := told(t, a, "s"); len(m.shown) != 2 || strings.Count(got, "look at B") != 1 {
			t.Errorf("asked %d times; said %s", len(m.shown), got)
		}
	})
}
