package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A reader is a model that reads so many pages in a turn, and knows what it was shown at most. Its summaries count.
type reader struct {
	t                  *testing.T
	pages, most        int
	summaries, refuses int
	told               []string // what it was to summarize
}

func (m *reader) Reply(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	if err := agent.Valid(r.Said, nil); err != nil {
		m.t.Errorf("%v: %s", err, print(r.Said))
	}
	if len(r.Tools) == 0 {
		if m.refuses--; m.refuses >= 0 {
			return agent.Reply{}, errModel
		}
		m.summaries++
		m.told = append(m.told, r.Said[0].Blocks[0].Text)
		return says(fmt.Sprint("summary ", m.summaries))
	}
	m.most = max(m.most, len(print(r.Said)))
	if !strings.Contains(print(r.Said), "read it all") {
		m.t.Errorf("the model does not see what the user wants: %.300s", print(r.Said))
	}
	if m.pages--; m.pages < 0 {
		return says("read")
	}
	return says("", call(fmt.Sprint("p", m.pages), "page", "{}"))
}

var pages = agent.Read("page", "", func(context.Context, struct{}) (string, error) {
	return strings.Repeat("words ", 400), nil
})

func (m *reader) agent(t *testing.T, st agent.Stores, c *agent.Compaction) *agent.Agent[none] {
	return newAgent(t, agent.Definition[none]{
		Model: m, MaxSteps: 100, Compact: c, Tools: []agent.Tool{pages},
	}, st)
}

// In the middle of a long turn summaries take the place of what was read, and nothing of it is lost.
func TestCompact(t *testing.T) {
	m := &reader{t: t, pages: 60}
	a := m.agent(t, agent.InMemory(), &agent.Compaction{Above: 5000})
	o := say(t, a, "s", "read it all")
	if o.Text != "read" || m.summaries < 5 || m.most > 4*5000+3000 {
		t.Errorf("%+v with %d summaries; the model saw %d bytes", o, m.summaries, m.most)
	}
	if want := 61 + m.summaries; o.Usage.Input != 10*want {
		t.Errorf("usage %+v, want that of %d calls", o.Usage, want)
	}
	for i, text := range m.told {
		if want := fmt.Sprint("summary ", i); i > 0 && !strings.Contains(text, want+"\n") {
			t.Errorf("summary %d does not know the one before: %.200s", i+1, text)
		}
		if strings.Count(text, "[call p") != strings.Count(text, "[result of call p") || len(text) > 4*5000+3000 {
			t.Errorf("summary %d is of half a call, or of %d bytes", i+1, len(text))
		}
	}
	all := told(t, a, "s")
	if calls := strings.Count(all, "=page"); calls != 60 || strings.Contains(all, "summary") {
		t.Errorf("%d calls in what was said, want 60, and no summary: %.300s", calls, all)
	}
	s, version := get(t, a, "s")
	if s.Summary != fmt.Sprint("summary ", m.summaries) {
		t.Errorf("the state has %q", s.Summary)
	}
	// A branch has all of it too.
	if err := a.Branch(t.Context(), "s", version, "b"); err != nil {
		t.Fatal(err)
	}
	if got := told(t, a, "b"); got != all {
		t.Errorf("the branch has said\n%.300s", got)
	}
	m.pages, m.most = 1, 0
	say(t, a, "b", "read it all again")
	if m.most > 4*5000+3000 {
		t.Errorf("in the branch the model saw %d bytes", m.most)
	}
}

// If a summary fails, the model sees all, and the next turn tries again.
func TestCompactFails(t *testing.T) {
	m := &reader{t: t, pages: 20, refuses: 1}
	a := m.agent(t, agent.InMemory(), &agent.Compaction{Above: 5000})
	if o := say(t, a, "s", "read it all"); o.Status != agent.Completed || m.summaries != 0 || m.most < 20*2400 {
		t.Errorf("%+v with %d summaries; the model saw %d bytes", o, m.summaries, m.most)
	}
	m.pages, m.most = 0, 0
	if o := say(t, a, "s", "and read it all again"); o.Text != "read" || m.summaries < 2 || m.most > 4*5000+3000 {
		t.Errorf("%+v with %d summaries; the model saw %d bytes", o, m.summaries, m.most)
	}
}

// A model that says that it was shown too much is shown a summary, until there is nothing more to leave out.
func TestCompactTooLong(t *testing.T) {
	m := &reader{t: t, pages: 20}
	limit, asked := 20_000, 0
	d := agent.Definition[none]{Model: agent.ModelFunc(
		func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
			if asked++; len(print(r.Said)) > limit {
				return agent.Reply{}, fmt.Errorf("400: %w", agent.ErrTooLong)
			}
			return m.Reply(ctx, r, token)
		},
	), MaxSteps: 30, Compact: &agent.Compaction{Above: 50_000, Keep: 2000}, Tools: []agent.Tool{pages}}
	a := newAgent(t, d, agent.InMemory())
	if o := say(t, a, "s", "read it all"); o.Text != "read" || m.summaries == 0 || asked > 21+2*m.summaries {
		t.Errorf("%+v with %d summaries, asked %d times", o, m.summaries, asked)
	}
	limit = 100
	o, err := a.Say(t.Context(), "s", agent.Text("read it all again"), nil)
	if !errors.Is(err, agent.ErrTooLong) {
		t.Errorf("%+v, %v", o, err)
	}
}

// Compact takes a turn of its own, also while calls wait, and changes nothing else.
func TestCompactNow(t *testing.T) {
	w := new(shop)
	d := w.Definition()
	d.Compact = &agent.Compaction{Above: 1 << 20, Keep: 60, Model: agent.ModelFunc(
		func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			return says("it was about " + strings.Fields(r.Said[0].Blocks[0].Text)[1])
		},
	)}
	a := newAgent(t, d, agent.InMemory())
	if _, err := a.Compact(t.Context(), "s", nil); !errors.Is(err, agent.ErrUnknown) {
		t.Errorf("a session that does not exist: %v", err)
	}
	first := say(t, a, "s", "pizza")
	o, err := a.Compact(t.Context(), "s", nil)
	settled(t, o, err)
	if o.Status != first.Status || o.Reason != first.Reason || len(o.Pending) != len(first.Pending) {
		t.Errorf("%+v became %+v", first, o)
	}
	for _, p := range o.Pending {
		ans := agent.Approve("desk")
		if p.Kind == agent.Client {
			ans = agent.Done("seen")
		}
		o, err = a.Answer(t.Context(), "s", p.Call.ID, ans)
		settled(t, o, err)
	}
	if o.Status != agent.Completed || w.Refunds.Load() != 1 {
		t.Errorf("%+v, %d refunds", o, w.Refunds.Load())
	}
	again, err := a.Compact(t.Context(), "s", nil)
	if settled(t, again, err); again.Text != o.Text {
		t.Errorf("%+v, want the text %q", again, o.Text)
	}
	s, _ := get(t, a, "s")
	if s.Summary == "" || len(s.Behind) == 0 {
		t.Errorf("no summary: %+v", s)
	}
	if _, err := newAgent(t, w.Definition(), agent.InMemory()).Compact(t.Context(), "s", nil); err == nil {
		t.Error("an agent without Compact compacts")
	}
}

// A compaction keeps every round whole.
func TestCompactTokens(t *testing.T) {
	tokens := func(m message.Message) int { return len(m.Blocks) }
	m := &reader{t: t, pages: 12}
	a := m.agent(t, agent.InMemory(), &agent.Compaction{Above: 6, Keep: 2, Tokens: tokens})
	o, err := a.Say(t.Context(), "s", orchestrator.Input{Text: "read it all"}, nil)
	if settled(t, o, err); m.summaries < 2 {
		t.Errorf("%d summaries", m.summaries)
	}
}

// A history that was imported is summarized in as many pieces as it takes, also if a single message is more than a
// model may be shown, and whatever Above is.
func TestCompactHistory(t *testing.T) {
	for _, above := range []int{1, 3, 1000, 3000} {
		m := &reader{t: t}
		a := m.agent(t, agent.InMemory(), &agent.Compaction{Above: above})
		var all []message.Message
		for range 100 {
			all = append(all, message.User(strings.Repeat("word ", 900)), message.Assistant("ok"))
		}
		if _, err := a.Import(t.Context(), "s", all, none{}, agent.Labels{}); err != nil {
			t.Fatal(err)
		}
		o, err := a.Say(t.Context(), "s", agent.Text("read it all"), nil)
		if settled(t, o, err); m.summaries < 100*1000/(above+1200) || m.most > 4*above+1000 {
			t.Errorf("Above %d: %d summaries; the model saw %d bytes", above, m.summaries, m.most)
		}
	}
}

// A summary that Compact asks for and that fails counts towards the budget.
func TestCompactCosts(t *testing.T) {
	a := newAgent(t, agent.Definition[none]{
		MaxCost: 0.05, Compact: &agent.Compaction{Above: 1000, Keep: 1},
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			reply, err := says("hello")
			if r.Instructions != "" { // that of a summary
				err = errModel
			}
			return reply, err
		}),
	}, agent.InMemory())
	first := say(t, a, "s", "go")
	for range 10 {
		if o, err := a.Compact(t.Context(), "s", nil); err == nil || o != nil && o.Status != first.Status {
			t.Errorf("%+v, %v", o, err)
		}
	}
	if s, _ := get(t, a, "s"); s.Spent.Cost < 0.0499 || s.Spent.Cost > 0.0601 {
		t.Errorf("spent %v", s.Spent)
	}
}
