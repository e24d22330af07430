package agent

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
)

// spend counts the turn towards the session. Whatever ends a turn calls it.
func (a *Agent[C]) spend(t *Turn[C]) {
	u := t.Usage()
	t.State.Spent.Input += u.Input
	t.State.Spent.Output += u.Output
	t.State.Spent.Cost += u.Cost
}

// left returns what the session may still cost. limited is false if there is no limit.
func (a *Agent[C]) left(t *Turn[C]) (cost float64, limited bool) {
	most := a.def.MaxCost
	if own := t.State.Most; own > 0 && (most == 0 || own < most) {
		most = own
	}
	return most - (t.State.Spent.Cost + t.Usage().Cost), most > 0
}

// fail settles the turn without the model.
func (a *Agent[C]) fail(t *Turn[C], why Reason) {
	t.State.Status, t.State.Reason, t.State.Phase = Failed, why, ""
	a.spend(t)
}

// unable ends an iteration that cannot be done because of err. If nothing has happened yet, the turn fails. If
// something has, it is told: the turn settles.
func (a *Agent[C]) unable(ctx context.Context, t *Turn[C], err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !t.State.Acted && t.State.Step <= 1:
		return err
	}
	text := logtext.Of(logtext.Private(err))
	t.Logger().WarnContext(ctx, "turn settles as failed, since something has happened", "err", text)
	a.fail(t, ModelFailed)
	return nil
}

// interrupt settles the turn because somebody has stopped it. Calls that have not run are answered so.
func (a *Agent[C]) interrupt(t *Turn[C], i *Interrupt) {
	s := &t.State
	if len(s.Open) > 0 {
		a.add(t, notExecuted(s.Open, "stopped"))
	}
	s.Open, s.Answers = nil, nil
	s.Status, s.Interrupt, s.Phase = Interrupted, i, ""
	a.spend(t)
}

// part is what a front end sees of a call, and of its result.
type part struct {
	Type   string `json:"type"` // tool_call, tool_result
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Args   any    `json:"args,omitempty"`
	Text   string `json:"text,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

// mostShown is how many bytes of a text or of arguments are shown.
const mostShown = 16 << 10

// show shows the calls and the results of a message.
func (a *Agent[C]) show(t *Turn[C], m message.Message) {
	for _, b := range m.Blocks {
		var p part
		if c, ok := b.Call(); ok {
			p = part{Type: "tool_call", ID: c.ID, Name: c.Name, Args: c.Args}
			if len(c.Args) > mostShown {
				p.Args = map[string]int{"bytes": len(c.Args)}
			}
		} else if r, ok := b.Result(); ok {
			p = part{Type: "tool_result", ID: r.CallID, Text: clip(b.Text, mostShown), Failed: r.IsError}
		} else {
			continue
		}
		if err := t.Show(p); err != nil {
			t.Logger().Warn("part not shown", "err", err)
		}
	}
}
