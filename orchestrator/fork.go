package orchestrator

import (
	"context"
	"strconv"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Fork starts session to from a kept turn of session from. Both are sessions of this orchestrator. Turn 0 of to has the
// state, input and definition of that turn. If this process can read the state, it has its labels too. It owes nothing,
// and to goes its own way from there.
//
// While that turn 0 is kept, a repeat does nothing and is no error. If to has other turns, the error is
// checkpoint.ErrConflict. If the turn of from is not kept, the error is checkpoint.ErrNotFound.
func (o *Orchestrator[S]) Fork(ctx context.Context, from string, turn int, to string) error {
	for _, session := range []string{from, to} {
		if err := checkSession(session); err != nil {
			return adminError("fork", session, err)
		}
	}
	if from == to {
		return adminError("fork", to, &InputError{"session", "a session cannot be forked to itself"})
	}
	cp, err := checkpoint.Load(ctx, o.engine.store, o.engine.key(from), turn)
	if err != nil {
		return adminError("fork", from, err)
	}
	options := checkpoint.AppendOptions{Keep: o.engine.options.KeepSnapshots}
	if o.def.Labels != nil { // what fails here comes with the next turn
		if res, err := o.result(ctx, from, cp, false); err == nil {
			labels, err := o.labelsOf(ctx, res.State)
			options.Relabel, options.Labels = err == nil, labels
		}
	}
	s := owned{rows: &o.engine.rows}
	if err := s.acquire(ctx, o.engine.sessions, to, "", true); err != nil {
		return adminError("fork", to, err)
	}
	defer s.Done()
	s.Keep()
	fork := checkpoint.Checkpoint{
		State: cp.State, Payload: cp.Payload, Route: cp.Route, Signature: cp.Signature, Version: cp.Version,
		RunID: forkID(o.engine.key(from), cp.Turn, to),
	}
	_, err = s.Persist(s.Ctx, func(ctx context.Context) error {
		return o.engine.store.Append(ctx, s.Grant.Lease, fork, options)
	})
	return adminError("fork", to, err)
}

// forkID returns the run id of a fork's first turn. It is the same for the same fork.
func forkID(from checkpoint.Key, turn int, to string) string {
	return digest("fork", from.Orchestrator, from.Session, strconv.Itoa(turn), to)[:idLen]
}
