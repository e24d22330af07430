package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A slot is the place in the snapshot store for the run of a session. Each session has one slot, for one run. A slot is
// written by the owner of its session.
type slot struct {
	engine *engine
	own    *owned

	// spent says that no run can begin under our fence any more. By the fence a snapshot store recognizes a late copy
	// of a Begin.
	spent bool

	// known says that the snapshot store knows a fence of ours: a Begin of an earlier owner begins nothing any more.
	known bool
}

// find returns the run in flight; nil if there is none. A damaged run comes with its error.
func (s *slot) find(ctx context.Context) (found *snapshot.Run, err error) {
	err = s.engine.read(ctx, func(ctx context.Context) (err error) {
		found, err = s.engine.inFlight(ctx, s.own.Grant.Session)
		return err
	})
	return found, err
}

// finished reports whether r is a finished run. A run is finished if its status is Ended, or if a kept turn has settled
// it, which finished returns; newest is the newest kept turn. It is also finished if it is of an earlier life of the
// session, unless it continues in this life: see retired. The turn number of a run proves nothing: another run may have
// settled that turn.
func (s *slot) finished(
	r snapshot.Run, newest *checkpoint.Checkpoint,
) (finished bool, by *checkpoint.Checkpoint, err error) {
	if r.Status == snapshot.Ended {
		return true, nil, nil
	}
	payload, err := readPayload(r)
	if err == nil && payload.Born != s.own.Grant.Born && (newest != nil || !s.retired(r, payload.Born)) {
		return true, nil, nil
	}
	switch {
	case newest != nil && newest.RunID == r.ID:
		return true, newest, nil
	case newest == nil || newest.Turn < r.Turn:
		return false, nil, nil
	}
	err = s.engine.read(s.own.Ctx, func(ctx context.Context) (err error) {
		by, err = s.engine.settledBy(ctx, r, newest.Turn-1)
		return err
	})
	return by != nil, by, err
}

// retired reports whether a run is of an earlier life of a session without turns, which was retired because no turn was
// settled in it. The run lost nothing, and goes on. If the session had been deleted instead, Delete would have ended
// the run, unless the run's Begin came after the Delete. A life that ended within one lease was not retired.
func (s *slot) retired(r snapshot.Run, born int64) bool {
	return r.Base == "" && s.own.Grant.Born-born >= s.engine.options.Limits.LeaseTTL.Microseconds()
}

// renewFence makes sure that a run can begin under our fence: it claims the session from ourselves if none can.
func (s *slot) renewFence() error {
	if !s.spent {
		return nil
	}
	return s.reclaim(0)
}

// reclaim claims the session from ourselves. If born is not 0, and no turn is settled, born becomes the session's.
func (s *slot) reclaim(born int64) error {
	if err := s.own.claimAnew(born); err != nil {
		return err
	}
	s.spent = false
	return nil
}

// begin saves a new run, unless a run is in flight; then it returns that run. Begin is sent once.
func (s *slot) begin(ctx context.Context, r snapshot.Run) (found *snapshot.Run, err error) {
	s.spent, s.own.Begun = true, true
	err = s.own.Once(ctx, func(ctx context.Context) (err error) {
		found, err = s.engine.options.Snapshots.Begin(ctx, r)
		return err
	})
	s.known = s.known || err == nil
	switch {
	case errors.Is(err, lock.ErrFenced):
		s.own.Lose(lock.ErrFenced)
	case err != nil && !owner.Definite(err): // it may have taken effect
	case err != nil || found != nil:
		s.own.Begun = false // a run in flight is of an earlier life, if ours is the first claim
	}
	return found, err
}

// errChanged says that the run in flight is no longer the run that was found.
var errChanged = errors.New("another run is in flight")

// adopt makes the run that was found ours. Nothing of the run is used before that.
func (s *slot) adopt(found snapshot.Run, attempts int) (snapshot.Run, error) {
	if err := s.own.Lost(); err != nil {
		return snapshot.Run{}, err
	}
	r, err := s.take(attempts)
	switch {
	case errors.Is(err, snapshot.ErrNotFound), err == nil && r.ID != found.ID:
		return r, errChanged
	case err == nil && r.Status != found.Status && (r.Status == snapshot.Ended || r.Status == snapshot.Suspended):
		return r, errChanged
	}
	return r, err
}

// bar makes our fence known to the snapshot store: from then on a Begin of a former owner begins nothing. over says
// that no run is in flight. A run that is in flight has become ours.
func (s *slot) bar() (r snapshot.Run, over bool, err error) {
	if s.engine.options.Snapshots == nil {
		return r, true, nil
	}
	r, err = s.take(0)
	if errors.Is(err, snapshot.ErrNotFound) {
		return r, true, nil
	}
	return r, false, err
}

// take makes the run in flight ours. It may be any run.
func (s *slot) take(attempts int) (r snapshot.Run, err error) {
	s.spent = true
	_, err = s.own.Persist(s.own.Ctx, func(ctx context.Context) (err error) {
		r, err = s.engine.options.Snapshots.Adopt(ctx, s.own.Grant.Key, s.own.Grant.Fence, attempts)
		return err
	})
	if errors.Is(err, lock.ErrFenced) {
		s.own.Lose(err)
	}
	s.known = s.known || err == nil || errors.Is(err, snapshot.ErrNotFound)
	if s.engine.ledger == nil || r.ID == "" || err != nil && !errors.Is(err, snapshot.ErrParked) &&
		!runDamaged(err) {
		return r, err
	}
	return r, cmp.Or(s.takeEffects(r, attempts > 0 && err == nil), err)
}

// takeEffects makes the effects of a run ours. If the ledger does not answer, nothing of the run is used, and the
// attempt that was counted is taken back.
func (s *slot) takeEffects(r snapshot.Run, counted bool) error {
	_, err := s.own.Persist(s.own.Ctx, func(ctx context.Context) error {
		return s.engine.ledger.Adopt(ctx, r.ID, s.own.Grant.Fence)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lock.ErrFenced):
		s.own.Lose(err)
	case counted:
		r.Fence, r.Attempt = s.own.Grant.Fence, max(0, r.Attempt-1)
		_ = s.change(r, r.Status, r.Error, nil) // else the attempt counts
	}
	return fmt.Errorf("%w: %w", errLedger, err)
}

// save writes a version of a run of ours.
func (s *slot) save(ctx context.Context, r snapshot.Run) error {
	_, err := s.own.Persist(ctx, func(ctx context.Context) error { return s.engine.options.Snapshots.Save(ctx, r) })
	return err
}

// change saves another status of a run that was adopted, and adds parts. Its other documents stay as they are.
func (s *slot) change(r snapshot.Run, status snapshot.Status, why string, parts map[string]json.RawMessage) error {
	r.Seq++
	r.Status, r.Error = status, why
	r.Payload, r.Parts = nil, parts // nil keeps what is stored
	return s.save(s.own.Ctx, r)
}

// forget deletes a finished run of ours. If that fails, the next call that finds the run sees that it is finished. If
// the store refuses our fence, another owner has taken over.
func (s *slot) forget(r snapshot.Run) {
	err := s.own.Once(s.own.Ctx, func(ctx context.Context) error {
		return s.engine.options.Snapshots.Delete(ctx, s.own.Grant.Key, r.ID, r.Fence)
	})
	switch {
	case errors.Is(err, lock.ErrFenced):
		s.own.Lose(lock.ErrFenced)
	case err != nil:
		s.engine.log.WarnContext(s.own.Ctx, "run not deleted; it is found later",
			"session", s.own.Grant.Session, "run", r.ID, s.engine.why(err))
	}
}

// bury deletes a damaged run that is ours. No process can go on with the run, so nothing needs to be saved before.
func (s *slot) bury(r snapshot.Run) error {
	err := s.remove(cmp.Or(r.ID, "unknown")) // the store takes it for any id
	if err == nil {
		s.engine.log.WarnContext(s.own.Ctx, "damaged run deleted", "session", s.own.Grant.Session, "run", r.ID)
	}
	return err
}

// remove deletes the run that is ours.
func (s *slot) remove(id string) error {
	_, err := s.own.Persist(s.own.Ctx, func(ctx context.Context) error {
		return s.engine.options.Snapshots.Delete(ctx, s.own.Grant.Key, id, s.own.Grant.Fence)
	})
	return err
}

// logDropped logs that a run was dropped because its session was deleted.
func (s *slot) logDropped(r snapshot.Run) {
	if payload, err := readPayload(r); err == nil && payload.Born != s.own.Grant.Born && r.Status != snapshot.Ended {
		s.engine.log.ErrorContext(s.own.Ctx,
			"run dropped: its session was deleted, or retired by Sweep, and began anew",
			"session", s.own.Grant.Session, "run", r.ID)
	}
}
