package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
)

// Fork starts session to from a kept turn of from, both of this orchestrator: its turn 0 has that turn's state, input and
// definition, owes nothing, and goes its own way from there. A repeat is no error while that turn 0 is kept; a session that
// has other turns is checkpoint.ErrConflict, a turn that is not kept checkpoint.ErrNotFound.
func (o *Orchestrator[S]) Fork(ctx context.Context, from string, turn int, to string) error {
	for _, session := range []string{from, to} {
		if err := checkSession(session); err != nil {
			return o.adminError("fork", session, err)
		}
	}
	if from == to {
		return o.adminError("fork", to, &InputError{"session", "a session cannot be forked to itself"})
	}
	cp, err := checkpoint.Load(ctx, o.store, o.key(from), turn)
	if err != nil {
		return o.adminError("fork", from, err)
	}
	var s owner.Session
	if err := s.Acquire(ctx, o.sessions, to, "", true); err != nil {
		return o.adminError("fork", to, err)
	}
	defer s.Done()
	s.Keep()
	fork := checkpoint.Checkpoint{
		State: cp.State, Payload: cp.Payload, Route: cp.Route, Signature: cp.Signature, Version: cp.Version,
		RunID: forkID(o.key(from), cp.Turn, to),
	}
	_, err = s.Persist(s.Ctx, func(ctx context.Context) error {
		return o.store.Append(ctx, s.Lease, fork, checkpoint.AppendOptions{Keep: o.KeepSnapshots})
	})
	return o.adminError("fork", to, err)
}

// forkID is the run id of a fork's first turn: the same for the same fork.
func forkID(from checkpoint.Key, turn int, to string) string {
	h := sha256.New()
	for _, part := range []string{"fork", from.Orchestrator, from.Session, strconv.Itoa(turn), to} {
		writePart(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
