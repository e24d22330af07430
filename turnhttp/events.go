package turnhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

func (s *server[S]) getEvents(w http.ResponseWriter, r *http.Request, to target) error {
	after, err := lastSeen(r)
	if err != nil {
		return err
	}
	waits, err := waitsForTurn(r)
	if err != nil {
		return err
	}
	defer s.readers.Add(-1)
	if s.readers.Add(1) > int64(s.MaxReaders) {
		return errReaders
	}
	if r.Method == http.MethodHead {
		return s.headEvents(w, r, to.session, after, waits)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.bot.Serving(), func() { cancel(orchestrator.ErrShuttingDown) })()
	p := &page{out: front.NewSender(w, func() { cancel(nil) })}
	defer p.out.Close()
	for again := true; again; {
		s.bot.Follow(ctx, to.session, after)(p.send)
		if again = waits && p.err == nil && p.last.Kind == ""; again {
			p.out.Begin()
			after, p.err = s.awaitTurn(ctx, to.session, after)
			again = p.err == nil
		}
	}
	return s.endPage(ctx, w, r, to.session, p)
}

// headEvents answers HEAD as getEvents answers GET, with the status and the headers. It waits for the first event as
// long as GET waits with the status.
func (s *server[S]) headEvents(
	w http.ResponseWriter, r *http.Request, session string, after int64, waits bool,
) error {
	ctx, cancel := context.WithTimeout(r.Context(), front.SettleFirst)
	defer cancel()
	for _, err := range s.bot.Follow(ctx, session, after) {
		if err != nil && ctx.Err() == nil {
			return err
		}
		waits = true
		break
	}
	if !waits {
		return front.Empty(w)
	}
	front.Streaming(w.Header())
	w.WriteHeader(http.StatusOK)
	return nil
}

// waitsForTurn reports whether a reader waits for the next turn of a session that has none in flight.
func waitsForTurn(r *http.Request) (bool, error) {
	switch r.URL.Query().Get("wait") {
	case "1":
		return true, nil
	case "", "0":
		return false, nil
	}
	return false, errBadRequest.Because("The parameter wait is 0 or 1.")
}

// How often a reader that waits asks the stream store: soon at first, and then less and less often.
const (
	waitFirst = 100 * time.Millisecond
	waitMost  = 2 * time.Second
)

// awaitTurn waits until there are events after a number. It returns the number to go on from, which is smaller if the
// stream was forgotten meanwhile: then its numbers begin anew.
func (s *server[S]) awaitTurn(ctx context.Context, session string, after int64) (int64, error) {
	for pause := waitFirst; ; pause = min(2*pause, waitMost) {
		number, more, err := s.bot.LastShown(ctx, session)
		switch {
		case ctx.Err() != nil:
			return after, context.Cause(ctx)
		case err != nil:
			return after, err
		case number < after, number == 0:
			after = 0
		}
		if more || number > after {
			return after, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return after, context.Cause(ctx)
		}
	}
}

// A page is a reader of GET events. Thousands may wait: what follows after the last event is no part of getEvents, so
// that the stack of a reader stays small.
type page struct {
	out  *front.Sender
	last orchestrator.Event // that was sent
	err  error
}

// send sends an event, or keeps the error.
func (p *page) send(shown orchestrator.Shown, err error) bool {
	if err != nil {
		p.err = err
		return false
	}
	p.last = shown.Event
	p.out.Event(shown.Number, string(p.last.Kind), httpjson.Marshal(p.last))
	return true
}

// endPage ends a reader after its last event.
func (s *server[S]) endPage(
	ctx context.Context, w http.ResponseWriter, r *http.Request, session string, p *page,
) error {
	switch {
	case p.err != nil:
		return s.cutOff(ctx, r, p.out, p.err)
	case p.last.Kind == "" && p.out.Settle():
		return front.Empty(w)
	}
	s.conclude(ctx, r, p.out, session, &p.last)
	return nil
}

// lastSeen returns the number of the last event that the client has seen.
func lastSeen(r *http.Request) (int64, error) {
	text, what := r.Header.Get("Last-Event-ID"), "header Last-Event-ID"
	if text == "" {
		text, what = r.URL.Query().Get("after"), "parameter after"
	}
	if text == "" {
		return stream.Newest, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, noNumber(what)
	}
	return n, nil
}

// cutOff ends a reader whose events have ended with an error.
func (s *server[S]) cutOff(ctx context.Context, r *http.Request, out *front.Sender, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), orchestrator.ErrShuttingDown):
		out.Begin() // an EventSource comes back after 200 only
	case ctx.Err() != nil: // the client has gone
		out.Close()
	case out.Settle():
		return err
	default:
		s.tell(r, out, err)
	}
	return nil
}

// tell sends an error as the last event.
func (s *server[S]) tell(r *http.Request, out *front.Sender, err error) {
	foreign.Abort(err)
	if Status(err) >= http.StatusInternalServerError {
		s.report(r.Context(), r, err)
	}
	out.Event(0, "problem", httpjson.Marshal(s.problem(err)))
}

// conclude sends how the turn has ended whose last event was last. If that is not known, it sends nothing: the reader
// finds the turn at GET session.
func (s *server[S]) conclude(
	ctx context.Context, r *http.Request, out *front.Sender, session string, last *orchestrator.Event,
) {
	res, err := outcomeOf(ctx, s.bot, session, last)
	switch {
	case err == nil:
		doc, err := s.turn(res)
		if err != nil {
			s.report(ctx, r, err)
			return
		}
		out.Event(0, "reply", httpjson.Marshal(doc))
	case last.Kind == orchestrator.TurnSuspended, last.Kind == orchestrator.TurnFailed:
		out.Event(0, "problem", httpjson.Marshal(s.problem(err)))
	}
}

// outcomeOf returns how the turn has ended whose last kept event is last. Without an event it is the newest turn: the
// reader waited for an end that its owner did not live to show.
func outcomeOf[S any](
	ctx context.Context, bot *orchestrator.Orchestrator[S], session string, last *orchestrator.Event,
) (*orchestrator.Result[S], error) {
	as := func(op string, err error) error {
		return &orchestrator.Error{Op: op, Session: session, Turn: last.Turn, RunID: last.RunID, Err: err}
	}
	switch last.Kind {
	case orchestrator.TurnFailed:
		return nil, as("follow", errTurnFailed)
	case orchestrator.TurnSuspended:
		doubt := &orchestrator.InDoubtError{RunID: last.RunID, Ask: true}
		if st, err := bot.Inspect(ctx, session); err == nil && st.Run != nil && st.Run.ID == last.RunID {
			doubt.Effects = st.Run.Effects
		}
		return nil, as("intent", fmt.Errorf("%w: %w", orchestrator.ErrSuspended, doubt))
	}
	for res, err := range bot.Turns(ctx, session) {
		switch {
		case err != nil:
			return nil, err
		case last.RunID == "" || res.RunID == last.RunID:
			return res, nil
		case res.Turn < last.Turn:
			return nil, as("follow", orchestrator.ErrIndeterminate) // it is not finished yet
		}
	}
	return nil, as("follow", orchestrator.ErrIndeterminate)
}
