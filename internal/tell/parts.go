package tell

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A Call is a call of a tool that a bot has shown.
type Call struct {
	function
	ID   string
	Name string // "" if only the result was shown: an earlier turn has made the call
	Args json.RawMessage

	iteration int
	done      bool // it has a result
}

// show tells of a part. What is no turnhttp.Part is not told.
func (t *teller) show(ev orchestrator.Event) {
	var p turnhttp.Part
	if json.Unmarshal(ev.Data, &p) != nil {
		return
	}
	if t.part != nil {
		p = t.part(p)
	}
	switch p.Type {
	case turnhttp.PartCall:
		c := t.called(p.ID)
		if c == nil {
			c = &Call{ID: p.ID}
			t.calls = append(t.calls, c)
		}
		c.function, c.iteration, c.done = of(ev), ev.Iteration, false
		c.Name, c.Args = cmp.Or(p.Name, "tool"), p.Args
		if len(c.Args) == 0 {
			c.Args = None
		}
		t.to.Call(c)
	case turnhttp.PartResult:
		c := t.called(p.ID)
		if c == nil {
			c = &Call{function: of(ev), ID: p.ID, iteration: ev.Iteration}
			t.calls = append(t.calls, c)
		}
		c.done = true
		if p.Failed {
			t.to.Result(c, nil, cmp.Or(p.Text, hasFailed))
		} else {
			t.to.Result(c, Output(p.Text), "")
		}
	case turnhttp.PartReasoning:
		t.to.Reasoning(t.id(), p.Text)
	}
}

// Output returns the result of a call as JSON: an object or an array as it is, and any other text as a string.
func Output(text string) json.RawMessage {
	if at := strings.TrimLeft(text, " \t\r\n"); at != "" && (at[0] == '{' || at[0] == '[') && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	doc, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always has one
	}
	return doc
}

// called returns a call by its id; nil if none was shown, or if it is void.
func (t *teller) called(id string) *Call {
	if i := slices.IndexFunc(t.calls, func(c *Call) bool { return c.ID == id }); i >= 0 {
		return t.calls[i]
	}
	return nil
}

// void makes calls void: those whose function and iteration fit. A call that an earlier turn has made stays.
func (t *teller) void(fault string, fits func(of function, iteration int) bool) {
	t.calls = slices.DeleteFunc(t.calls, func(c *Call) bool {
		gone := c.Name != "" && fits(c.function, c.iteration)
		if gone {
			t.to.Undo(c, fault)
		}
		return gone
	})
}

// unanswered tells that the calls without a result get none.
func (t *teller) unanswered(fault string) {
	for _, c := range t.calls {
		if !c.done {
			c.done = true
			t.to.Result(c, nil, fault)
		}
	}
}
