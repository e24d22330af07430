package pgcheckpoint

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
)

// Append is one statement. If the statement finds no head to move, a second one finds out why. With
// [Options].Functions, one call does both.
func (s *Store) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	sql := settling{s.sql.append, s.sql.relabel}
	if s.calls != nil {
		sql = s.calls.settling(s.calls.append)
	}
	_, err := s.append(ctx, sql, l, cp, o)
	return err
}

// A settling holds the statement of an Append, and that of an Append with Relabel: see relabeled.
type settling struct{ append, relabel string }

// append sends the statement of Append, perhaps with a part that has more parameters.
func (s *Store) append(
	ctx context.Context, settle settling, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	more ...any,
) (forgotten bool, err error) {
	keep, err := o.Kept()
	labels, wrong := o.Relabeled()
	if err := errors.Join(l.Validate(), cp.Validate(), err, wrong); err != nil {
		return false, err
	}
	var payload *string
	if len(cp.Payload) > 0 {
		text := string(cp.Payload)
		payload = &text
	}
	route := cp.Route
	if route == nil {
		route = []string{}
	}
	args := append([]any{
		l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, cp.Turn,
		string(cp.State), payload, route, cp.Signature, cp.Version, cp.RunID, cp.RequestID, keep, o.Owes, o.Release,
	}, more...)
	sql := settle.append
	if labels != nil {
		sql, args = relabeled(settle.relabel, args, labels)
	}
	if s.calls != nil {
		forgotten, err = s.callAppend(ctx, o, sql, args...)
	} else {
		forgotten, err = s.sendAppend(ctx, sql, args...)
		if errors.Is(err, pgx.ErrNoRows) {
			err = s.whyNot(ctx, l, cp, o)
		}
	}
	if pgstate.Of(err) == pgstate.UniqueViolation {
		err = checkpoint.DamagedTurn(l.Key, cp.Turn,
			errors.New("it is there, and the head says that it is not settled"))
	}
	return forgotten, s.error(ctx, "append", l.Key, err)
}

// sendAppend returns pgx.ErrNoRows if the statement found no head to move.
func (s *Store) sendAppend(ctx context.Context, sql string, args ...any) (forgotten bool, err error) {
	return pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (forgotten bool, err error) {
		err = row.Scan(&forgotten, nil)
		return forgotten, err
	}, sql, args...)
}

// whyNot explains an Append that found no head to move. It looks for the run by its id: a new owner may have settled
// the run under another number.
func (s *Store) whyNot(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	var ours bool
	settled, err := pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (settled bool, err error) {
		err = row.Scan(&settled, &ours)
		return settled, err
	}, s.sql.explain, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, cp.RunID, cp.Turn)
	switch {
	case err != nil:
		return err
	case settled:
		return o.Known()
	case ours:
		return checkpoint.ErrConflict
	}
	return lock.ErrFenced
}
