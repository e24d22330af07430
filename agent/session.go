package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Text is the input of a user without a request id.
func Text(text string) orchestrator.Input { return orchestrator.Input{Text: text} }

func (a *Agent[C]) run(
	ctx context.Context, session string, in orchestrator.Input, c *orchestrator.CallOptions,
) (*Outcome[C], error) {
	res, err := a.bot.Execute(ctx, session, in, c)
	if err != nil {
		return nil, err
	}
	return outcome(res), nil
}

// Input wraps what a user says for Bot().Execute and Stream.
func (a *Agent[C]) Input(in orchestrator.Input) orchestrator.Input {
	wrapped := envelope{Op: opSay, Data: in.Data}.input(in.RequestID, in.Text)
	wrapped.By, wrapped.Origin = in.By, in.Origin
	return wrapped
}

// Say runs a turn with what the user says. ErrPending while calls wait: Answer them, or Drop.
func (a *Agent[C]) Say(
	ctx context.Context, session string, in orchestrator.Input, c *orchestrator.CallOptions,
) (*Outcome[C], error) {
	return a.run(ctx, session, a.Input(in), c)
}

// Answer takes the answer to a call that waits, by the session of the root or of whoever made the call. Once no answer
// is missing, the turn goes on. The same answer again is no error. If a child was answered in its own session, Continue
// goes on with its parent.
func (a *Agent[C]) Answer(ctx context.Context, session, call string, ans Answer) (*Outcome[C], error) {
	return a.run(ctx, session, answerInput(call, ans, false), nil)
}

// Submit is Answer, and never goes on: Continue does.
func (a *Agent[C]) Submit(ctx context.Context, session, call string, ans Answer) (*Outcome[C], error) {
	return a.run(ctx, session, answerInput(call, ans, true), nil)
}

// answerInput is the input that Answer runs. The request id is made of the answer, so that a repeat is the same turn.
func answerInput(call string, ans Answer, hold bool) orchestrator.Input {
	raw, _ := json.Marshal(ans)
	sum := sha256.Sum256(raw)
	id := fmt.Sprintf("answer %s %s", hex.EncodeToString(sum[:8]), call)
	return envelope{Op: opAnswer, Call: call, Answer: &ans, Hold: hold}.input(id, "")
}

// Continue goes on after answers that were submitted, after a stop, or after a failure.
func (a *Agent[C]) Continue(ctx context.Context, session string, c *orchestrator.CallOptions) (*Outcome[C], error) {
	_, version, err := a.Get(ctx, session)
	if err != nil {
		return nil, err
	}
	// The request id is that of the version: a repeat of a turn that failed is the same run, and finds its effects.
	return a.run(ctx, session, envelope{Op: opContinue}.input(fmt.Sprintf("continue %d", version), ""), c)
}

// Drop answers all that waits as not executed, without asking the model.
func (a *Agent[C]) Drop(ctx context.Context, session string) (*Outcome[C], error) {
	_, version, err := a.Get(ctx, session)
	if err != nil {
		return nil, err
	}
	return a.run(ctx, session, envelope{Op: opDrop}.input(fmt.Sprintf("drop %d", version), ""), nil)
}

// Stop asks a run to stop, wherever it is; "" is the one in flight, and ErrIdle says that there is none. It returns at
// once. The model and Pure tools are cut off, and an effect ends first.
func (a *Agent[C]) Stop(ctx context.Context, session, run, reason string) error {
	if run == "" {
		st, err := a.bot.Inspect(ctx, session)
		if err != nil {
			return err
		}
		if st.Run == nil {
			return ErrIdle
		}
		run = st.Run.ID
	}
	if a.stores.Inbox != nil {
		raw, err := json.Marshal(reason)
		if err != nil {
			return err
		}
		it := inbox.Item{Key: a.key(session), Kind: inbox.Stop, ID: run, By: "stop", Data: raw}
		if _, err := a.stores.Inbox.Post(ctx, it); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if cancel := a.running[run]; cancel != nil {
		cancel(errStopped)
	}
	return nil
}

// Get returns the newest settled state and its version. Status is Active if a run is in flight.
func (a *Agent[C]) Get(ctx context.Context, session string) (s State[C], version int, err error) {
	st, err := a.bot.Inspect(ctx, session)
	if err != nil {
		return s, 0, err
	}
	for r, err := range a.bot.Turns(ctx, session) {
		if err != nil {
			return s, 0, err
		}
		if s = r.State; st.Run != nil {
			s.Status = Active
		}
		return s, r.Turn + 1, nil
	}
	return s, 0, ErrUnknown
}

// Create makes a session. Of any number at once one succeeds, and the others get ErrExists.
func (a *Agent[C]) Create(ctx context.Context, session string, custom C, l Labels) error {
	raw, err := json.Marshal(patch[C]{Custom: custom, Labels: l})
	if err == nil {
		_, err = a.run(ctx, session, envelope{Op: opCreate, Patch: raw}.input("", ""), nil)
	}
	return err
}

// Update changes Custom, Status and Labels as one turn. With a version, ErrStale if the session has another one. With 0
// it is tried until it fits, and f may be called again.
func (a *Agent[C]) Update(
	ctx context.Context, session string, version int, f func(*State[C]) error,
) (int, error) {
	for {
		r, err := a.newest(ctx, session)
		if err != nil {
			return 0, err
		}
		s, now := r.State, r.Turn+1
		if version != 0 && version != now {
			return now, ErrStale
		}
		if err := f(&s); err != nil {
			return now, err
		}
		raw, err := json.Marshal(patch[C]{s.Custom, s.Status, s.Labels})
		if err != nil {
			return now, err
		}
		o, err := a.run(ctx, session, envelope{Op: opUpdate, Patch: raw, At: now}.input("", ""), nil)
		switch {
		case err == nil:
			return o.Version, nil
		case !errors.Is(err, ErrStale) || version != 0:
			return now, err
		}
	}
}

// newest returns the newest settled turn.
func (a *Agent[C]) newest(ctx context.Context, session string) (*orchestrator.Result[State[C]], error) {
	for r, err := range a.bot.Turns(ctx, session) {
		return r, err
	}
	return nil, ErrUnknown
}
