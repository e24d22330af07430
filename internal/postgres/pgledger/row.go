package pgledger

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/ledger"
)

// A row is an effect as it stands.
type row struct {
	ledger.Effect
	number  int64 // in the order of first issue
	written bool  // by the statement that has read it
	endless bool  // one of its times is infinite
	unread  error // why the server cannot read the documents
}

var errEndless = errors.New("one of its times is infinite")

// intact returns a *ledger.DamagedError if no ledger wrote the effect, or if the server cannot read it. intact does not
// judge the documents, because PostgreSQL has.
func (r *row) intact() error {
	switch {
	case r.unread != nil:
		return ledger.Damaged(r.ID, r.unread)
	case r.endless:
		return ledger.Damaged(r.ID, errEndless)
	}
	return r.Intact()
}

func scan(from pgx.CollectableRow) (r row, err error) {
	var issued, finished, answered pgtype.Timestamptz
	var now time.Time
	err = from.Scan(
		&r.ID, &r.number, &r.Orchestrator, &r.Session, &r.RunID, &r.Iteration, &r.Intent, &r.Name, &r.Each, &r.Key,
		(*int)(&r.Class), &r.Fence.Epoch, &r.Fence.Nonce, &r.ArgsSum, &issued, &r.Attempts, (*string)(&r.State),
		&finished, &r.AnsweredBy, &answered, &r.Redacted, &r.Unsure, &now, &r.Error, (*[]byte)(&r.Args),
		(*[]byte)(&r.Result), &r.written, nil,
	)
	r.Unsure = r.Unsure && r.State.Open()
	for _, t := range []pgtype.Timestamptz{issued, finished, answered} {
		r.endless = r.endless || t.InfinityModifier != pgtype.Finite
	}
	// NULL and an infinite time become the zero time.
	r.IssuedAt, r.FinishedAt, r.AnsweredAt = issued.Time.UTC(), finished.Time.UTC(), answered.Time.UTC()
	if issued.InfinityModifier == pgtype.Finite {
		r.Age = max(0, now.Sub(issued.Time))
	}
	return r, err
}

// A queryer is a *pgstate.DB or a transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// one returns pgx.ErrNoRows if there is no row.
func one[T any](ctx context.Context, q queryer, scan pgx.RowToFunc[T], sql string, args ...any) (t T, err error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return t, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

// collect returns all rows of a statement that reads. most is how many there may be; 0 if this is not known.
func collect[T any](
	ctx context.Context, db *pgstate.DB, scan pgx.RowToFunc[T], most int, sql string, args ...any,
) (all []T, err error) {
	err = db.Answered(ctx, func() error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		all, err = pgx.AppendRows(make([]T, 0, most), rows, scan)
		return err
	})
	return all, err
}

// write sends a statement that writes an effect and returns it. If a document of the effect has lost a block, the
// statement fails as a whole. The rest of the row can be read, so write sends brief then, which reads no document.
func (l *Ledger) write(ctx context.Context, sql, brief string, args ...any) (r row, err error) {
	err = l.db.Answered(ctx, func() error {
		r, err = one(ctx, l.db, scan, sql, args...)
		return err
	})
	if !pgstate.Corrupt(err) {
		return r, err
	}
	why := err
	err = l.db.Answered(ctx, func() error {
		r, err = one(ctx, l.db, scan, brief, args...)
		return err
	})
	r.unread = why
	return r, err
}

// document returns doc as text, which every mode of the driver sends alike; nil if there is no document.
func document(doc json.RawMessage) *string {
	if doc == nil {
		return nil
	}
	text := string(doc)
	return &text
}

// asked returns the arguments of a statement about e, and more.
func asked(e ledger.Effect, more ...any) []any {
	return append([]any{
		e.ID, e.RunID, e.Fence.Epoch, e.Fence.Nonce, e.Orchestrator, e.Session, e.Iteration, e.Intent, e.Name, e.Each,
		e.Key, int(e.Class), e.ArgsSum, document(e.Args),
	}, more...)
}
