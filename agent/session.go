package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// Say runs a turn with what the user says. ErrPending while calls wait: Answer them, or Drop. Definition.Steer says
// what becomes of it while a turn is in flight.
func (a *Agent[C]) Say(
	ctx context.Context, session string, in orchestrator.Input, c *orchestrator.CallOptions,
) (*Outcome[C], error) {
	if a.def.Steer != Queue {
		in.RequestID = cmp.Or(in.RequestID, rand.Text())
		if err := a.steer(ctx, session, in); err != nil {
			return nil, err
		}
	}
	return a.run(ctx, session, a.Input(in), c)
}

// Answer takes the answer to a call that waits, by the session of the root or of whoever made the call. Once no answer
// is missing, the turn goes on. The same answer again is no error. If a child was answered in its own session, Continue
// goes on with its parent.
func (a *Agent[C]) Answer(ctx context.Context, session, call string, ans Answer) (*Outcome[C], error) {
	return a.run(ctx, session, answerInput(call, ans, false), nil)
}

// Submit is Answer, and never goes on: Continue does. After a Submit the same answer by Answer is ErrAnswered.
func (a *Agent[C]) Submit(ctx context.Context, session, call string, ans Answer) (*Outcome[C], error) {
	return a.run(ctx, session, answerInput(call, ans, true), nil)
}

// answerInput is the input that Answer runs. The request id is made of the answer, so that a repeat is the same turn.
func answerInput(call string, ans Answer, hold bool) orchestrator.Input {
	raw, _ := json.Marshal(ans)
	sum := sha256.Sum256(raw)
	op := "answer"
	if hold {
		op = "submit"
	}
	id := fmt.Sprintf("%s %s %s", op, hex.EncodeToString(sum[:8]), call)
	return envelope{Op: opAnswer, Call: call, Answer: &ans, Hold: hold}.input(id, "")
}

// reserved reports whether a request id is like one that the agent makes. A client must not have one: whoever continues
// or answers then would find the id taken.
func reserved(request string) bool {
	op, _, made := strings.Cut(request, " ")
	return made && slices.Contains([]string{opAnswer, opContinue, opDrop, opCompact, "import"}, op) ||
		request == branchID
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

// Stop asks a run to stop, in whichever process it is; "" is the one in flight. If the run is not in flight, Stop
// returns ErrIdle. Stop returns at once. The model and Pure tools are cut off, and an effect ends first.
func (a *Agent[C]) Stop(ctx context.Context, session, run, reason string) error {
	st, err := a.bot.Inspect(ctx, session)
	switch {
	case err != nil:
		return err
	case st.Run == nil || run != "" && run != st.Run.ID: // an item for it would stay
		return ErrIdle
	}
	raw, err := json.Marshal(reason)
	if err != nil {
		return err
	}
	it := inbox.Item{Key: a.key(session), Kind: inbox.Stop, ID: st.Run.ID, By: "stop", Data: raw}
	if _, err := a.wishes.Post(ctx, it); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if cancel := a.running[st.Run.ID]; cancel != nil {
		cancel(errStopped)
	}
	return nil
}

// halt is Stop of a run that may have ended.
func (a *Agent[C]) halt(ctx context.Context, session, run, reason string) error {
	if err := a.Stop(ctx, session, run, reason); !errors.Is(err, ErrIdle) {
		return err
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

// Update changes Custom, Status and Labels as one turn. f may also call State.KeepFirst: it is ErrPending while calls
// wait, and ErrParted if a call would lose its result. Any other change is ErrReserved. With a version, ErrStale if the
// session has another one. With 0 it is tried until it fits, and f may be called again.
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
		env, err := s.changed(f)
		if err != nil {
			return now, err
		}
		env.Op, env.At = opUpdate, now
		o, err := a.run(ctx, session, env.input("", ""), nil)
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
