package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// runsOf returns the runs of a session, oldest first.
func runsOf(t *testing.T, a *agent.Agent[none], session string) (all []string) {
	t.Helper()
	for r, err := range a.Runs(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(r.Version, " ", r.Kind, " ", r.Status))
	}
	slices.Reverse(all)
	return all
}

// A moody agent does what it is told. cut is what cuts the model off, once.
type moody struct {
	mood string
	cut  func()
}

func (m *moody) Reply(ctx context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	if last(r).Role == message.RoleUser {
		m.mood = words(last(r))
	}
	switch {
	case m.mood == "fail":
		return agent.Reply{}, errModel
	case m.mood == "wait" && m.cut != nil:
		m.cut()
		m.cut = nil
		<-ctx.Done()
		return agent.Reply{}, ctx.Err()
	case m.mood == "loop":
		return says("", call(fmt.Sprint("l", len(r.Said)), "lookup", `{}`))
	case m.mood == "ask" && last(r).Role == message.RoleUser:
		return says("", call(fmt.Sprint("a", len(r.Said)), "camera", `{}`))
	}
	return says("done")
}

func (m *moody) agent(t *testing.T, st agent.Stores) *agent.Agent[none] {
	return newAgent(t, agent.Definition[none]{Model: m, MaxSteps: 2, Tools: []agent.Tool{
		agent.ClientTool[none]("camera", ""),
		agent.Read("lookup", "", func(context.Context, none) (string, error) { return "found", nil }),
	}}, st)
}

// Each input is a run, with its kind and its outcome: N messages and answers and continues are N runs. With a turn log
// those that have failed or were abandoned are among them, where they belong. The stream of each begins with the number
// that its run has, and no event is of two runs.
func TestRuns(t *testing.T) {
	for _, logged := range []bool{false, true} {
		t.Run(fmt.Sprint("turn log ", logged), func(t *testing.T) { runsWith(t, logged) })
	}
}

func runsWith(t *testing.T, logged bool) {
	st, m := agent.InMemory(), new(moody)
	if logged {
		st.TurnLog = new(turnlog.Memory)
	}
	a := m.agent(t, st)
	m.cut = func() {
		if err := a.Stop(t.Context(), "s", "", "enough"); err != nil {
			t.Error(err)
		}
	}
	var want []string
	ends := func(what string, err error) {
		t.Helper()
		if fails := strings.HasPrefix(what, "0 "); fails != (err != nil) {
			t.Fatalf("%s: %v", what, err)
		} else if !fails || logged {
			want = append(want, what)
		}
	}
	saying := func(ctx context.Context, text, becomes string) {
		t.Helper()
		_, err := a.Say(ctx, "s", agent.Text(text), nil)
		ends(becomes, err)
	}
	continues := func(becomes string) {
		t.Helper()
		_, err := a.Continue(t.Context(), "s", nil)
		ends(becomes, err)
	}
	saying(t.Context(), "fail", "0 say failed") // the session does not exist yet
	ends("1 create ", a.Create(t.Context(), "s", none{}, agent.Labels{}))
	saying(t.Context(), "hi", "2 say completed")
	saying(t.Context(), "fail", "0 say failed")
	saying(t.Context(), "wait", "3 say interrupted")
	continues("4 continue completed")
	ctx, die := context.WithCancel(t.Context())
	m.cut = die
	if _, err := a.Say(ctx, "s", agent.Text("wait"), nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Fatal(err)
	}
	if got := runsOf(t, a, "s"); !slices.Equal(got, append(slices.Clone(want), "5 say active")) {
		t.Errorf("with a run in flight: %q", got)
	}
	if ended, err := a.Bot().Abandon(t.Context(), "s", ""); err != nil || !ended {
		t.Fatal(ended, err)
	}
	ends("0 say abandoned", errModel)
	saying(t.Context(), "loop", "5 say failed")
	m.mood = "hi"
	continues("6 continue completed")
	o := say(t, a, "s", "ask")
	ends("7 say suspended_client_tool", nil)
	_, err := a.Answer(t.Context(), "s", o.Pending[0].Call.ID, agent.Done("photo"))
	ends("8 answer completed", err)
	say(t, a, "s", "ask")
	ends("9 say suspended_client_tool", nil)
	_, err = a.Drop(t.Context(), "s")
	ends("10 drop completed", err)
	_, err = a.Update(t.Context(), "s", 0, func(*agent.State[none]) error { return nil })
	ends("11 update completed", err)
	if err := a.Bot().Shutdown(t.Context()); err != nil { // its last events are kept by now
		t.Fatal(err)
	}

	other := m.agent(t, st)
	if got := runsOf(t, other, "s"); !slices.Equal(got, want) {
		t.Errorf("runs\n%q, want\n%q", got, want)
	}
	ownParts(t, other, logged)
}

// ownParts checks that a reader who begins where the stream of a run begins reads the run from its first event.
func ownParts(t *testing.T, a *agent.Agent[none], all bool) {
	t.Helper()
	before := int64(0) // of the run after it
	for r, err := range a.Runs(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		if r.Stream == 0 || before > 0 && r.Stream >= before {
			t.Errorf("%+v begins at %d, and the next run at %d", r, r.Stream, before)
		}
		n := int64(0)
		for shown, err := range a.Bot().Follow(t.Context(), "s", r.Stream-1) {
			if err != nil {
				t.Fatal(err)
			}
			if shown.Event.RunID != r.ID {
				break
			}
			if n++; n == 1 && shown.Event.Kind != orchestrator.TurnStarted {
				t.Errorf("%+v begins with %s", r, shown.Event.Kind)
			}
		}
		if n == 0 || all && before > 0 && r.Stream+n != before {
			t.Errorf("%+v has %d events, and the next run begins at %d", r, n, before)
		}
		before = r.Stream
	}
}

// If the stream or the turn log is away, the runs come all the same, and then the error.
func TestRunsAway(t *testing.T) {
	st := agent.InMemory()
	st.TurnLog = new(turnlog.Memory)
	say(t, new(moody).agent(t, st), "s", "hi")
	away := func(_ context.Context, c faulttest.Call, _ func(context.Context) error) error { return errModel }
	for name, broken := range map[string]func(*agent.Stores){
		"stream":   func(s *agent.Stores) { s.Stream = faulttest.Stream(st.Stream, away) },
		"turn log": func(s *agent.Stores) { s.TurnLog = logAway{st.TurnLog.(*turnlog.Memory)} },
	} {
		t.Run(name, func(t *testing.T) {
			st := st
			broken(&st)
			n, last := 0, error(nil)
			for r, err := range new(moody).agent(t, st).Runs(t.Context(), "s") {
				if last = err; err == nil && r.Status == string(agent.Completed) {
					n++
				}
			}
			if n != 1 || !errors.Is(last, errModel) {
				t.Errorf("%d runs, and then %v", n, last)
			}
		})
	}
}

type logAway struct{ *turnlog.Memory }

func (logAway) Turns(context.Context, turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	return func(yield func(turnlog.Summary, error) bool) { yield(turnlog.Summary{}, errModel) }
}

// A former owner records something after the run was abandoned. A log whose adapter has two methods lists no runs.
func TestRunsOfLogs(t *testing.T) {
	st, log, m := agent.InMemory(), new(turnlog.Memory), new(moody)
	st.TurnLog = log
	a := m.agent(t, st)
	if _, err := a.Say(t.Context(), "s", agent.Text("fail"), nil); err == nil {
		t.Fatal("no error")
	}
	for turn, err := range log.Turns(t.Context(), turnlog.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		late := turn.Last
		late.Phase, late.At, late.State = turnlog.LLMComplete, late.At.Add(time.Second), []byte(`{}`)
		if err := log.Record(t.Context(), late); err != nil {
			t.Fatal(err)
		}
	}
	say(t, a, "s", "hi")
	if got := runsOf(t, a, "s"); !slices.Equal(got, []string{"0 say failed", "1 say completed"}) {
		t.Errorf("runs %q", got)
	}
	st.TurnLog = turnlog.New(struct{ turnlog.Log }{log}, nil)
	if got := runsOf(t, m.agent(t, st), "s"); !slices.Equal(got, []string{"1 say completed"}) {
		t.Errorf("without a Lister: %q", got)
	}
}
