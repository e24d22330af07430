package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// A Shown is an event that Options.Stream has kept.
type Shown struct {
	// Number counts the events of the session, over all its turns, from 1 and without gaps. It begins anew once the
	// stream of the session was forgotten.
	Number int64

	// Event is as it was sent, except for Err. Of an IntentEnded, Err says only whether the attempt failed; of the
	// others it is nil.
	Event Event
}

// How often Follow asks whether the turn is still in flight, while nothing comes: after quietFirst, and less and less
// often, down to once in quietMost.
const (
	quietFirst = 5 * time.Second
	quietMost  = time.Minute
)

// errQuiet ends a reader whose turn is over, although the stream lacks its end.
var errQuiet = errors.New("no turn is in flight")

// Follow yields the events of the turns of session after the event with a number, in whichever process the turns run,
// and goes on as they come. It ends without an error when a turn has ended and all its events are yielded, and when no
// turn is in flight. With stream.Newest it begins at the newest turn, and with 0 at the first event that there was.
//
// If the events after that number are no longer kept, the error is stream.ErrGone. Then begin anew, from Turns. The
// tokens of an earlier attempt are void. So are those of an iteration that a later TurnResumed begins again.
//
// Events come some 50 ms after they were emitted. They are no record: a crash can lose the last ones, and an event
// whose Append got no answer may come twice, with the same Seq and the same time. The loop may be slow: no turn waits
// for it.
func (o *Orchestrator[S]) Follow(ctx context.Context, session string, after int64) iter.Seq2[Shown, error] {
	return func(yield func(Shown, error) bool) {
		err := checkSession(session)
		if err == nil && o.engine.listeners.shows == nil {
			err = ErrNoStream
		}
		r := &reader{engine: o.engine, session: session, last: after, yield: yield}
		if err == nil {
			err = r.awaitFirst(ctx)
		}
		for again := true; err == nil && again; {
			again, err = r.read(ctx)
		}
		if err != nil {
			r.fail(err)
		}
	}
}

// LastShown returns the number of the newest event that Options.Stream has kept of session, for Follow. It is 0 if
// there is none. more says that a turn is at work, or is in flight, so that further events may come.
func (o *Orchestrator[S]) LastShown(ctx context.Context, session string) (number int64, more bool, err error) {
	err = checkSession(session)
	if err == nil && o.engine.listeners.shows == nil {
		err = ErrNoStream
	}
	if err == nil {
		var status stream.Status
		number, _, status, err = o.engine.listeners.shows.store.Last(ctx, o.engine.key(session))
		more = !status.Over() || err == nil && o.engine.running(ctx, session)
	}
	if err != nil {
		return 0, false, &Error{Op: "follow", Session: session, Err: err}
	}
	return number, more, nil
}

// RunsShown returns the number of the first event that Options.Stream has kept of each run of session, by the id of the
// run. Follow begins there with the number before. What it yields is of that run up to the first event of another one,
// as Event.RunID says. A run of which no event is kept is not there. Events come a little later than the run begins.
func (o *Orchestrator[S]) RunsShown(ctx context.Context, session string) (first map[string]int64, err error) {
	err = checkSession(session)
	if err == nil && o.engine.listeners.shows == nil {
		err = ErrNoStream
	}
	if err == nil {
		first, err = o.engine.listeners.shows.store.Starts(ctx, o.engine.key(session))
	}
	if err != nil {
		return nil, &Error{Op: "follow", Session: session, Err: err}
	}
	return first, nil
}

// A reader follows one session.
type reader struct {
	engine  *engine
	session string
	last    int64 // the number of the last event
	yield   func(Shown, error) bool
}

// fail ends the loop with an error. It is a function of its own because a waiting reader keeps its stack.
func (r *reader) fail(err error) {
	r.yield(Shown{}, &Error{Op: "follow", Session: r.session, Err: err})
}

func (r *reader) key() stream.Key { return r.engine.key(r.session) }

// How long Follow waits at most for the first events of a run in flight, and how often it looks meanwhile.
const (
	firstLimit = 2 * time.Second
	firstEvery = 20 * time.Millisecond
)

// awaitFirst waits until the stream shows the run that is at work. Its first events come a little later than the run. A
// reader that came in between would see the end of the turn before, and leave.
func (r *reader) awaitFirst(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < firstLimit; {
		_, _, status, err := r.engine.listeners.shows.store.Last(ctx, r.key())
		if err != nil || !status.Over() || !r.engine.running(ctx, r.session) {
			return err
		}
		pause := time.NewTimer(firstEvery)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil // Read says why
		}
	}
	return nil
}

// running reports whether session has a run that is at work, as far as that is known.
func (e *engine) running(ctx context.Context, session string) bool {
	r, err := e.run(ctx, session, true)
	return err == nil && r.Status == snapshot.Running
}

// read reads to the end of the stream. If no turn is in flight by then, and there are more events, it is to be called
// again.
func (r *reader) read(ctx context.Context) (again bool, err error) {
	quiet := r.engine.watchQuiet(ctx, r.session)
	defer quiet.stop()
	for chunk, err := range r.engine.listeners.shows.store.Read(quiet.ctx, r.key(), r.last) {
		if errors.Is(err, errQuiet) {
			newest, _, _, err := r.engine.listeners.shows.store.Last(ctx, r.key())
			return newest > r.last, err
		}
		if err != nil {
			return false, err
		}
		quiet.heard()
		var ev Event
		if err := json.Unmarshal(chunk.Data, &ev); err != nil {
			return false, fmt.Errorf("%w: chunk %d is no event", stream.ErrGone, chunk.Seq)
		}
		r.last = chunk.Seq
		if !r.yield(Shown{chunk.Seq, ev}, nil) {
			return false, nil
		}
	}
	return false, nil
}

// A quiet notices that a session whose stream is Active has no turn in flight. Its owner died after the settle.
type quiet struct {
	engine  *engine
	session string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	news    chan struct{} // cap 1
	done    chan struct{}
}

func (e *engine) watchQuiet(ctx context.Context, session string) *quiet {
	q := &quiet{engine: e, session: session, news: make(chan struct{}, 1), done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancelCause(ctx)
	go q.run()
	return q
}

func (q *quiet) heard() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

func (q *quiet) stop() {
	q.cancel(nil)
	<-q.done
}

func (q *quiet) run() {
	defer close(q.done)
	pause, idle := quietFirst, 0
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-q.ctx.Done():
			return
		case <-q.news:
			pause, idle = quietFirst, 0
		case <-timer.C:
			if q.engine.atRest(q.ctx, q.session) {
				idle++
			} else {
				pause, idle = min(2*pause, quietMost), 0
			}
			if idle == 2 {
				q.cancel(errQuiet)
				return
			}
		}
		timer.Reset(pause)
	}
}

// atRest reports whether session has no run in flight and no owner. If it cannot tell, it reports false.
func (e *engine) atRest(ctx context.Context, session string) bool {
	busy, err := e.hasRun(ctx, session)
	if err != nil || busy {
		return false
	}
	held, err := e.sessions.Held(ctx, []string{session})
	return err == nil && len(held) == 0
}
