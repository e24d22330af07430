package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A pause is a turn with a tool that reads, one that charges, one that the client runs, and a child that waits for an
// approval. Then the client answers, and the session waits for the child alone.
type pause struct {
	charged, paid atomic.Int32
	failed        bool // the child has not begun
	session       *agent.Agent[none]
	child         *agent.Agent[none]
}

func (p *pause) open(t *testing.T, st agent.Stores) {
	t.Helper()
	begin := func(d agent.Definition[none]) *agent.Agent[none] {
		d.Retry.Attempts = 1
		a, err := agent.New(d, st, quiet)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Bot().Shutdown(context.WithoutCancel(t.Context())) }) // it may have died
		return a
	}
	counts := func(n *atomic.Int32) func(context.Context, string, refundArgs) (string, error) {
		return func(context.Context, string, refundArgs) (string, error) { n.Store(1); return "paid", nil }
	}
	p.child = begin(agent.Definition[none]{
		Name: "child", Model: answers(call("p", "pay", `{"order":"A1"}`)), Tools: []agent.Tool{
			agent.Effect[refundArgs, string]{
				Name: "pay", Class: ledger.Idempotent, Run: counts(&p.paid),
				Approve: func(refundArgs) bool { return true },
			}.Tool(),
		},
	})
	p.session = begin(agent.Definition[none]{
		Name: "support",
		Model: answers(call("c1", "lookup", `{"order":"A1"}`), call("c2", "camera", `{}`),
			call("c3", "child", `{"input":"pay"}`), call("c4", "charge", `{"order":"A1"}`)),
		Tools: []agent.Tool{
			lookup(func(context.Context, refundArgs) (string, error) { return "found", nil }),
			agent.ClientTool[none]("camera", ""), agent.ChildTool(p.child, ""),
			agent.Effect[refundArgs, string]{
				Name: "charge", Class: ledger.Idempotent, Run: counts(&p.charged),
			}.Tool(),
		},
	})
	p.session.SetTail(1)
}

// goes says what begins the pause, and gives the first answer.
func (p *pause) goes(ctx context.Context) error {
	_, err := p.session.Say(ctx, "s", orchestrator.Input{RequestID: "r1", Text: "go"}, nil)
	if err == nil {
		_, err = p.session.Answer(ctx, "s", "c2", agent.Done("photo"))
	}
	return err
}

// whole fails the test if what is settled is a part of the pause. It returns the version.
func (p *pause) whole(t *testing.T) int {
	t.Helper()
	s, version, err := p.session.Get(t.Context(), "s")
	if errors.Is(err, agent.ErrUnknown) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	got := told(t, p.session, "s")
	for _, want := range []string{"c1: found", "c4: paid", `c2=camera{}`, `c3=child{"input":"pay"}`} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	var open, waits []string
	for _, o := range s.Open {
		for _, w := range o.Waits {
			open, waits = append(open, o.Call.ID), append(waits, w.Call.ID)
		}
	}
	if strings.Contains(got, "c3: the other agent has failed") { // a store has failed before the child began
		if done := s.Status == agent.Completed; done != (version == 2) || !done && fmt.Sprint(open) != "[c2]" {
			t.Errorf("version %d, %s: %v", version, s.Status, open)
		}
		p.failed = true
		return version
	}
	_, given := s.Answers["c2"]
	if by, ok := s.AnsweredBy("c2"); ok != given || by != "" || given != (version == 2) || version > 2 {
		t.Errorf("version %d: answered %t by %q, and the answer is there: %t", version, ok, by, given)
	}
	if fmt.Sprint(open, waits) != "[c2 c3] [c2 p]" || p.charged.Load() != 1 || p.paid.Load() != 0 || !s.Acted ||
		s.Status != agent.Paused && s.Status != agent.Active || s.Reason != agent.ForChildren || s.Phase != "" {
		t.Errorf("%s, %s: %v wait for %v, charged %d times", s.Status, s.Reason, open, waits, p.charged.Load())
	}
	if len(s.Children) != 1 || len(s.Open) != 2 || s.Open[1].Child == "" || s.Children[s.Open[1].Child] != "child" {
		t.Fatalf("children %v of %+v", s.Children, s)
	}
	c, _ := get(t, p.child, s.Open[1].Child)
	if c.Status != agent.Paused || c.Parent != "s" || len(c.Open) != 1 || c.Open[0].Waits[0].Call.ID != "p" {
		t.Errorf("the child is %+v", c)
	}
	return version
}

// ends gives the last answer, and fails the test if the session does not come to the end of one without a fault.
func (p *pause) ends(t *testing.T) {
	t.Helper()
	o, err := p.session.Answer(t.Context(), "s", "p", agent.Approve("ann"))
	settled(t, o, err)
	want := `user go | c1=lookup{"order":"A1"} | c2=camera{} | c3=child{"input":"pay"} | c4=charge{"order":"A1"} | ` +
		`c1: found | c4: paid | c2: photo | c3: paid | assistant photo`
	if got := told(t, p.session, "s"); got != want || o.Status != agent.Completed || p.paid.Load() != 1 {
		t.Errorf("%s: said was %s\nwant %s", o.Status, got, want)
	}
}

// A fault is a call of a store that fails: before it has done anything, or behind that. If the process dies of it, all
// later calls fail too.
type fault struct{ made, dies bool }

var errLost = errors.New("the reply was lost")

// at returns what lets the call with a number fail, and counts the calls. Those that come with the clock do not count.
func (f fault) at(number int32) (faulttest.Around, *atomic.Int32) {
	calls := new(atomic.Int32)
	return func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		if slices.Contains([]string{"Beat", "Rest", "Renew", "Held"}, c.Method) {
			return next(ctx)
		}
		n := calls.Add(1)
		if n < number || n > number && !f.dies {
			return next(ctx)
		}
		if n == number && f.made {
			if err := next(ctx); err != nil {
				return err
			}
		}
		return errLost
	}, calls
}

// A store fails at any call around a pause: before it has done anything, or behind that, for once or for ever. What is
// settled then is all of the pause or nothing: calls, results, the child and the status. Another process makes it
// whole.
func TestSuspensionIsOneWrite(t *testing.T) {
	for _, f := range []fault{{}, {made: true}, {dies: true}, {made: true, dies: true}} {
		paused, calls := 0, int32(1)
		for number := int32(1); number <= calls; number++ {
			synctest.Test(t, func(t *testing.T) {
				st, p := agent.InMemory(), new(pause)
				around, seen := f.at(number)
				p.open(t, agent.Stores{
					Checkpoints: faulttest.Checkpoints(st.Checkpoints, around),
					Snapshots:   faulttest.Joined(st.Snapshots, st.Checkpoints, nil, around),
					Transcript:  faulttest.Transcripts(st.Transcript, around),
					Ledger:      faulttest.Ledger(st.Ledger, around),
					Inbox:       faulttest.Inbox(st.Inbox, around),
					Stream:      faulttest.Stream(st.Stream, around),
				})
				err := p.goes(t.Context())
				calls = seen.Load() + 1 // one more, which does not come
				p.open(t, st)
				if version := p.whole(t); err == nil && version != 2 {
					t.Errorf("no error, and version %d", version)
				}
				time.Sleep(time.Hour) // what the process has owned is free
				if err := p.goes(t.Context()); err != nil {
					t.Error(err)
				}
				if version := p.whole(t); version != 2 {
					t.Errorf("version %d", version)
				}
				if !p.failed {
					p.ends(t)
					paused++
				}
				if t.Failed() {
					t.Fatalf("%+v at call %d of %d: %v", f, number, calls, err)
				}
			})
			if t.Failed() {
				return
			}
		}
		if paused < 15 {
			t.Errorf("%+v: only %d of %d calls have led to a pause", f, paused, calls)
		}
	}
}
