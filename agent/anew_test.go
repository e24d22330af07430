package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A model of an editing shop says how many messages it was shown, and "pay" calls a tool.
type editing struct {
	paid  atomic.Int32
	shown atomic.Value // what the model was shown last
	agent *agent.Agent[none]
}

func (e *editing) reply(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	var all []string
	for _, m := range r.Said {
		all = append(all, m.Role+" "+m.Blocks[0].Text)
	}
	e.shown.Store(strings.Join(all, " | "))
	last := r.Said[len(r.Said)-1]
	if last.Role == message.RoleUser && last.Blocks[0].Text == "pay" {
		return agent.Reply{Message: message.Message{Blocks: []message.Block{
			message.ToolCall("c1", "pay", []byte("{}")),
		}}}, nil
	}
	return agent.Reply{Message: message.Assistant("ok")}, nil
}

func newEditing(t *testing.T, compact *agent.Compaction) *editing {
	t.Helper()
	e := new(editing)
	pay := agent.Effect[struct{}, string]{
		Name: "pay", Class: ledger.Idempotent,
		Run: func(context.Context, string, struct{}) (string, error) {
			e.paid.Add(1)
			return "paid", nil
		},
	}
	e.agent = newAgent(t, agent.Definition[none]{
		Name: "editing", Model: agent.ModelFunc(e.reply), Tools: []agent.Tool{pay.Tool()}, Compact: compact,
	}, agent.InMemory())
	return e
}

func (e *editing) says(t *testing.T, session, id, text string) {
	t.Helper()
	_, err := e.agent.Say(t.Context(), session, orchestrator.Input{RequestID: id, Text: text}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func (e *editing) editor() turnhttp.Editor {
	return e.agent.Options(turnhttp.Options[agent.State[none]]{}).Chat.(turnhttp.Editor)
}

// edits says text in the place of a message.
func (e *editing) edits(t *testing.T, session, id, text string) error {
	t.Helper()
	in := e.agent.Input(orchestrator.Input{RequestID: "edit of " + id + " to " + text, Text: text})
	in, err := e.editor().Anew(in, turnhttp.Edit{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.agent.Bot().Execute(t.Context(), session, in, nil)
	return err
}

// An edit forgets what is behind it, also if a summary stands for it, or a branch has it from its source.
func TestAnew(t *testing.T) {
	for name, prepare := range map[string]func(*editing) (session string, err error){
		"as it was said": func(*editing) (string, error) { return "s", nil },
		"behind a summary": func(e *editing) (string, error) {
			_, err := e.agent.Compact(t.Context(), "s", nil)
			return "s", err
		},
		"in a branch": func(e *editing) (string, error) {
			_, version, err := e.agent.Get(t.Context(), "s")
			if err != nil {
				return "", err
			}
			return "s2", e.agent.Branch(t.Context(), "s", version, "s2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEditing(t, &agent.Compaction{Above: 1 << 20, Keep: 1})
			for i := range 4 {
				e.says(t, "s", fmt.Sprint("m", i), fmt.Sprint("number ", i))
			}
			session, err := prepare(e)
			if err != nil {
				t.Fatal(err)
			}
			if text, _, err := e.editor().Said(t.Context(), session, "m1"); err != nil || text != "number 1" {
				t.Errorf("%q, %v", text, err)
			}
			if err := e.edits(t, session, "m1", "another"); err != nil {
				t.Fatal(err)
			}
			if got := e.shown.Load(); got != "user number 0 | assistant ok | user another" {
				t.Error(got)
			}
			if _, _, err := e.editor().Said(t.Context(), session, "m2"); err == nil {
				t.Error("the session still has what it has forgotten")
			}
		})
	}
}

// An edit undoes nothing: what was paid stays paid, and the same words pay again.
func TestAnewBehindPayment(t *testing.T) {
	e := newEditing(t, nil)
	e.says(t, "s", "m1", "pay")
	if err := e.edits(t, "s", "m1", "hello"); err != nil {
		t.Fatal(err)
	}
	if got := e.shown.Load(); got != "user hello" || e.paid.Load() != 1 {
		t.Errorf("%v, paid %d times", got, e.paid.Load())
	}
	if err := e.edits(t, "s", "m1", "pay"); err != nil {
		t.Fatal(err)
	}
	if e.paid.Load() != 2 {
		t.Errorf("paid %d times", e.paid.Load())
	}
}
