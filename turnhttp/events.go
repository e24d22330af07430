package turnhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

func (s *server[S]) getEvents(w http.ResponseWriter, r *http.Request, names []string) error {
	after, err := lastSeen(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.bot.Serving(), func() { cancel(orchestrator.ErrShuttingDown) })()
	out := newSender(w, func() { cancel(nil) })
	defer out.close()

	var last orchestrator.Event
	for shown, err := range s.bot.Follow(ctx, names[0], after) {
		if err != nil {
			return s.cutOff(ctx, r, out, err)
		}
		last = shown.Event
		out.event(shown.Number, string(last.Kind), marshal(last))
	}
	if last.Kind == "" && out.settle() {
		return empty(w)
	}
	s.conclude(ctx, out, names[0], last)
	return nil
}

// lastSeen returns the number of the last event that the client has seen.
func lastSeen(r *http.Request) (int64, error) {
	text := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if text == "" {
		return stream.Newest, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errBadRequest.because("The number of the last event is no number.")
	}
	return n, nil
}

// cutOff ends a reader whose events have ended with an error.
func (s *server[S]) cutOff(ctx context.Context, r *http.Request, out *sender, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), orchestrator.ErrShuttingDown):
		out.begin() // an EventSource comes back after 200 only
	case ctx.Err() != nil: // the client has gone
		out.close()
	case out.settle():
		return err
	default:
		s.tell(r, out, err)
	}
	return nil
}

// tell sends an error as the last event.
func (s *server[S]) tell(r *http.Request, out *sender, err error) {
	if Status(err) >= http.StatusInternalServerError {
		s.OnError(r, err)
	}
	out.event(0, "problem", marshal(problemOf(err)))
}

// conclude sends how the turn has ended whose last event was last. Without an event it is the newest turn: the reader
// waited for an end that its owner did not live to show.
func (s *server[S]) conclude(ctx context.Context, out *sender, session string, last orchestrator.Event) {
	switch last.Kind {
	case orchestrator.TurnSuspended:
		doc := problemOf(&orchestrator.Error{Op: "intent", RunID: last.RunID, Err: orchestrator.ErrSuspended})
		if st, err := s.bot.Inspect(ctx, session); err == nil && st.Run != nil && st.Run.ID == last.RunID {
			doc.Effects = st.Run.Effects
		}
		out.event(0, "problem", marshal(doc))
		return
	case orchestrator.TurnFailed:
		doc := problemOf(errTurnFailed)
		doc.Run = last.RunID
		out.event(0, "problem", marshal(doc))
		return
	}
	for res, err := range s.bot.Turns(ctx, session) {
		if err != nil || last.RunID != "" && res.Turn < last.Turn {
			return
		}
		if last.RunID != "" && res.RunID != last.RunID {
			continue
		}
		if doc, err := s.turn(res); err == nil {
			out.event(0, "reply", marshal(doc))
		}
		return
	}
}
