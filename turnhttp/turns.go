package turnhttp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
)

func (s *server[S]) postTurn(w http.ResponseWriter, r *http.Request, to target) error {
	key, err := keyOf(r)
	if err != nil {
		return err
	}
	if key == "" && !s.OptionalKey {
		return errKeyMissing
	}
	in, err := s.readInput(r)
	if err != nil {
		return unreadBody(err)
	}
	httpjson.Arrived(w)
	in.RequestID = cmp.Or(key, in.RequestID, rand.Text())
	if in, err = s.arrive(r, to, in); err != nil {
		return err
	}
	if prefers(r, respondAsync) {
		if accepted, err := s.accept(w, r, to.session, in); accepted {
			return err
		}
	}
	return s.run(w, r, call[S]{session: to.session, input: in, end: unchanged[S]})
}

// arrive returns what a user says, and tells Options.Arrived of it.
func (s *server[S]) arrive(r *http.Request, to target, in orchestrator.Input) (orchestrator.Input, error) {
	if strings.HasPrefix(in.RequestID, approval.Prefix) {
		return in, errReservedKey
	}
	in.Origin, in.By = orchestrator.FromUser, string(to.actor)
	if s.Arrived == nil {
		return in, nil
	}
	_, err := ask("Options.Arrived", func() (none struct{}, err error) {
		return none, s.Arrived(r.Context(), to.session, in)
	})
	return in, err
}

// readInput calls Options.Input, and reads the rest of the body. The server would read the rest before it answers, when
// the deadline for the body is gone.
func (s *server[S]) readInput(r *http.Request) (orchestrator.Input, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return s.input(r)
	}
	b := &closable{ReadCloser: r.Body}
	r.Body = b
	in, err := s.input(r)
	if err == nil && !b.closed {
		_, err = io.Copy(io.Discard, b)
	}
	return in, err
}

func (s *server[S]) input(r *http.Request) (orchestrator.Input, error) {
	return ask("Options.Input", func() (orchestrator.Input, error) { return s.Input(r) })
}

// A closable is a body that knows whether it was closed. The server reads no more of such a body.
type closable struct {
	io.ReadCloser
	closed bool
}

// Close implements [io.Closer].
func (b *closable) Close() error {
	b.closed = true
	return b.ReadCloser.Close()
}

// A call is a turn that a client has asked for. end is told how it has ended, and returns what the client is told.
type call[S any] struct {
	session string
	input   orchestrator.Input

	// whole says that the events are shown from the first one on, also of a turn that has settled before.
	whole bool

	end func(*orchestrator.Result[S], error) (*orchestrator.Result[S], error)
}

func unchanged[S any](res *orchestrator.Result[S], err error) (*orchestrator.Result[S], error) {
	return res, err
}

// run runs a turn, under a deadline of its own, and writes its outcome. It returns when the turn has ended.
func (s *server[S]) run(w http.ResponseWriter, r *http.Request, c call[S]) error {
	ctx, cancel := s.finish(r)
	defer cancel()
	if wantsEvents(r) {
		return s.show(ctx, w, r, c)
	}
	res, err := c.end(s.bot.Execute(ctx, c.session, c.input, nil))
	if err != nil {
		return err
	}
	return s.replyTurn(w, res)
}

func (s *server[S]) replyTurn(w http.ResponseWriter, res *orchestrator.Result[S]) error {
	doc, err := s.turn(res)
	if err != nil {
		return err
	}
	return reply(w, doc)
}

func (s *server[S]) postResume(w http.ResponseWriter, r *http.Request, to target) error {
	if err := httpjson.CheckType(r); err != nil { // also without a body: a page of another origin may not send this
		return err
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	res, err := s.bot.Resume(ctx, to.session, nil)
	switch {
	case errors.Is(err, orchestrator.ErrNothingToResume):
		return front.Empty(w)
	case err != nil:
		return err
	}
	return s.replyTurn(w, res)
}

func (s *server[S]) postUnpark(w http.ResponseWriter, r *http.Request, to target) error {
	if err := httpjson.CheckType(r); err != nil {
		return err
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	unparked, err := s.bot.Unpark(ctx, to.session)
	if err != nil {
		return err
	}
	return reply(w, map[string]bool{"unparked": unparked})
}

func (s *server[S]) postAbandon(w http.ResponseWriter, r *http.Request, to target) error {
	run, err := runOf(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	ended, err := s.bot.Abandon(ctx, to.session, run)
	if err != nil {
		return err
	}
	return reply(w, map[string]bool{"ended": ended})
}

func (s *server[S]) deleteSession(w http.ResponseWriter, r *http.Request, to target) error {
	ctx, cancel := s.finish(r)
	defer cancel()
	remove := s.bot.Delete
	if s.Chat != nil {
		remove = s.Chat.Delete
	}
	_, err := ask("Options.Chat", func() (struct{}, error) { return struct{}{}, remove(ctx, to.session) })
	if err != nil {
		return err
	}
	if s.Inbox != nil {
		if err := s.Inbox.Remove(ctx, s.key(to.session), ""); err != nil {
			return &foreign.StoreError{Err: err}
		}
	}
	return front.Empty(w)
}

// finish returns the context of a call that is not to stop half-way because its client has gone.
func (s *server[S]) finish(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), s.TurnTimeout)
}

func (s *server[S]) key(session string) inbox.Key {
	return inbox.Key{Orchestrator: s.bot.Name(), Session: session}
}
