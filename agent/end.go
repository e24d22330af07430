package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnhttp"
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
	if own := t.State.Most; own != 0 && (most == 0 || own < most) {
		most = own
	}
	return most - (t.State.Spent.Cost + t.Usage().Cost), most != 0
}

// fail settles the turn without the model.
func (a *Agent[C]) fail(t *Turn[C], why Reason) {
	t.State.Status, t.State.Reason, t.State.Phase = Failed, why, ""
	a.spend(t)
}

// happened reports whether a turn must not fail, since it has changed the world, or the session has a budget and the
// turn has cost something.
func (a *Agent[C]) happened(t *Turn[C]) bool {
	_, limited := a.left(t)
	return t.State.Acted || t.State.Step > 1 || limited && t.Usage().Cost > 0
}

// unable ends an iteration that cannot be done because of err. If nothing has happened yet, the turn fails. If
// something has, it is told: the turn settles. So a cost counts towards the budget, if there is one.
func (a *Agent[C]) unable(ctx context.Context, t *Turn[C], err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !a.happened(t):
		return err
	}
	err = logtext.Private(err)
	t.Logger().WarnContext(ctx, "turn settles as failed, since something has happened", "err", a.logged(err))
	why := ModelFailed
	if errors.Is(err, ErrTooLong) {
		why = TooLong
	}
	a.fail(t, why)
	return nil
}

// interrupt settles the turn because somebody has stopped it. Calls that have not run are answered so.
func (a *Agent[C]) interrupt(t *Turn[C], i *Interrupt) {
	s := &t.State
	if len(s.Open) > 0 {
		a.add(t, notExecuted(s.Open, whyStopped))
	}
	s.Open, s.Answers = nil, nil
	s.Status, s.Interrupt, s.Phase = Interrupted, i, ""
	a.spend(t)
}

// halted settles the turn because somebody has stopped what it was doing.
func (a *Agent[C]) halted(ctx context.Context, t *Turn[C]) {
	i, _ := a.wish(ctx, t)
	if i == nil {
		i = &Interrupt{Run: t.RunID}
	}
	a.interrupt(t, i)
}

// maxShown is how many bytes of what a model has thought are shown.
const maxShown = 16 << 10

// show shows the calls and the results of a message, and what the model has thought if the definition says so.
func (a *Agent[C]) show(t *Turn[C], m message.Message) {
	var parts []turnhttp.Part
	for _, b := range m.Blocks {
		if a.def.ShowReasoning && b.Kind == message.KindReasoning && b.Text != "" {
			parts = append(parts, turnhttp.Part{Type: turnhttp.PartReasoning, Text: clip(b.Text, maxShown)})
		}
	}
	for _, p := range slices.Concat(parts, turnhttp.PartsOf(m)) {
		if p.Type == turnhttp.PartText { // it was emitted
			continue
		}
		if err := t.Show(p); err != nil {
			t.Logger().Warn("part not shown", "err", err)
		}
	}
}
