package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/turnlog"
)

// model asks the model once. The save that follows keeps the reply, before a tool starts. A panic of Prepare or Tokens
// is an error like any other.
func (a *Agent[C]) model(ctx context.Context, t *Turn[C]) error {
	err := protect(func() error { return a.askModel(ctx, t) })
	if _, panicked := err.(*orchestrator.PanicError); panicked { // as protect returns it
		return a.unable(ctx, t, err)
	}
	return err
}

func (a *Agent[C]) askModel(ctx context.Context, t *Turn[C]) error {
	s := &t.State
	if s.Phase == phaseCompact {
		return a.compactNow(ctx, t)
	}
	if err := a.move(ctx, t); err != nil {
		return a.unable(ctx, t, err)
	}
	if s.Step > 0 { // else the turn has only begun
		i, err := a.wish(ctx, t)
		if err != nil {
			return a.unable(ctx, t, err)
		}
		if i != nil {
			a.interrupt(t, i)
			return nil
		}
	}
	if s.Step >= a.def.MaxSteps {
		a.fail(t, Steps)
		return nil
	}
	if left, limited := a.left(t); limited && left <= 0 {
		a.fail(t, Budget)
		return nil
	}
	all, err := a.window(ctx, t)
	if err != nil {
		return a.unable(ctx, t, err)
	}
	since := lately(all)
	if s.Summary != "" {
		all = append([]message.Message{summed(s.Summary)}, all...)
	}
	if done, err := a.compact(ctx, t, all); done || err != nil {
		return err
	}
	heard, err := a.hear(ctx, t) // last: until a save has kept them, they must not move
	if err != nil {
		return a.unable(ctx, t, err)
	}
	all, since = append(all, heard...), append(since, heard...)
	s.Step++
	reply, err := a.ask(ctx, t, all)
	switch {
	case errors.Is(logtext.Private(err), errBudget):
		a.fail(t, Budget)
		return nil
	case errors.Is(logtext.Private(err), ErrTooLong) && a.def.Compact != nil && !s.Unsummed && !s.TooLong:
		s.TooLong = true
		s.Step--
		return nil // once more, with a summary
	case err != nil:
		return a.unable(ctx, t, err)
	}
	s.TooLong = false
	if s.Interrupt != nil { // somebody has stopped it
		return nil
	}
	return a.take(ctx, t, since, reply)
}

// lately returns what was said after the last reply.
func lately(all []message.Message) (since []message.Message) {
	for i, m := range slices.Backward(all) {
		if m.Role == message.RoleAssistant {
			all = all[i+1:]
			break
		}
	}
	for _, m := range all {
		m.Blocks = slices.Clone(m.Blocks) // Prepare may change those that the model is shown
		since = append(since, m)
	}
	return since
}

// ask asks the model. If somebody stops it, ask settles the turn, and keeps what the model had said.
func (a *Agent[C]) ask(ctx context.Context, t *Turn[C], all []message.Message) (m message.Message, err error) {
	r := Request{
		Instructions: a.def.Instructions, Said: all, Tools: slices.Clone(a.listed), MustCall: a.def.Finish != nil,
	}
	if a.def.Prepare != nil {
		if err := a.def.Prepare(ctx, &t.State, &r); err != nil {
			return m, err
		}
	}
	if n := len(r.Said); n > 0 && r.Said[n-1].Role == message.RoleAssistant {
		r.Said = append(r.Said, message.User("Go on.")) // it was stopped; many model APIs want the user to be last
	}
	q := &question[C]{
		agent: a, turn: t, models: a.models, shown: all, request: r, said: speech{emit: t.Emit, most: a.most},
	}
	if m, err = q.put(ctx); err != errStopped { //nolint:errorlint // this very error is meant
		return m, err
	}
	if text := q.said.String(); text != "" {
		a.add(t, message.Assistant(text))
		t.State.Output = text
	}
	a.halted(ctx, t)
	return m, nil
}

// proper checks a reply to what was said. It changes what a model API would refuse once it is said: all later calls of
// the model would fail.
func (a *Agent[C]) proper(t *Turn[C], said []message.Message, r Reply) (m message.Message, err error) {
	m = clean(r.Message)
	if m.Role == "" {
		m.Role = message.RoleAssistant
	}
	if m.Role != message.RoleAssistant {
		return m, retry.Permanent(fmt.Errorf("it has answered as %q", m.Role))
	}
	var seen map[string]bool
	var blocks []message.Block
	for _, b := range m.Blocks {
		c, ok := b.Call()
		switch {
		case !ok && (b.Kind != message.KindText || !blank(b.Text)):
			blocks = append(blocks, b)
			continue
		case !ok || r.Cut:
			continue
		}
		if seen == nil {
			seen = t.State.ids(said)
		}
		if _, answered := t.State.AnsweredBy(c.ID); answered || !toolName.MatchString(c.ID) || seen[c.ID] {
			c.ID = "call_" + rand.Text()[:20]
		}
		seen[c.ID] = true
		blocks = append(blocks, message.ToolCall(c.ID, properName(c.Name), properArgs(c.Args)))
	}
	for n := len(blocks); n > 0 && blocks[n-1].Kind == message.KindReasoning; n-- { // of a call that was cut, say
		blocks = blocks[:n-1]
	}
	m.Blocks = blocks
	switch {
	case len(blocks) == 0 && r.Cut:
		return m, retry.Permanent(errors.New("it was cut off before it had said anything whole"))
	case len(blocks) == 0:
		return m, errors.New("it has said nothing")
	case !fits(m, a.most):
		return m, retry.Permanent(fmt.Errorf("it has said %d bytes, and %d of JSON are the most", size(m), a.most))
	}
	return m, nil
}

// ids returns the ids of the calls in said and in the tail.
func (s *State[C]) ids(said []message.Message) map[string]bool {
	seen := make(map[string]bool)
	for _, m := range slices.Concat(said, s.Tail) {
		for _, b := range m.Blocks {
			if c, ok := b.Call(); ok {
				seen[c.ID] = true
			}
		}
	}
	return seen
}

// take goes on with a reply.
func (a *Agent[C]) take(ctx context.Context, t *Turn[C], since []message.Message, reply message.Message) error {
	s := &t.State
	a.add(t, reply)
	if err := record(ctx, t, since, reply); err != nil {
		return err
	}
	a.show(t, reply)
	s.Output, s.Open = words(reply), nil
	for _, b := range reply.Blocks {
		c, ok := b.Call()
		if !ok {
			continue
		}
		o := Open{Call: Call{ID: c.ID, Name: c.Name, Args: c.Args, Session: t.Session}}
		if tool := a.tools[c.Name]; tool != nil && tool.Child != nil {
			o.Child = s.childFor(t.Session, tool) // kept with the reply, before the child can start
			a.asks(t, o.Child, tool)
		}
		s.Open = append(s.Open, o)
	}
	if len(s.Open) > 0 {
		s.Phase, s.Status = phaseTools, ""
		a.announce(t)
		return nil
	}
	s.Phase, s.Status = "", Completed
	a.spend(t)
	return nil
}

// record records a reply, and what was said since the one before. What an entry of the log has no room for is left out:
// what has happened must not fail because of the log.
func record[C any](ctx context.Context, t *Turn[C], since []message.Message, reply message.Message) error {
	state := map[string]any{"messages": since, "respond": reply}
	err := t.RecordSoon(ctx, turnlog.LLMComplete, state)
	for _, large := range []string{"messages", "respond"} {
		if errors.Is(err, turnlog.ErrState) {
			state[large], state["cut"] = nil, fmt.Sprintf("left out from %s on: it is too large for an entry", large)
			err = t.RecordSoon(ctx, turnlog.LLMComplete, state)
		}
	}
	return err
}

// childFor returns the session for a call of a child.
func (s *State[C]) childFor(session string, tool *Tool) (child string) {
	if !tool.Bind {
		return childSession(session, tool.Name)
	}
	for _, child := range slices.Sorted(maps.Keys(s.Children)) { // a deploy may have bound a tool that had several
		if s.Children[child] == tool.Name {
			return child
		}
	}
	return childSession(session, tool.Name)
}

// childName is the end of what childSession returns. Nobody guesses it.
var childName = regexp.MustCompile(`(^|/)[a-zA-Z0-9_-]{1,64}/[A-Z2-7]{20}$`)

// childSession returns the name of a session for a child: its parent's, if there is room.
func childSession(parent, tool string) string {
	name := tool + "/" + rand.Text()[:20]
	if len(parent)+1+len(name) > 512 {
		return name
	}
	return parent + "/" + name
}
