package orchestrator

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Turns yields the kept turns, newest first. A damaged turn comes with a *checkpoint.DamagedError, and a turn of which
// this process would lose something with a *DriftError; then Turns goes on. After any other error Turns ends.
func (o *Orchestrator[S]) Turns(ctx context.Context, session string) iter.Seq2[*Result[S], error] {
	return func(yield func(*Result[S], error) bool) {
		fail := func(turn int, err error) bool {
			return yield(nil, &Error{Op: "turns", Session: session, Turn: turn, Err: unavailable(err)})
		}
		if err := checkSession(session); err != nil {
			fail(0, err)
			return
		}
		for cp, err := range o.engine.store.Turns(ctx, o.engine.key(session), checkpoint.Newest) {
			var res *Result[S]
			if err == nil {
				res, err = o.result(ctx, session, cp, false)
			}
			var goOn bool
			if err == nil {
				goOn = yield(res, nil)
			} else {
				goOn = fail(cp.Turn, err) && (ofOneRow(err) || isDrift(err))
			}
			if !goOn {
				return
			}
		}
	}
}

// Turn returns one kept turn, or the newest if turn is checkpoint.Newest. If it is not kept, the error is
// checkpoint.ErrNotFound. The others are those of Turns.
func (o *Orchestrator[S]) Turn(ctx context.Context, session string, turn int) (res *Result[S], err error) {
	if err = checkSession(session); err == nil {
		var cp checkpoint.Checkpoint
		cp, err = checkpoint.Load(ctx, o.engine.store, o.engine.key(session), turn)
		if turn == checkpoint.Newest {
			turn = cp.Turn
		}
		if err == nil {
			res, err = o.result(ctx, session, cp, false)
		}
	}
	if err != nil {
		return nil, &Error{Op: "turn", Session: session, Turn: turn, Err: unavailable(err)}
	}
	return res, nil
}

// Runs yields the runs in flight, suspended and parked; none without a snapshot store. Suspended and parked runs come
// without Payload. A damaged run comes with its session and a *snapshot.DamagedError, and a run that cannot be reached
// with a *snapshot.AwayError; then Runs goes on. After any other error Runs ends.
func (o *Orchestrator[S]) Runs(ctx context.Context) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		q := snapshot.Query{Key: snapshot.Key{Orchestrator: o.engine.identity.name}}
		for r, err := range o.engine.runs(ctx, q) {
			if err != nil {
				wrapped := &Error{Op: "runs", Session: r.Session, Err: unavailable(err)}
				if !yield(r, wrapped) || !ofOneRow(err) && !partAway(err) {
					return
				}
				continue
			}
			if r.Status != snapshot.Ended && !yield(r, nil) {
				return
			}
		}
	}
}
