package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// What an input is.
const (
	opSay      = "say"
	opAnswer   = "answer"
	opContinue = "continue"
	opDrop     = "drop"
	opCreate   = "create"
	opUpdate   = "update"
	opCompact  = "compact"
	opEnd      = "end"
)

// What a turn does next. The zero phase ends it.
const (
	phaseModel = "model"
	phaseTools = "tools"
	phaseDrop  = "drop" // the calls that are open

	phaseCompact = "compact"
)

// An envelope is the Data of an input. Of an input that another agent has sent to a session that it has named, it is
// the text.
type envelope struct {
	Op     string          `json:"op"`
	Data   json.RawMessage `json:"data,omitempty"`   // of say: the caller's
	Text   string          `json:"text,omitempty"`   // of say, from another agent
	Anew   *turnhttp.Edit  `json:"anew,omitempty"`   // of say: what it replaces
	Call   string          `json:"call,omitempty"`   // of answer
	Answer *Answer         `json:"answer,omitempty"` // of answer
	Hold   bool            `json:"hold,omitempty"`   // of answer: do not go on
	Parent string          `json:"parent,omitempty"` // of the first say of a child
	Root   string          `json:"root,omitempty"`
	Above  []string        `json:"above,omitempty"`
	Patch  json.RawMessage `json:"patch,omitempty"` // of create and update
	At     int             `json:"at,omitempty"`    // of update and end: the version that they want
	Keep   *int            `json:"keep,omitempty"`  // of update: how many messages stay; nil is all

	Said []transcript.Span `json:"said,omitempty"` // of create: by Import
}

func (e envelope) input(request, text string) orchestrator.Input {
	raw, _ := json.Marshal(e) // its parts are JSON already
	return orchestrator.Input{RequestID: request, Text: text, Data: raw, Kind: e.Op}
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
	if s.Over && s.Self == t.Session { // it is being deleted; a branch of it lives
		return refuse("session", ErrUnknown)
	}
	fresh := s.Self == ""
	switch env.Op {
	case opContinue, opDrop, opUpdate, opEnd, opCompact: // it was deleted meanwhile
		if fresh {
			return refuse("session", ErrUnknown)
		}
	}
	if fresh {
		s.Self, s.Born, s.Created = t.Session, rand.Text(), time.Now().UTC().Truncate(time.Millisecond)
		s.Parent, s.Root, s.Above = env.Parent, env.Root, env.Above
	}
	dropped := s.Self != t.Session && a.branched(t)
	if err := a.forget(ctx, t); err != nil {
		return err
	}
	s.limit(ctx, t.Session)
	was := *s
	s.Try, s.Unsummed, s.TooLong = rand.Text()[:13], false, false
	s.Phase, s.Step, s.Acted, s.Reason, s.Interrupt, s.Output, s.Result = "", 0, false, "", nil, "", nil
	switch env.Op {
	case opSay:
		if err := a.unpost(ctx, t); err != nil {
			return err
		}
		if a.def.Steer != Queue && s.heard(t.Input.RequestID) { // the turn before has taken it
			s.still(&was)
			return nil
		}
		err = a.say(ctx, t, env)
	case opAnswer:
		err = a.answer(ctx, t, env, was.Status)
	case opContinue:
		err = a.goOn(ctx, s, was.Status, dropped)
	case opDrop:
		s.Phase = phaseDrop
	default:
		return a.change(ctx, t, env, &was, fresh)
	}
	if err == nil && a.def.Begin != nil {
		err = a.def.Begin(ctx, t)
	}
	return err
}

// change takes an input that says nothing. The Begin of the definition does not see it.
func (a *Agent[C]) change(ctx context.Context, t *Turn[C], env envelope, was *State[C], fresh bool) error {
	s := &t.State
	switch env.Op {
	case opCreate:
		if !fresh {
			return refuse("session", ErrExists)
		}
		s.Said = env.Said
		return s.patch(env.Patch)
	case opUpdate, opEnd:
		s.still(was)
		if env.At != t.Index {
			return refuse("version", ErrStale)
		}
		if env.Op == opUpdate {
			return a.update(ctx, t, env.Patch, env.Keep)
		}
		s.Over = true
		return nil
	case opCompact:
		s.still(was)
		s.Phase = phaseCompact
		return nil
	}
	return &orchestrator.InputError{Field: "op", Reason: "is not known"}
}

// still keeps what the turn before has come to.
func (s *State[C]) still(was *State[C]) {
	s.Reason, s.Interrupt, s.Output, s.Result = was.Reason, was.Interrupt, was.Output, was.Result
}

// branched makes the state of another session that of this one. Whatever its source waits for does not wait here. It
// reports whether calls were dropped.
func (a *Agent[C]) branched(t *Turn[C]) (dropped bool) {
	s := &t.State
	s.Forked = s.count()
	dropped = len(s.Open) > 0
	if dropped {
		a.add(t, notExecuted(s.Open, whyBranched))
	}
	s.Self, s.Born, s.Parent, s.Root, s.Above, s.Most = t.Session, rand.Text(), "", "", nil, 0
	s.Open, s.Answers, s.Children, s.Over = nil, nil, nil, false
	return dropped
}

// forget removes the wish that has stopped the turn before. It was there until that turn had settled.
func (a *Agent[C]) forget(ctx context.Context, t *Turn[C]) error {
	if t.State.Interrupt == nil {
		return nil
	}
	return a.wishes.Remove(ctx, a.key(t.Session), inbox.Stop, t.State.Interrupt.Run)
}

// blank reports whether a text says nothing. No model API takes one, now or later.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

func (a *Agent[C]) say(ctx context.Context, t *Turn[C], env envelope) error {
	s := &t.State
	m := message.User(env.Text)
	m.ID = t.Input.RequestID
	if env.Anew != nil {
		if err := a.cut(ctx, t, *env.Anew); err != nil {
			return err
		}
		m.ID = env.Anew.ID
	}
	if len(s.Open) > 0 {
		return refuse("message", ErrPending)
	}
	if blank(env.Text) {
		return errBlank
	}
	s.Phase = phaseModel
	a.add(t, m)
	return nil
}

func (a *Agent[C]) answer(ctx context.Context, t *Turn[C], env envelope, was Status) error {
	if env.Answer == nil {
		return &orchestrator.InputError{Field: "answer", Reason: "is missing"}
	}
	s := &t.State
	p := s.pending(env.Call)
	_, before := s.Answers[env.Call]
	if p == nil {
		var err error
		if before, err = a.answeredBefore(ctx, t, env.Call); err != nil {
			return err
		}
	}
	switch {
	case before:
		return refuse("call", ErrAnswered)
	case p == nil:
		return refuse("call", ErrNoCall)
	case p.Kind != env.Answer.Kind:
		return refuse("answer", ErrKind)
	}
	ans, all := *env.Answer, 0
	for _, o := range s.Open {
		all += len(o.Waits)
	}
	// A state has room for the answers to all calls that wait, and for their results.
	most := 2 * a.most / all
	if p.Kind == Input {
		if wrong := misfit(p.Form, &ans, most); wrong != "" { // what is cut would not be what was said
			return refuse("answer", fmt.Errorf("%w: %s", ErrKind, wrong))
		}
	}
	ans.Result, ans.Note, ans.By = clip(ans.Result, most), clip(ans.Note, most), clip(ans.By, 512)
	s.Answers = with(s.Answers, env.Call, ans)
	s.Answered = s.Answered.with(env.Call, ans.By)
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
	switch p.Status {
	case "", Completed, Failed, Interrupted, Paused:
	default:
		return &orchestrator.InputError{Field: "status", Reason: "is none that a settled session has"}
	}
	if s.Mode != "" && p.Labels.Mode != s.Mode {
		return &orchestrator.InputError{Field: "mode", Reason: "is set once"}
	}
	s.Custom, s.Status, s.Labels = p.Custom, p.Status, p.Labels
	return nil
}

func (a *Agent[C]) route(_ context.Context, t *Turn[C]) (orchestrator.Next, error) {
	switch t.State.Phase {
	case phaseModel, phaseCompact:
		return orchestrator.To(phaseModel), nil
	case phaseTools, phaseDrop:
		return orchestrator.To(phaseTools), nil
	}
	return orchestrator.End, nil
}
