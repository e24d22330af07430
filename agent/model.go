package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnlog"
)

// model asks the model once. The save that follows keeps the reply, before a tool starts.
func (a *Agent[C]) model(ctx context.Context, t *Turn[C]) error {
	s := &t.State
	since := lately(s.Tail)
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
	s.Step++
	reply, err := a.ask(ctx, t)
	if err != nil {
		return a.unable(ctx, t, err)
	}
	if s.Interrupt != nil { // somebody has stopped it
		return nil
	}
	return a.take(ctx, t, since, reply)
}

// lately returns what was said after the last reply.
func lately(tail []message.Message) []message.Message {
	for i, m := range slices.Backward(tail) {
		if m.Role == message.RoleAssistant {
			return tail[i+1:]
		}
	}
	return tail
}

// ask asks the model. If somebody stops it, ask settles the turn, and keeps what it had said.
func (a *Agent[C]) ask(ctx context.Context, t *Turn[C]) (m message.Message, err error) {
	all, err := a.window(ctx, t)
	if err != nil {
		return m, err
	}
	r := Request{
		Instructions: a.def.Instructions, Said: all, Tools: slices.Clone(a.listed), MustCall: a.def.Finish != nil,
	}
	if a.def.Prepare != nil {
		if err := a.def.Prepare(ctx, &t.State, &r); err != nil {
			return m, err
		}
	}
	inner, done := a.interruptible(ctx, t)
	var mu sync.Mutex // protects following field
	var partial strings.Builder
	var reply Reply
	err = protect(func() (err error) {
		reply, err = a.def.Model.Reply(inner, r, func(delta string) {
			mu.Lock()
			defer mu.Unlock()
			partial.WriteString(delta)
			t.Emit(delta)
		})
		return err
	})
	halted := stopped(inner)
	done()
	t.AddUsage(reply.Usage) // also of a failed call
	if err != nil && halted && ctx.Err() == nil {
		i, _ := a.wish(ctx, t)
		if i == nil {
			i = &Interrupt{Run: t.RunID}
		}
		mu.Lock()
		defer mu.Unlock()
		if text := stripped(strings.ToValidUTF8(partial.String(), "")); text != "" {
			a.add(t, message.Assistant(text))
			t.State.Output = text
		}
		a.interrupt(t, i)
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("agent: the model: %w", logtext.Private(err))
	}
	return a.proper(t, reply)
}

// proper checks a reply, and gives ids to the calls that have none of their own.
func (a *Agent[C]) proper(t *Turn[C], r Reply) (m message.Message, err error) {
	m = clean(r.Message)
	if m.Role == "" {
		m.Role = message.RoleAssistant
	}
	if m.Role != message.RoleAssistant {
		return m, fmt.Errorf("agent: the model has answered as %q", m.Role)
	}
	seen := t.State.ids()
	var blocks []message.Block
	for _, b := range m.Blocks {
		c, ok := b.Call()
		switch {
		case !ok && (b.Kind != message.KindText || b.Text != ""): // model APIs take no empty text
			blocks = append(blocks, b)
			continue
		case !ok || r.Cut:
			continue
		}
		if !toolName.MatchString(c.ID) || seen[c.ID] {
			c.ID = "call_" + rand.Text()[:20]
		}
		seen[c.ID] = true
		blocks = append(blocks, message.ToolCall(c.ID, c.Name, c.Args))
	}
	m.Blocks = blocks
	switch size := size(m); {
	case len(blocks) == 0:
		return m, errors.New("agent: the model has said nothing")
	case size > a.most:
		return m, fmt.Errorf("agent: the model has said %d bytes, and %d are the most", size, a.most)
	}
	return m, nil
}

// ids returns the ids of calls that the state knows.
func (s *State[C]) ids() map[string]bool {
	seen := make(map[string]bool)
	for id := range s.Answered {
		seen[id] = true
	}
	for _, m := range s.Tail {
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
	err := t.Record(ctx, turnlog.LLMComplete, map[string]any{"messages": since, "respond": reply})
	if err != nil {
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
			o.Child = childSession(t.Session, c.Name) // kept with the reply, before the child can start
		}
		s.Open = append(s.Open, o)
	}
	if len(s.Open) > 0 {
		s.Phase, s.Status = phaseTools, ""
		return nil
	}
	s.Phase, s.Status = "", Completed
	a.spend(t)
	return nil
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
