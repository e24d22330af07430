package sqlitetranscript

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

const (
	appendSQL = `
		INSERT INTO {prefix}messages (orchestrator, session, first, last, id, at, body)
		SELECT ?1, ?2, newest + 1, newest + ?4, ?3, ?5, ?6
		FROM (SELECT max(coalesce((
			SELECT last FROM {prefix}messages WHERE orchestrator = ?1 AND session = ?2 ORDER BY first DESC LIMIT 1
		), 0), coalesce((SELECT max(number) FROM {prefix}message_raises), 0)) AS newest)
		WHERE true
		ON CONFLICT (orchestrator, session, id) WHERE id IS NOT NULL DO NOTHING
		RETURNING first, last`

	knownSQL = `
		SELECT first, last FROM {prefix}messages WHERE orchestrator = ?1 AND session = ?2 AND id = ?3`
)

// Append is one transaction. If the entry is known, the transaction writes nothing.
func (s *Store) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (span transcript.Span, err error) {
	body, err := transcript.EncodeEntry(k, id, msgs)
	st, err := s.db.Start(ctx, err)
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			span, err = add(ctx, sqlitestore.Within(tx, st), k, id, len(msgs), body)
			return err
		})
	}
	if err != nil {
		return transcript.Span{}, fmt.Errorf("sqlitetranscript: append to %q: %w", k.Session, s.explain(ctx, err))
	}
	return span, nil
}

func add(
	ctx context.Context, do sqlitestore.Runner, k transcript.Key, id string, n int, body []byte,
) (transcript.Span, error) {
	added, err := sqlitestore.One(ctx, do, scanSpan, appendSQL,
		k.Orchestrator, k.Session, id, n, time.Now().UnixMicro(), string(body))
	if err == nil && added == nil {
		added, err = sqlitestore.One(ctx, do, scanSpan, knownSQL, k.Orchestrator, k.Session, id)
	}
	if err == nil && added == nil {
		err = fmt.Errorf("%w: an index and its table differ", transcript.ErrDamaged)
	}
	if err != nil {
		return transcript.Span{}, err
	}
	return *added, nil
}

func scanSpan(rows *sql.Rows) (s transcript.Span, err error) {
	err = rows.Scan(&s.From, &s.Through)
	return s, err
}

// explain gives an error of a write its meaning in the contract. No write of the store breaks a constraint, except if
// an entry that it goes by is damaged.
func (s *Store) explain(ctx context.Context, err error) error {
	if sqlitestore.Corrupt(err) || sqlitestore.Constraint(err) {
		err = fmt.Errorf("%w: %w", transcript.ErrDamaged, err)
	}
	return s.db.Explain(ctx, err)
}
