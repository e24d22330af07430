package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// An Asked is a question of a session.
type Asked struct {
	Question

	// JSON is what is shown, and Sum what an Answer has to say.
	JSON json.RawMessage
	Sum  string

	// Answered says that the inbox has an answer, or that a turn has taken it. By is who has given it.
	Answered bool
	By       string

	// kept is the sum of what is shown. The inbox holds it, which keeps the session and the question beside it.
	kept string

	// turn marks the settled turn that asks. No other life of the session has a turn with this mark.
	turn string
}

// Asked returns what the newest settled state asks.
func (d *Desk[S]) Asked(ctx context.Context, session string) ([]Asked, error) {
	all, err := d.asked(ctx, session)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	kept, err := d.answers(ctx, session)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := d.look(ctx, session, &all[i], kept); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Question returns a question of a session, also if it is no longer asked. If it never was, the error is ErrNotAsked.
func (d *Desk[S]) Question(ctx context.Context, session, id string) (*Asked, error) {
	q, err := d.question(ctx, session, id)
	if err != nil {
		return nil, err
	}
	if q == nil {
		if q, err = d.before(ctx, session, id); err == nil && q == nil {
			err = ErrNotAsked
		}
		return q, err
	}
	kept, err := d.answers(ctx, session)
	if err != nil {
		return nil, err
	}
	return q, d.look(ctx, session, q, kept)
}

// look says of a question whether the inbox has an answer to it.
func (d *Desk[S]) look(ctx context.Context, session string, q *Asked, kept []inbox.Item) (err error) {
	for _, it := range kept {
		if it.ID == q.ID {
			if q.Answered, err = d.meant(ctx, session, *q, it); q.Answered {
				q.By = it.By
			}
			return err
		}
	}
	return nil
}

// answers returns the answers that lie in the inbox of a session. A damaged one stands for an answer too.
func (d *Desk[S]) answers(ctx context.Context, session string) (all []inbox.Item, err error) {
	for it, err := range d.Inbox.Items(ctx, d.key(session), inbox.Answer) {
		if _, damaged := errors.AsType[*inbox.DamagedError](err); err != nil && !damaged {
			return nil, &foreign.StoreError{Err: err}
		}
		all = append(all, it)
	}
	return all, nil
}

// asked is Asked without a look at the inbox.
func (d *Desk[S]) asked(ctx context.Context, session string) ([]Asked, error) {
	res, err := d.Bot.Turn(ctx, session, checkpoint.Newest)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return d.asks(res)
}

func (d *Desk[S]) asks(res *orchestrator.Result[S]) ([]Asked, error) {
	return foreign.Ask("Desk.Questions", func() (all []Asked, err error) {
		for _, q := range d.Questions(&res.State) {
			shown, sum, err := q.Encode(res.Session)
			if err != nil {
				return nil, err
			}
			kept, err := inbox.Sum(shown)
			if err != nil {
				return nil, err
			}
			all = append(all, Asked{Question: q, JSON: shown, Sum: sum, kept: kept, turn: markOf(res)})
		}
		return all, nil
	})
}

// question returns what the newest settled state asks by an id; nil if it does not.
func (d *Desk[S]) question(ctx context.Context, session, id string) (*Asked, error) {
	all, err := d.asked(ctx, session)
	for i := range all {
		if all[i].ID == id {
			return &all[i], err
		}
	}
	return nil, err
}

// before returns a question that is no longer asked; nil if it never was. It is answered if a turn has taken an answer.
func (d *Desk[S]) before(ctx context.Context, session, id string) (*Asked, error) {
	settled := make(map[string]string) // who sent the input, by request id
	for res, err := range d.Bot.Turns(ctx, session) {
		if err != nil {
			if _, one := foreign.OneTurn(err); one {
				continue
			}
			return nil, err
		}
		all, err := d.asks(res)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if q := &all[i]; q.ID == id {
				q.By, q.Answered = settled[q.request()]
				return q, nil
			}
		}
		settled[res.Input.RequestID] = res.Input.By
	}
	return nil, nil
}

// markOf returns the mark of a settled turn. The run id of a fork is the same each time, and so there is the time, too.
func markOf[S any](res *orchestrator.Result[S]) string {
	h := sha256.Sum256(res.SavedAt.UTC().AppendFormat([]byte(res.RunID+" "), time.RFC3339Nano))
	return hex.EncodeToString(h[:16])
}

// marked returns the Shown of an answer: what was shown, and in which turn.
func (q Asked) marked() string { return q.kept + "@" + q.turn }

// meant reports whether an answer in the inbox is to what is asked. An answer of a Desk is so only in the life of the
// session in which it was left: one of its turns has the mark. A process may die after it has deleted a session, and
// before it has removed the answers. If a turn cannot be looked at, because it is pruned or damaged, it counts as the
// one: the first answer wins, and must not be forgotten.
func (d *Desk[S]) meant(ctx context.Context, session string, q Asked, it inbox.Item) (bool, error) {
	sum, turn, isMarked := strings.Cut(it.Shown, "@")
	switch {
	case it.Shown == "":
		return true, nil
	case sum != q.kept:
		return false, nil
	case !isMarked || turn == q.turn:
		return true, nil
	}
	oldest := 0
	for res, err := range d.Bot.Turns(ctx, session) { // another turn has settled since, and still asks
		if _, one := foreign.OneTurn(err); one {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if markOf(res) == turn {
			return true, nil
		}
		oldest = res.Turn
	}
	return oldest > 0, nil
}

// expired reports whether the question cannot be answered at a time.
func (q Asked) expired(at time.Time) bool { return !q.Expires.IsZero() && at.After(q.Expires) }

// Prefix begins the request ids of answers. A front end refuses a request id of a client that begins so: a user who
// takes the id of an answer keeps the desk from answering.
const Prefix = "turnhttp/answer/"

// request is the request id of the turn that takes the answer. It is not the one that versions without an Origin made
// of kept: what they have begun may have been finished as the input of a user, and the answer would count as taken.
func (q Asked) request() string {
	h := sha256.Sum256([]byte(q.Sum + " " + q.ID))
	return Prefix + hex.EncodeToString(h[:16])
}
