package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
)

// runFunctions does by functions what the store does by statements.
type runFunctions struct {
	*pgsnapshot.Store
	db *pgstate.DB
}

const (
	beginCall  = `SELECT holdfast_begin($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	findCall   = `SELECT * FROM holdfast_find($1, $2, $3)`
	adoptCall  = `SELECT * FROM holdfast_adopt($1, $2, $3, $4, $5)`
	saveCall   = `SELECT holdfast_save($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`
	forgetCall = `SELECT holdfast_forget($1, $2, $3, $4, $5)`
)

func (s runFunctions) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	names, docs := split(r.Parts)
	for {
		begun, err := verdict[bool](ctx, s.db, beginCall, r.Orchestrator, r.Session, r.ID, r.RequestID, r.Turn, r.Attempt,
			r.Base, string(r.Status), r.Seq, r.Fence.Epoch, r.Fence.Nonce, document(r.Payload), r.Error,
			microseconds(r.Pause), names, docs)
		if err != nil || begun {
			return nil, err
		}
		if found, err := s.find(ctx, r); found != nil || err != nil {
			return found, err
		}
	}
}

// find returns the run in flight. If there is none and the fence of r is spent, find returns lock.ErrFenced.
func (s runFunctions) find(ctx context.Context, r snapshot.Run) (found *snapshot.Run, err error) {
	err = call(ctx, s.db, func(rows pgx.Rows) error {
		var verdict string
		if err := scanVerdict(rows, &verdict); err != nil {
			return err
		}
		if verdict == "spent" {
			return lock.ErrFenced
		}
		found = new(snapshot.Run)
		_, err := scanRun(rows, found)
		return err
	}, findCall, r.Orchestrator, r.Session, r.Fence.Epoch)
	if err == nil && found != nil {
		err = intact(*found)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (s runFunctions) Adopt(
	ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int,
) (r snapshot.Run, err error) {
	if err := snapshot.ValidateAdopt(k, f, maxAttempts); err != nil {
		return r, err
	}
	adopted, inFlight := false, false
	err = call(ctx, s.db, func(rows pgx.Rows) (err error) {
		adopted = true
		inFlight, err = scanRun(rows, &r)
		return err
	}, adoptCall, k.Orchestrator, k.Session, f.Epoch, f.Nonce, maxAttempts)
	switch {
	case err != nil:
		return snapshot.Run{}, err
	case !adopted:
		return snapshot.Run{}, lock.ErrFenced
	case !inFlight:
		return snapshot.Run{}, snapshot.ErrNotFound
	case intact(r) != nil:
		return r, intact(r)
	case maxAttempts > 0 && r.Status == snapshot.Parked:
		return r, snapshot.ErrParked
	}
	return r, nil
}

func (s runFunctions) Save(ctx context.Context, r snapshot.Run) error {
	if err := r.Validate(); err != nil {
		return err
	}
	names, docs := split(r.Parts)
	saved, err := verdict[bool](ctx, s.db, saveCall, r.Orchestrator, r.Session, r.ID, r.Fence.Epoch, r.Fence.Nonce,
		r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq, document(r.Payload), r.Error, microseconds(r.Pause),
		names, docs)
	if err == nil && !saved {
		err = lock.ErrFenced
	}
	return err
}

func (s runFunctions) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := snapshot.ValidateDelete(k, id, f); err != nil {
		return err
	}
	forgotten, err := verdict[bool](ctx, s.db, forgetCall, k.Orchestrator, k.Session, id, f.Epoch, f.Nonce)
	if err == nil && !forgotten {
		err = lock.ErrFenced
	}
	return err
}

// split returns the parts as two arrays, both nil if there are none.
func split(parts map[string]json.RawMessage) (names, docs []string) {
	for name, doc := range parts {
		names, docs = append(names, name), append(docs, string(doc))
	}
	return names, docs
}

// intact returns a *snapshot.DamagedError if no store wrote the run. PostgreSQL has judged the documents.
func intact(r snapshot.Run) error {
	r.Payload, r.Parts = nil, nil
	return r.Intact()
}

func scanRun(rows pgx.Rows, r *snapshot.Run) (inFlight bool, err error) {
	var notBefore *time.Time
	var left int64
	var names, docs []string
	err = rows.Scan(nil, &r.Orchestrator, &r.Session, &r.ID, &r.RequestID, &r.Turn, &r.Attempt, &r.Base,
		(*string)(&r.Status), &r.Seq, &r.Fence.Epoch, &r.Fence.Nonce, (*[]byte)(&r.Payload), &r.Error, &notBefore,
		&r.StartedAt, &r.SavedAt,
		&left, &inFlight, &names, &docs)
	if err != nil {
		return false, err
	}
	if len(names) != len(docs) {
		return false, fmt.Errorf("%d names of %d parts", len(names), len(docs))
	}
	for i, name := range names {
		if r.Parts == nil {
			r.Parts = make(map[string]json.RawMessage)
		}
		r.Parts[name] = json.RawMessage(docs[i])
	}
	r.StartedAt, r.SavedAt = r.StartedAt.UTC(), r.SavedAt.UTC()
	if notBefore != nil {
		r.NotBefore, r.Pause = notBefore.UTC(), time.Duration(max(0, left))*time.Microsecond
	}
	return inFlight, nil
}

// microseconds rounds up: a pause that is shorter than the clock's step is one all the same.
func microseconds(d time.Duration) int64 { return (d + time.Microsecond - 1).Microseconds() }
