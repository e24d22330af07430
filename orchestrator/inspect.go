package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A Standing says how a session stands. It may be out of date when it arrives.
type Standing struct {
	Session string

	// Owner is the process that owns the session by a live lease. It is "" if no lease is live, or if the checkpoint
	// store is no checkpoint.Inspector.
	Owner string
	// LeaseLeft is for how much longer the lease of Owner is live, by the clock of the checkpoint store.
	LeaseLeft time.Duration
	// Beats is the number of beats of Owner. If it stands still for some seconds, Owner has probably stopped. It is 0
	// if the store is no lock.Beater, or the beats cannot be read.
	Beats int64

	// Turn is the newest settled turn. It is -1 if no turn is settled.
	Turn int
	// First is the oldest kept turn.
	First int
	// Owed is how many turns are not yet delivered.
	Owed int
	// Turns before turn Summarized are summarized.
	Summarized int

	// Run is the run in flight. It is nil if no run is in flight.
	Run *InFlight
}

// An InFlight is a run in flight.
type InFlight struct {
	ID string
	// RequestID is of the input. It is "" if the input had none.
	RequestID string
	// InputKind is the Kind of the input. It is "" if the input had none, or the run cannot be read.
	InputKind string
	// Input is what the run hears. It is zero if the run cannot be read. What a user has said in it is not for logs.
	Input Input
	// Turn is the number that the turn gets if it settles next.
	Turn int
	// Attempt counts the attempts since the last progress.
	Attempt int
	// Iteration is that of the last save. A later iteration may be at work.
	Iteration int
	// Status says what is to happen to the run. A run is Running without an owner if its owner has died.
	Status snapshot.Status
	// Started and Saved are times of the snapshot store's clock.
	Started, Saved time.Time
	// Pause is for how long the run is not due. It is 0 if the run is due.
	Pause time.Duration
	// Effects are the ids of the effects that a suspended run waits for. Some may have been answered since.
	Effects []string
}

// Inspect returns how the session stands: who owns it, which run is in flight and what it owes. Inspect reads, and
// claims nothing. A session that does not exist has Turn -1, and nothing else.
//
// The checkpoint stores of Holdfast are Inspectors. If another store is no checkpoint.Inspector, only Turn and Run are
// known. Without a snapshot store no run is known.
//
// If the head or the run is damaged, the error says so, and Inspect returns what it could read: if the head is damaged,
// Turn is -1. If a later version of this package wrote the run, the error is a *DriftError, and Iteration and Effects
// are not known.
func (o *Orchestrator[S]) Inspect(ctx context.Context, session string) (Standing, error) {
	st := Standing{Session: session, Turn: -1}
	err := checkSession(session)
	if err == nil {
		err = o.engine.inspect(ctx, &st)
	}
	if err != nil {
		return st, &Error{Op: "inspect", Session: session, Err: unavailable(err)}
	}
	return st, nil
}

// inspect fills st. It reads the run first. If the run settles meanwhile, the head that is read next says so.
func (e *engine) inspect(ctx context.Context, st *Standing) error {
	found, unread := e.inFlight(ctx, st.Session)
	if unread != nil && !ofOneRow(unread) {
		return unread
	}
	whole := unread == nil
	if found != nil {
		var err error
		st.Run, err = inFlight(*found)
		unread = cmp.Or(unread, err)
	}
	damaged := e.stand(ctx, st)
	if damaged != nil && !ofOneRow(damaged) {
		return errors.Join(unread, damaged)
	}
	if found != nil && whole {
		over, err := e.over(ctx, *found, st.Turn)
		if err != nil {
			return errors.Join(unread, damaged, err)
		}
		if over {
			st.Run, unread = nil, nil
		}
	}
	return errors.Join(unread, damaged)
}

// stand fills st with what the checkpoint store has of the session.
func (e *engine) stand(ctx context.Context, st *Standing) error {
	i, ok := e.bare.checkpoints.(checkpoint.Inspector)
	if !ok {
		return e.standFromTurns(ctx, st)
	}
	ctx, span := e.meters.silent.traceCall(ctx, "checkpoint.Head", st.Session, "")
	h, err := i.Head(ctx, e.key(st.Session))
	if errors.Is(err, checkpoint.ErrNotFound) {
		h, err = checkpoint.Head{Turn: -1}, nil
	}
	if endCall(span, err); err != nil {
		return err
	}
	st.Owner, st.LeaseLeft = h.Owner, h.LeaseLeft
	st.Turn, st.First, st.Owed, st.Summarized = h.Turn, h.First, h.Owed, h.Summarized
	if b := e.beater(); b != nil && st.Owner != "" {
		if beats, err := b.Beat(ctx, ""); err == nil { // a role that reads may have no right to the beats
			st.Beats = beats[st.Owner]
		}
	}
	return nil
}

// standFromTurns fills st from the newest kept turn. If that turn is damaged, its number is right all the same.
func (e *engine) standFromTurns(ctx context.Context, st *Standing) error {
	cp, err := checkpoint.Load(ctx, e.store, e.key(st.Session), checkpoint.Newest)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return nil
	case err == nil || ofOneRow(err):
		st.Turn = cp.Turn
	}
	return err
}

// over reports whether r is a finished run, as far as that is known without a claim. newest is the newest settled turn.
func (e *engine) over(ctx context.Context, r snapshot.Run, newest int) (bool, error) {
	if r.Status == snapshot.Ended {
		return true, nil
	}
	if newest < r.Turn {
		return false, nil
	}
	by, err := e.settledBy(ctx, r, newest)
	if err != nil && ofOneRow(err) { // a damaged turn hides which run it was
		err = nil
	}
	return by != nil, err
}

// inFlight returns what r is for people who look.
func inFlight(r snapshot.Run) (*InFlight, error) {
	f := &InFlight{
		ID: r.ID, RequestID: r.RequestID, Turn: r.Turn, Attempt: r.Attempt, Status: r.Status,
		Started: r.StartedAt, Saved: r.SavedAt, Pause: r.Pause,
	}
	payload, err := readPayload(r)
	if err != nil {
		return f, err
	}
	f.InputKind, f.Input = payload.Input.Kind, payload.Input.input(r.RequestID)
	if f.Iteration = payload.Iteration; r.Status == snapshot.Suspended {
		f.Effects = payload.Doubt
	}
	return f, nil
}
