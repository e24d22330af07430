package turnhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// lastEvents is how long the reply waits for the last events of its turn.
const lastEvents = time.Second

// storePatience is how long a turn waits for the stream store before it begins without.
const storePatience = time.Second

// show runs the turn of c, and sends its events and its outcome. If the status is not sent yet when the turn fails,
// show returns the error. It returns when the turn has ended.
func (s *server[S]) show(ctx context.Context, w http.ResponseWriter, r *http.Request, c call[S]) error {
	reading, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := front.NewSender(w, cancel)
	defer out.Close()

	res, err := s.showing(ctx, reading, c, func(ev orchestrator.Shown) {
		out.Event(ev.Number, string(ev.Event.Kind), httpjson.Marshal(ev.Event))
	})
	var doc *turnDoc
	if err == nil {
		doc, err = s.turn(res)
	}
	switch {
	case err == nil:
		out.Event(0, "reply", httpjson.Marshal(doc))
	case out.Settle():
		return err
	default:
		s.tell(r, out, err)
	}
	return nil
}

// showing runs the turn of c, gives its events to each until reading ends, and returns when the turn has ended.
func (s *server[S]) showing(
	ctx, reading context.Context, c call[S], each func(orchestrator.Shown),
) (*orchestrator.Result[S], error) {
	after, err := s.lastShown(reading, c.session)
	if err != nil { // no stream store, or it is away
		return s.showHere(ctx, reading, c, each)
	}
	if c.whole {
		after = stream.Newest
	}
	return s.showStored(ctx, reading, c, after, each)
}

// lastShown returns the number after which the events of the next turn come. It waits for the stream store at most
// storePatience.
func (s *server[S]) lastShown(ctx context.Context, session string) (after int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	after, more, err := s.bot.LastShown(ctx, session)
	if more {
		after = stream.Newest // it may be the turn of the caller, in another process
	}
	return after, err
}

// showHere sends the events as this process has them, without numbers.
func (s *server[S]) showHere(
	ctx, reading context.Context, c call[S], each func(orchestrator.Shown),
) (*orchestrator.Result[S], error) {
	st := s.bot.Stream(ctx, c.session, c.input, nil)
	for ev := range st.Events() {
		if reading.Err() != nil {
			break
		}
		if ev.Kind != orchestrator.TurnRefused { // the outcome says why
			each(orchestrator.Shown{Event: ev})
		}
	}
	return c.end(st.Result())
}

// showStored sends the events as the stream store has them, so that the reader can go on elsewhere.
func (s *server[S]) showStored(
	ctx, reading context.Context, c call[S], after int64, each func(orchestrator.Shown),
) (res *orchestrator.Result[S], err error) {
	reading, stop := context.WithCancel(reading)
	defer stop()
	f := &follower[S]{server: s, each: each, call: c, last: after, began: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = fmt.Errorf("%w: %w", orchestrator.ErrIndeterminate, foreign.ErrEnded)
		res, err = foreign.Caught("Execute", func() (*orchestrator.Result[S], error) {
			return c.end(s.bot.Execute(ctx, c.session, c.input, &orchestrator.CallOptions{OnEvent: f.heard}))
		})
		if foreign.PanicOf(err) != nil {
			err = fmt.Errorf("%w: %w", orchestrator.ErrIndeterminate, err)
		}
		if f.begun.Load() || f.sent.Load() || c.whole {
			f.over.Store(true)
			f.wake()
			time.AfterFunc(lastEvents, stop)
			return
		}
		stop() // nothing of the turn was shown, and nothing will be
	}()
	f.run(reading)
	<-done
	return res, err
}

// A follower gives the events of one turn from the stream store to each.
type follower[S any] struct {
	server *server[S]
	each   func(orchestrator.Shown)
	call   call[S]
	last   int64       // the number of the last event
	sent   atomic.Bool // an event of the turn was given
	ended  bool        // so was its last one
	over   atomic.Bool // the call has returned

	// began has an element when the turn has begun in this process, or the call has returned: there is something to
	// look for. begun says from then on that the turn has begun.
	began chan struct{}
	begun atomic.Bool
}

// heard is OnEvent of the call.
func (f *follower[S]) heard(ev orchestrator.Event) {
	if ev.Kind != orchestrator.TurnStarted && ev.Kind != orchestrator.TurnResumed {
		return
	}
	f.begun.Store(true)
	f.wake()
}

// wake lets the follower look at once.
func (f *follower[S]) wake() {
	select {
	case f.began <- struct{}{}:
	default:
	}
}

// How often a follower looks for the turn, while the stream is over: soon after the turn has begun in this process, and
// less and less often while it may begin in another.
const (
	lookFirst = 5 * time.Millisecond
	lookMost  = time.Second
)

// run gives events until the turn has ended, or ctx.
func (f *follower[S]) run(ctx context.Context) {
	pause := lookFirst
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		over := f.over.Load()
		f.read(ctx)
		if f.ended || ctx.Err() != nil {
			return
		}
		if over && !f.begun.Load() && !f.sent.Load() { // it has settled before, and the stream has forgotten it
			return
		}
		timer.Reset(pause)
		select {
		case <-f.began:
			pause = lookFirst
		case <-timer.C:
			pause = min(2*pause, lookMost)
		case <-ctx.Done():
			return
		}
	}
}

// read gives events until the stream is over.
func (f *follower[S]) read(ctx context.Context) {
	for shown, err := range f.server.bot.Follow(ctx, f.call.session, f.last) {
		if err != nil {
			f.failed(err)
			return
		}
		ev := shown.Event
		f.last = shown.Number
		if ev.RequestID != f.call.input.RequestID {
			continue
		}
		if f.call.whole && !f.begun.Load() && !f.sent.Load() && !f.isCalls(ctx) {
			f.ended = true
			return
		}
		f.each(shown)
		f.sent.Store(true)
		switch ev.Kind {
		case orchestrator.TurnSettled, orchestrator.TurnFailed, orchestrator.TurnSuspended:
			f.ended = true
			return
		}
	}
}

// isCalls reports whether the turn that the stream has may be that of the call: with another input, the request id was
// used before, and the call fails.
func (f *follower[S]) isCalls(ctx context.Context) bool {
	in := f.call.input
	p, err := f.server.bot.Progress(ctx, f.call.session, in.RequestID)
	if err != nil || p.Result == nil {
		return true
	}
	had := p.Result.Input
	return had.Text == in.Text && had.Origin == in.Origin && sameValue(had.Data, in.Data)
}

// failed notes that Follow has failed. The reader still gets the outcome.
func (f *follower[S]) failed(err error) {
	switch {
	case f.sent.Load(): // to begin anew would give events twice
		f.ended = true
	case errors.Is(err, stream.ErrGone):
		f.last = stream.Newest
	}
}
