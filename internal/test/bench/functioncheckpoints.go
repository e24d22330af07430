package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/lock"
)

// checkpointFunctions does by functions what the store does by statements.
type checkpointFunctions struct {
	*pgcheckpoint.Store
	db *pgstate.DB
}

const (
	claimCall  = `SELECT * FROM holdfast_claim($1, $2, $3, $4, $5, $6, $7, $8)`
	appendCall = `SELECT holdfast_append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`
	markCall   = `SELECT holdfast_mark($1, $2, $3, $4, $5, $6, $7, $8)`
	deleteCall = `SELECT holdfast_delete($1, $2, $3, $4)`
)

func (s checkpointFunctions) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	if err := errors.Join(k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	c.Key = k
	judged := error(new(checkpoint.HeldError)) // if there is no row
	err = call(ctx, s.db, func(rows pgx.Rows) error {
		var verdict string
		if err := scanVerdict(rows, &verdict); err != nil {
			return err
		}
		switch verdict {
		case "granted":
			judged = scanGranted(rows, &c)
		case "answered":
			c.Answered, judged = scanTurn(rows, k)
		default:
			judged = scanRefused(rows, verdict, &c, r)
		}
		return nil
	}, claimCall, k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds(),
		r.From.Epoch, r.From.Nonce, r.RequestID)
	switch {
	case err != nil:
		return checkpoint.Claimed{}, err
	case errors.Is(judged, checkpoint.ErrDamaged):
		return checkpoint.Claimed{Lease: c.Lease}, judged
	case judged != nil:
		return checkpoint.Claimed{}, judged
	}
	return c, nil
}

// scanVerdict reads the first column.
func scanVerdict(rows pgx.Rows, verdict *string) error {
	columns := make([]any, len(rows.FieldDescriptions()))
	columns[0] = verdict
	return rows.Scan(columns...)
}

func scanGranted(rows pgx.Rows, c *checkpoint.Claimed) error {
	var newest int
	err := rows.Scan(nil, &c.Fence.Epoch, &c.Fence.Nonce, nil, &c.Born, &newest, &c.Summarized, &c.Delivered, &c.Failed,
		nil, nil, nil, nil, nil, nil, nil, nil, nil)
	if err == nil {
		err = c.Intact(newest)
	}
	if err != nil || newest < 0 {
		return err
	}
	if rows.RawValues()[9] == nil {
		return checkpoint.DamagedTurn(c.Key, newest, errors.New("it is missing, and it is the newest"))
	}
	c.Last, err = scanTurn(rows, c.Key)
	return err
}

func scanTurn(rows pgx.Rows, k checkpoint.Key) (*checkpoint.Checkpoint, error) {
	cp := new(checkpoint.Checkpoint)
	err := rows.Scan(nil, nil, nil, nil, nil, nil, nil, nil, nil, &cp.Turn, (*[]byte)(&cp.State), (*[]byte)(&cp.Payload),
		&cp.Route, &cp.Signature, &cp.Version, &cp.RunID, &cp.RequestID, &cp.SavedAt)
	cp.SavedAt = cp.SavedAt.UTC()
	if err == nil {
		bare := *cp
		bare.State, bare.Payload = json.RawMessage("{}"), nil // PostgreSQL has judged them
		err = bare.Intact(k)
	}
	return cp, err
}

func scanRefused(rows pgx.Rows, verdict string, c *checkpoint.Claimed, r checkpoint.ClaimRequest) error {
	var held checkpoint.HeldError
	var nonce, owner *string
	err := rows.Scan(nil, &c.Fence.Epoch, &nonce, &owner,
		nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)
	switch {
	case err != nil:
		return err
	case verdict == "headless":
		c.Fence.Nonce = r.Nonce
		return checkpoint.Damaged(c.Key, checkpoint.ErrNoHead)
	case verdict == "held":
		held = checkpoint.HeldError{Owner: *owner, Fence: lock.Fence{Epoch: c.Fence.Epoch, Nonce: *nonce}}
	}
	return &held
}

func (s checkpointFunctions) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	keep, err := o.Kept()
	if err := errors.Join(l.Validate(), cp.Validate(), err); err != nil {
		return err
	}
	route := cp.Route
	if route == nil {
		route = []string{}
	}
	v, err := verdict[string](ctx, s.db, appendCall, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce, cp.Turn,
		string(cp.State), document(cp.Payload), route, cp.Signature, cp.Version, cp.RunID, cp.RequestID,
		keep, o.Owes, o.Release)
	if pgstate.Of(err) == pgstate.UniqueViolation {
		return checkpoint.DamagedTurn(l.Key, cp.Turn, errors.New("it is there, and the head says that it is not settled"))
	}
	if err != nil {
		return err
	}
	switch v {
	case "appended":
		return nil
	case "settled":
		return o.Known()
	case "conflict":
		return checkpoint.ErrConflict
	case "fenced":
		return lock.ErrFenced
	}
	return fmt.Errorf("verdict %q", v)
}

func (s checkpointFunctions) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if err := errors.Join(l.Validate(), m.Validate()); err != nil {
		return err
	}
	marked, err := verdict[bool](ctx, s.db, markCall, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce,
		m.Summarized, m.Delivered, m.Release, (m.Retry + time.Microsecond - 1).Microseconds())
	if err == nil && !marked && m != (checkpoint.Marks{Release: true}) {
		err = lock.ErrFenced
	}
	return err
}

func (s checkpointFunctions) Delete(ctx context.Context, l checkpoint.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	deleted, err := verdict[bool](ctx, s.db, deleteCall, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce)
	if err == nil && !deleted {
		err = lock.ErrFenced
	}
	return err
}
