package turnhttp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/orchestrator"
)

type questionDoc struct {
	ID       string          `json:"id"`
	Shown    json.RawMessage `json:"shown"`
	Sum      string          `json:"sum"`
	Expires  *time.Time      `json:"expires,omitempty"`
	Answered bool            `json:"answered"`
	By       string          `json:"by,omitempty"` // who has answered
}

func (s *server[S]) getQuestions(w http.ResponseWriter, r *http.Request, to target) error {
	if id := r.URL.Query().Get("id"); id != "" {
		return s.getQuestion(w, r, to, id)
	}
	asked, err := s.asked(r.Context(), to.session)
	if err != nil {
		return err
	}
	docs, err := s.documents(r.Context(), to, asked)
	if err != nil {
		return err
	}
	return reply(w, map[string]any{"questions": docs})
}

// getQuestion answers with one question, also if it is no longer asked.
func (s *server[S]) getQuestion(w http.ResponseWriter, r *http.Request, to target, id string) error {
	docs := []questionDoc{}
	q, err := s.question(r.Context(), to.session, id)
	switch {
	case err != nil:
		return err
	case q != nil:
		docs, err = s.documents(r.Context(), to, []asked{*q})
	default:
		var by string
		var taken bool
		if q, by, taken, err = s.before(r.Context(), to.session, id); q != nil && to.sees(*q) {
			docs = append(docs, q.doc(to, taken, by))
		}
	}
	if err != nil {
		return err
	}
	return reply(w, map[string]any{"questions": docs})
}

// documents returns what is shown of the questions of the newest settled state.
func (s *server[S]) documents(ctx context.Context, to target, all []asked) (docs []questionDoc, err error) {
	docs = []questionDoc{}
	var kept []inbox.Item
	if len(all) > 0 {
		if kept, err = s.answers(ctx, to.session); err != nil {
			return nil, err
		}
	}
	for _, q := range all {
		if !to.sees(q) {
			continue
		}
		by, taken := "", false
		if it := find(kept, q.ID); it != nil {
			by = it.By
			if taken, err = s.meant(ctx, to.session, q, *it); err != nil {
				return nil, err
			}
		}
		docs = append(docs, q.doc(to, taken, by))
	}
	return docs, nil
}

// doc returns the document of a question. A client that may not see all questions does not see who has answered.
func (q asked) doc(to target, answered bool, by string) questionDoc {
	doc := questionDoc{ID: q.ID, Shown: q.shown, Sum: q.sum, Answered: answered}
	if !q.Expires.IsZero() {
		at := q.Expires.UTC()
		doc.Expires = &at
	}
	if answered && !to.client {
		doc.By = by
	}
	return doc
}

// An asked is a question with what is shown.
type asked struct {
	Question
	shown json.RawMessage

	// sum is what a client has to say: the sum of the session, the question and what is shown. kept is the sum of what
	// is shown. The inbox holds it, which keeps the session and the question beside it.
	sum, kept string

	// turn marks the settled turn that asks. No other life of the session has a turn with this mark.
	turn string
}

// markOf returns the mark of a settled turn. The run id of a fork is the same each time, and so there is the time, too.
func markOf[S any](res *orchestrator.Result[S]) string {
	h := sha256.Sum256(res.SavedAt.UTC().AppendFormat([]byte(res.RunID+" "), time.RFC3339Nano))
	return hex.EncodeToString(h[:16])
}

// marked returns the Shown of an answer: what was shown, and in which turn.
func (q asked) marked() string { return q.kept + "@" + q.turn }

// meant reports whether an answer in the inbox is to what is asked. An answer of this handler is so only in the life of
// the session in which it was left: one of its turns has the mark. A process may die after it has deleted a session,
// and before it has removed the answers. If a turn cannot be looked at, because it is pruned or damaged, it counts as
// the one: the first answer wins, and must not be forgotten.
func (s *server[S]) meant(ctx context.Context, session string, q asked, it inbox.Item) (bool, error) {
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
	for res, err := range s.bot.Turns(ctx, session) { // another turn has settled since, and still asks
		if _, one := unusable(err); one {
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
func (q asked) expired(at time.Time) bool { return !q.Expires.IsZero() && at.After(q.Expires) }

// request is the request id of the turn that takes the answer. It is not the one that versions without an Origin made
// of kept: what they have begun may have been finished as the input of a user, and the answer would count as taken.
func (q asked) request() string {
	h := sha256.Sum256([]byte(q.sum + " " + q.ID))
	return keysOfAnswers + hex.EncodeToString(h[:16])
}

// asked returns what the newest settled state asks.
func (s *server[S]) asked(ctx context.Context, session string) ([]asked, error) {
	if s.Questions == nil {
		return nil, nil
	}
	res, err := s.bot.Turn(ctx, session, checkpoint.Newest)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return s.asks(res)
}

func (s *server[S]) asks(res *orchestrator.Result[S]) ([]asked, error) {
	return ask("Options.Questions", func() (all []asked, err error) {
		for _, q := range s.Questions(&res.State) {
			shown, sum, err := q.encode(res.Session)
			if err != nil {
				return nil, err
			}
			kept, err := inbox.Sum(shown)
			if err != nil {
				return nil, err
			}
			all = append(all, asked{q, shown, sum, kept, markOf(res)})
		}
		return all, nil
	})
}

// encode returns Shown as JSON, and the sum of the session, the question and Shown.
func (q Question) encode(session string) (shown json.RawMessage, sum string, err error) {
	if shown, err = json.Marshal(q.Shown); err != nil {
		return nil, "", err
	}
	sum, err = inbox.Sum([]any{session, q.ID, shown})
	return shown, sum, err
}

// made returns the input that Options.Answer makes of an answer.
func (s *server[S]) made(q asked, given Answer) (orchestrator.Input, error) {
	in, err := ask("Options.Answer", func() (orchestrator.Input, error) { return s.Answer(q.Question, given) })
	if err != nil {
		return in, unreadBody(err)
	}
	in.RequestID, in.Origin, in.By = q.request(), orchestrator.FromAnswer, string(given.By)
	return in, nil
}

// question returns what the newest settled state asks by an id; nil if it does not.
func (s *server[S]) question(ctx context.Context, session, id string) (*asked, error) {
	all, err := s.asked(ctx, session)
	for i := range all {
		if all[i].ID == id {
			return &all[i], err
		}
	}
	return nil, err
}

// answers returns the answers that lie in the inbox of a session. A damaged one stands for an answer too.
func (s *server[S]) answers(ctx context.Context, session string) (all []inbox.Item, err error) {
	for it, err := range s.Inbox.Items(ctx, s.key(session), inbox.Answer) {
		if _, damaged := errors.AsType[*inbox.DamagedError](err); err != nil && !damaged {
			return nil, &storeError{err}
		}
		all = append(all, it)
	}
	return all, nil
}

func find(all []inbox.Item, id string) *inbox.Item {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

func (s *server[S]) postAnswer(w http.ResponseWriter, r *http.Request, to target) error {
	if s.Questions == nil {
		return errNotFound
	}
	all, err := httpjson.Body(w, r, "answer", "sum")
	if err != nil {
		return err
	}
	sum, err := httpjson.Text(all, "sum")
	if err != nil {
		return err
	}
	given := Answer{Data: all["answer"], By: to.actor}
	switch {
	case given.Data == nil:
		return errBadRequest.Because("The member answer is missing.")
	case sum == "":
		return errBadRequest.Because("The member sum is missing: it comes with the question.")
	}
	c, err := s.answer(r, to, given, sum)
	if err != nil {
		return err
	}
	return s.run(w, r, *c)
}

// answer leaves an answer in the inbox, and returns the turn to run. sum is that of what the client has seen.
func (s *server[S]) answer(r *http.Request, to target, given Answer, sum string) (*call[S], error) {
	session, id := to.session, to.id
	ctx, cancel := s.finish(r)
	defer cancel()
	for range 2 {
		q, err := s.question(ctx, session, id)
		if err != nil {
			return nil, err
		}
		if q == nil {
			return s.answeredBefore(ctx, to, given, sum)
		}
		switch {
		case !to.sees(*q):
			return nil, errForbidden
		case sum != q.sum:
			return nil, errChanged
		}
		c, err := s.taking(ctx, r, session, *q, given)
		if err != nil {
			return nil, err
		}
		if err := s.post(ctx, session, *q, given); err != nil {
			return nil, err
		}
		// Another answer may have been taken, and removed, before this one was posted.
		now, err := s.question(ctx, session, id)
		if err != nil {
			return nil, err
		}
		if now != nil && now.sum == q.sum {
			return c, nil
		}
		if err := s.remove(ctx, session, id); err != nil {
			return nil, err
		}
	}
	return nil, errChanged
}

// taking returns the turn that takes an answer. When it has settled, the answer is removed from the inbox.
// r is nil in Answers.
func (s *server[S]) taking(
	ctx context.Context, r *http.Request, session string, q asked, given Answer,
) (*call[S], error) {
	in, err := s.made(q, given)
	if err != nil {
		return nil, err
	}
	end := func(res *orchestrator.Result[S], err error) (*orchestrator.Result[S], error) {
		over, err := s.taken(given, res, err)
		if over {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
			defer cancel()
			if left := s.remove(ctx, session, q.ID); left != nil {
				s.report(ctx, r, left) // Answers removes it
			}
		}
		return res, err
	}
	return &call[S]{session, in, end}, nil
}

// removePatience is how long it may take to remove an answer that was taken.
const removePatience = 5 * time.Second

// taken reports whether an answer is of no more use after its turn has ended with err, and what the client is told.
// A bot that still asks may have taken the same answer of another person.
func (s *server[S]) taken(given Answer, res *orchestrator.Result[S], err error) (over bool, told error) {
	switch {
	case err == nil && res.Input.By != string(given.By):
		return true, errAnswered
	case err == nil:
		return true, nil
	case errors.Is(err, orchestrator.ErrRequestReused):
		return true, errAnswered
	}
	return public(err).Type == "invalid", err
}

// post leaves an answer in the inbox. It fails if another answer is there.
func (s *server[S]) post(ctx context.Context, session string, q asked, given Answer) error {
	it := inbox.Item{
		Key: s.key(session), Kind: inbox.Answer, ID: q.ID, By: string(given.By), Shown: q.marked(), Data: given.Data,
	}
	for range 3 { // remove what is stale, leave the answer, and look which one is there
		old, err := s.Inbox.Item(ctx, it.Key, it.Kind, it.ID)
		there, meant := !errors.Is(err, inbox.ErrNotFound), false
		if _, damaged := errors.AsType[*inbox.DamagedError](err); there && err != nil && !damaged {
			return &storeError{err}
		}
		if there {
			if meant, err = s.meant(ctx, session, q, old); err != nil {
				return err
			}
		}
		switch {
		case !there && q.expired(time.Now()):
			return errExpired
		case !there:
			if err := s.leave(ctx, it); err != nil {
				return err
			}
		case !meant: // it is an answer to what was asked before
			if err := s.remove(ctx, session, q.ID); err != nil {
				return err
			}
		case old.By == string(given.By) && sameJSON(old.Data, given.Data):
			return nil
		default:
			return errAnswered
		}
	}
	return nil
}

// leave posts an answer. The next look at the inbox tells whether it was the first.
func (s *server[S]) leave(ctx context.Context, it inbox.Item) error {
	first, err := s.Inbox.Post(ctx, it)
	switch {
	case errors.Is(err, inbox.ErrInvalid):
		return errBadRequest.Because("The answer cannot be kept.")
	case err != nil:
		return &storeError{err}
	case !first:
		return errAnswered
	}
	return nil
}

func (s *server[S]) remove(ctx context.Context, session, id string) error {
	if err := s.Inbox.Remove(ctx, s.key(session), inbox.Answer, id); err != nil {
		return &storeError{err}
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	x, errX := jsonvalue.Canonical(a)
	y, errY := jsonvalue.Canonical(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// answeredBefore returns the turn that has taken an answer to a question that is no longer asked. The same answer gets
// its reply, and another one is told that it was not the first.
func (s *server[S]) answeredBefore(ctx context.Context, to target, given Answer, sum string) (*call[S], error) {
	q, by, taken, err := s.before(ctx, to.session, to.id)
	switch {
	case err != nil:
		return nil, err
	case !taken:
		return nil, errNotFound
	case !to.sees(*q):
		return nil, errForbidden
	case sum != q.sum:
		return nil, errChanged
	case by != "" && by != string(given.By):
		return nil, errAnswered
	}
	return s.repeating(to.session, *q, given)
}

// before returns a question that is no longer asked, nil if it never was, and whose answer was taken.
func (s *server[S]) before(ctx context.Context, session, id string) (q *asked, by string, taken bool, err error) {
	if s.Questions == nil {
		return nil, "", false, nil
	}
	settled := make(map[string]string) // who sent the input, by request id
	for res, err := range s.bot.Turns(ctx, session) {
		if err != nil {
			if _, one := unusable(err); one {
				continue
			}
			return nil, "", false, err
		}
		all, err := s.asks(res)
		if err != nil {
			return nil, "", false, err
		}
		for i := range all {
			if all[i].ID == id {
				by, taken := settled[all[i].request()]
				return &all[i], by, taken, nil
			}
		}
		settled[res.Input.RequestID] = res.Input.By
	}
	return nil, "", false, nil
}

// repeating returns the turn that repeats an answer. It runs nothing.
func (s *server[S]) repeating(session string, q asked, given Answer) (*call[S], error) {
	in, err := s.made(q, given)
	if err != nil {
		return nil, err
	}
	end := func(res *orchestrator.Result[S], err error) (*orchestrator.Result[S], error) {
		_, err = s.taken(given, res, err)
		return res, err
	}
	return &call[S]{session, in, end}, nil
}
