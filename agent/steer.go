package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Steering says what becomes of a message that comes while a turn is in flight, by Say or by Handler.
type Steering string

// The ways to steer. A message is said once, whichever way it takes, and whoever sends it again.
const (
	// Queue makes the message the next turn.
	Queue Steering = ""

	// IntoTurn shows the message to the model of the turn in flight before its next reply, in whichever process that
	// is. Then the next turn, which is the caller's, has nothing left to do: its Outcome is that of the turn before. If
	// the turn ends first, the message is the next turn. Begin does not see a message that steers. IntoTurn needs an
	// Inbox, and looks into it before each reply.
	IntoTurn Steering = "into"

	// StopTurn stops the turn in flight, as Stop does. The message is the next turn.
	StopTurn Steering = "stop"
)

func (s Steering) known() bool { return s == Queue || s == IntoTurn || s == StopTurn }

// mostHeard is how many requests a state knows as said.
const mostHeard = 100

// heard notes that what a request says was said. It reports whether it was said before.
func (s *State[C]) heard(request string) (before bool) {
	if request == "" || slices.Contains(s.Heard, request) {
		return request != ""
	}
	s.Heard = append(slices.Clone(s.Heard[max(len(s.Heard)+1-mostHeard, 0):]), request)
	return false
}

// steer is told of what a user says before its turn waits for the session.
func (a *Agent[C]) steer(ctx context.Context, session string, in orchestrator.Input) error {
	if a.def.Steer == Queue || blank(in.Text) { // a blank one is refused when its turn begins
		return nil
	}
	st, err := a.bot.Inspect(ctx, session)
	if err != nil || st.Run == nil || st.Run.RequestID == in.RequestID {
		return err
	}
	if a.def.Steer == IntoTurn {
		raw, err := json.Marshal(in.Text)
		if err != nil {
			return err
		}
		it := inbox.Item{Key: a.key(session), Kind: inbox.Message, ID: in.RequestID, By: "user", Data: raw}
		if _, err = a.stores.Inbox.Post(ctx, it); errors.Is(err, inbox.ErrInvalid) {
			return nil // it is too long for the inbox, or no input at all: Execute says so
		}
		return err
	}
	r, err := a.newest(ctx, session)
	switch {
	case errors.Is(err, ErrUnknown): // in its first turn
	case err != nil:
		return err
	case slices.Contains(r.State.Heard, in.RequestID):
		return nil
	}
	return a.halt(ctx, session, st.Run.ID, "another message has come")
}

// hear takes messages that steer the turn, and returns them: as many as a state has room for, and knows as said. They
// are forgotten once a save has kept them.
func (a *Agent[C]) hear(ctx context.Context, t *Turn[C]) (heard []message.Message, err error) {
	if a.def.Steer != IntoTurn {
		return nil, nil
	}
	var done, taken []string
	room := a.most
items:
	for it, err := range a.stores.Inbox.Items(ctx, a.key(t.Session), inbox.Message) {
		var text string
		if err == nil {
			err = json.Unmarshal(it.Data, &text)
		}
		switch {
		case err != nil && it.ID == "":
			return nil, err
		case err != nil:
			t.Logger().WarnContext(ctx, "message does not steer", "err", a.logged(logtext.Private(err)))
			done = append(done, it.ID)
		case slices.Contains(t.State.Heard, it.ID), blank(text):
			done = append(done, it.ID)
		default:
			if room -= len(text); room < 0 || len(taken) == mostHeard/2 {
				break items // the next look takes it, or it is a turn
			}
			m := message.User(text)
			m.ID = it.ID
			taken, heard = append(taken, it.ID), append(heard, m)
		}
	}
	for _, request := range taken { // not before: an error takes none
		t.State.heard(request)
	}
	a.add(t, heard...)
	if len(done) == 0 {
		return heard, nil
	}
	return heard, a.stores.Inbox.Remove(ctx, a.key(t.Session), inbox.Message, done[:min(len(done), inbox.MaxIDs)]...)
}

// unpost forgets the message of a turn that has begun: nobody has taken it before, or a save has kept it.
func (a *Agent[C]) unpost(ctx context.Context, t *Turn[C]) error {
	if a.def.Steer != IntoTurn || t.Input.RequestID == "" {
		return nil
	}
	return a.stores.Inbox.Remove(ctx, a.key(t.Session), inbox.Message, t.Input.RequestID)
}
