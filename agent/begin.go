package agent

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// What an input is.
const (
	opSay      = "say"
	opAnswer   = "answer"
	opContinue = "continue"
	opDrop     = "drop"
	opCreate   = "create"
	opUpdate   = "update"
)

// What a turn does next. The zero phase ends it.
const (
	phaseModel = "model"
	phaseTools = "tools"
	phaseDrop  = "drop" // the calls that are open
)

// An envelope is the Data of an input. Of an input that another agent has sent to a session that it has named, it is
// the text.
type envelope struct {
	Op     string          `json:"op"`
	Data   json.RawMessage `json:"data,omitempty"`   // of say: the caller's
	Text   string          `json:"text,omitempty"`   // of say, from another agent
	Call   string          `json:"call,omitempty"`   // of answer
	Answer *Answer         `json:"answer,omitempty"` // of answer
	Hold   bool            `json:"hold,omitempty"`   // of answer: do not go on
	Parent string          `json:"parent,omitempty"` // of the first say of a child
	Root   string          `json:"root,omitempty"`
	Most   float64         `json:"most,omitempty"`
	Patch  json.RawMessage `json:"patch,omitempty"` // of create and update
	At     int             `json:"at,omitempty"`    // of update: the version that it wants
}

func (e envelope) input(request, text string) orchestrator.Input {
	raw, _ := json.Marshal(e) // its parts are JSON already
	return orchestrator.Input{RequestID: request, Text: text, Data: raw}
}

// opened returns the envelope of an input, and what was said.
//
// A program may give the Tool of Bot to a model of its own. What that model says is what a user says, and no envelope:
// its session does not have the name of a child.
func opened(session string, in orchestrator.Input) (env envelope, err error) {
	env.Op = opSay
	switch {
	case in.Data != nil:
		err = json.Unmarshal(in.Data, &env)
		env.Text = in.Text
	case in.Origin == orchestrator.FromTool && childName.MatchString(session):
		err = json.Unmarshal([]byte(in.Text), &env)
	default:
		env.Text = in.Text
	}
	if err != nil {
		return env, &orchestrator.InputError{Field: "data", Reason: "is no input of an agent"}
	}
	return env, nil
}

// patch is what create and update set.
type patch[C any] struct {
	Custom C
	Status Status
	Labels Labels
}

// begin takes an input. It decides all that there is to decide about it, before anything is recorded.
func (a *Agent[C]) begin(ctx context.Context, t *Turn[C]) error {
	env, err := opened(t.Session, t.Input)
	if err != nil {
		return err
	}
	s := &t.State
	fresh := s.Self == ""
	if fresh {
		s.Self, s.Created = t.Session, time.Now().UTC().Truncate(time.Millisecond)
		s.Parent, s.Root = env.Parent, env.Root
	}
	dropped := s.Self != t.Session && a.branched(t)
	if err := a.forget(ctx, t); err != nil {
		return err
	}
	was := *s
	s.Phase, s.Step, s.Acted, s.Reason, s.Interrupt, s.Output, s.Result = "", 0, false, "", nil, "", nil
	switch env.Op {
	case opSay:
		err = a.say(t, env)
	case opAnswer:
		err = a.answer(s, env, was.Status)
	case opContinue:
		err = a.goOn(ctx, s, was.Status, dropped)
	case opDrop:
		s.Phase = phaseDrop
	case opCreate:
		if !fresh {
			return refuse("session", ErrExists)
		}
		return s.patch(env.Patch)
	case opUpdate:
		if fresh {
			return refuse("session", ErrUnknown)
		}
		if env.At != t.Index {
			return refuse("version", ErrStale)
		}
		s.Reason, s.Interrupt, s.Output, s.Result = was.Reason, was.Interrupt, was.Output, was.Result
		return s.patch(env.Patch)
	default:
		return &orchestrator.InputError{Field: "op", Reason: "is not known"}
	}
	if err == nil && a.def.Begin != nil {
		err = a.def.Begin(ctx, t)
	}
	return err
}

// branched makes the state of another session that of this one. Whatever its source waits for does not wait here. It
// reports whether calls were dropped.
func (a *Agent[C]) branched(t *Turn[C]) (dropped bool) {
	s := &t.State
	dropped = len(s.Open) > 0
	if dropped {
		a.add(t, notExecuted(s.Open, "the conversation was branched"))
	}
	s.Self, s.Parent, s.Root, s.Most = t.Session, "", "", 0
	s.Open, s.Answers, s.Children = nil, nil, nil
	return dropped
}

// forget removes the wish that has stopped the turn before. It was there until that turn had settled.
func (a *Agent[C]) forget(ctx context.Context, t *Turn[C]) error {
	if t.State.Interrupt == nil || a.stores.Inbox == nil {
		return nil
	}
	return a.stores.Inbox.Remove(ctx, a.key(t.Session), inbox.Stop, t.State.Interrupt.Run)
}

func (a *Agent[C]) say(t *Turn[C], env envelope) error {
	s := &t.State
	if len(s.Open) > 0 {
		return refuse("message", ErrPending)
	}
	if env.Most > 0 {
		s.Most = s.Spent.Cost + env.Most
	}
	s.Phase = phaseModel
	a.add(t, message.User(env.Text))
	return nil
}

func (a *Agent[C]) answer(s *State[C], env envelope, was Status) error {
	if env.Answer == nil {
		return &orchestrator.InputError{Field: "answer", Reason: "is missing"}
	}
	p := s.pending(env.Call)
	_, before := s.Answered[env.Call]
	switch {
	case before:
		return refuse("call", ErrAnswered)
	case p == nil:
		return refuse("call", ErrNoCall)
	case p.Kind != env.Answer.Kind:
		return refuse("answer", ErrKind)
	}
	s.Answers, s.Answered = with(s.Answers, env.Call, *env.Answer), with(s.Answered, env.Call, env.Answer.By)
	s.Status, s.Acted = was, true
	if env.Hold || len(s.missing()) > 0 {
		s.Reason = s.why()
		return nil
	}
	s.Phase = phaseTools
	s.Resumes++
	return nil
}

// with returns m with one more value. An older state may have m.
func with[V any](m map[string]V, key string, v V) map[string]V {
	m = maps.Clone(m)
	if m == nil {
		m = make(map[string]V)
	}
	m[key] = v
	return m
}

func (a *Agent[C]) goOn(ctx context.Context, s *State[C], was Status, dropped bool) error {
	if len(s.missing()) > 0 {
		if err := a.lookAtChildren(ctx, s); err != nil {
			return err
		}
	}
	switch {
	case len(s.missing()) > 0:
		return refuse("session", ErrPending)
	case len(s.Open) > 0:
		s.Phase, s.Acted = phaseTools, true
	case dropped || was == Interrupted || was == Failed:
		s.Phase = phaseModel
	default:
		return refuse("session", ErrIdle)
	}
	s.Resumes++
	return nil
}

func (s *State[C]) patch(raw json.RawMessage) error {
	p := patch[C]{Custom: s.Custom, Status: s.Status, Labels: s.Labels}
	if err := json.Unmarshal(raw, &p); err != nil {
		return &orchestrator.InputError{Field: "patch", Reason: "is no patch of this agent"}
	}
	if s.Mode != "" && p.Labels.Mode != s.Mode {
		return &orchestrator.InputError{Field: "mode", Reason: "is set once"}
	}
	s.Custom, s.Status, s.Labels = p.Custom, p.Status, p.Labels
	return nil
}

func (a *Agent[C]) route(_ context.Context, t *Turn[C]) (orchestrator.Next, error) {
	switch t.State.Phase {
	case phaseModel:
		return orchestrator.To(phaseModel), nil
	case phaseTools, phaseDrop:
		return orchestrator.To(phaseTools), nil
	}
	return orchestrator.End, nil
}
