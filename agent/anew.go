package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// Said implements [turnhttp.Editor].
func (c chat[C]) Said(ctx context.Context, session, id string) (text string, turn int, err error) {
	r, err := c.newest(ctx, session)
	if errors.Is(err, ErrUnknown) {
		return "", 0, checkpoint.ErrNotFound
	}
	if err != nil {
		return "", 0, err
	}
	_, m, err := c.find(ctx, session, &r.State, id)
	return words(m), m.Turn, err
}

// Anew implements [turnhttp.Editor].
func (c chat[C]) Anew(in orchestrator.Input, e turnhttp.Edit) (orchestrator.Input, error) {
	var env envelope
	err := json.Unmarshal(in.Data, &env)
	if err == nil {
		env.Anew = &e
		in.Data, err = json.Marshal(env)
	}
	return in, err
}

// replaces reports whether an input says something in the place of what was said.
func replaces(in orchestrator.Input) bool {
	var env envelope
	return json.Unmarshal(in.Data, &env) == nil && env.Anew != nil
}

// find returns the newest message that a user has said under an id, and how many came before it. It looks at what a
// summary stands for, too.
func (a *Agent[C]) find(
	ctx context.Context, session string, s *State[C], id string,
) (before int, found message.Message, err error) {
	fits := func(m message.Message) bool { return m.Role == message.RoleUser && m.ID == id && id != "" }
	spans := s.named()
	told := int(transcript.Count(spans))
	for i, m := range slices.Backward(s.Tail) {
		if fits(m) {
			return told + i, m, nil
		}
	}
	const atOnce = 256
	for told > 0 {
		n := min(atOnce, told)
		part := newest(transcript.First(spans, int64(told)), int64(n))
		told -= n
		at, i := -1, told
		for m, err := range a.stores.Transcript.Read(ctx, a.key(session), part) {
			if err != nil {
				return 0, found, err
			}
			if fits(m) {
				at, found = i, m
			}
			i++
		}
		if at >= 0 {
			return at, found, nil
		}
	}
	return 0, found, checkpoint.ErrNotFound
}

// cut forgets the message that an input replaces, and all behind it. The calls that wait belong to that. What tools
// have done is not undone, and the transcript keeps what was said until it is tidied up.
func (a *Agent[C]) cut(ctx context.Context, t *Turn[C], e turnhttp.Edit) error {
	s := &t.State
	n, m, err := a.find(ctx, t.Session, s, e.ID)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound) && e.Run == "": // the turn that was to hear it has failed
		return nil
	case errors.Is(err, checkpoint.ErrNotFound):
		return refuse("message", ErrStale)
	case err != nil:
		return err
	case e.Run != "" && n >= s.Forked: // a fork has no turns of its source
		if replaced, err := a.replaced(ctx, t, m.Turn, e.Run); err != nil {
			return err
		} else if replaced {
			return refuse("message", ErrStale)
		}
	}
	s.Open, s.Answers = nil, nil
	s.KeepFirst(n)
	return nil
}

// lookBack is how many turns are searched for a reply that was replaced.
const lookBack = 100

// replaced reports whether a run has settled a turn before first, the one that has heard the message now. A run that
// has not settled has failed, and may be tried again.
func (a *Agent[C]) replaced(ctx context.Context, t *Turn[C], first int, run string) (bool, error) {
	for n := t.Index - 1; n >= max(0, t.Index-lookBack); n-- {
		r, err := a.bot.Turn(ctx, t.Session, n)
		switch {
		case errors.Is(err, checkpoint.ErrNotFound):
			return false, nil
		case err != nil:
			return false, err
		case r.RunID == run:
			return n < first, nil
		}
	}
	return false, nil
}
