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

// write sends a statement that writes an effect and returns it. If a document of the effect has lost a block, the
// statement fails as a whole. The rest of the row can be read, so write sends brief then, which reads no document.
func (l *Ledger) write(ctx context.Context, sql, brief string, args ...any) (r row, err error) {
	r, err = pgstate.One(ctx, l.db, scan, sql, args...)
	if !pgstate.Corrupt(err) {
		return r, err
	}
	why := err
	r, err = pgstate.One(ctx, l.db, scan, brief, args...)
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
