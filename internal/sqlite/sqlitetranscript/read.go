package sqlitetranscript

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

var (
	pageSQL  = `SELECT m.first, m.last, m.body` + fromSpan
	briefSQL = `SELECT m.first, m.last` + fromSpan

	fromSpan = `
		FROM {prefix}messages m
		WHERE ` + within("m", "?1", "?2", "?3", "?4") + `
		ORDER BY m.first LIMIT ?5`
)

const bodySQL = `SELECT body FROM {prefix}messages WHERE orchestrator = ?1 AND session = ?2 AND first = ?3`

// pageBytes is how many bytes of bodies end a page.
const pageBytes = 1 << 20

// Read implements [transcript.Store]. It reads pages, each in one statement.
func (s *Store) Read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	page := func(ctx context.Context, span transcript.Span, most int) (all []transcript.Entry, more bool, err error) {
		st, err := s.db.Start(ctx)
		if err == nil {
			all, more, err = readPage(ctx, st, k, span, most)
		}
		if err != nil {
			return nil, false, fmt.Errorf("sqlitetranscript: read %q: %w", k.Session, s.db.Explain(ctx, err))
		}
		return all, more, nil
	}
	return transcript.ReadPages(ctx, k, spans, page)
}

// readPage returns the next entries. If SQLite cannot read them all, readPage reads them one by one.
func readPage(
	ctx context.Context, st sqlitestore.Statements, k transcript.Key, span transcript.Span, most int,
) (all []transcript.Entry, more bool, err error) {
	args := []any{k.Orchestrator, k.Session, span.From, span.Through, most}
	size := 0
	rows, err := st[pageSQL].QueryContext(ctx, args...)
	all, err = sqlitestore.Collect(rows, err, func(rows *sql.Rows) (e transcript.Entry, err error) {
		if size >= pageBytes {
			return e, errFull
		}
		err = rows.Scan(&e.From, &e.Through, &e.Body)
		size += len(e.Body)
		return e, err
	})
	switch {
	case errors.Is(err, errFull):
		return all, true, nil
	case !sqlitestore.Corrupt(err):
		return all, len(all) == most, err
	}
	rows, err = st[briefSQL].QueryContext(ctx, args...)
	brief, err := sqlitestore.Collect(rows, err, scanSpan)
	all, size = all[:0], 0
	for _, s := range brief {
		if size >= pageBytes || err != nil {
			break
		}
		e := transcript.Entry{Span: s}
		switch failed := st[bodySQL].QueryRowContext(ctx, k.Orchestrator, k.Session, s.From).Scan(&e.Body); {
		case sqlitestore.Corrupt(failed):
			e.Unread = failed
		case errors.Is(failed, sql.ErrNoRows): // it was trimmed since
			e.Unread = errGone
		default:
			err = failed
		}
		size += len(e.Body)
		all = append(all, e)
	}
	return all, len(all) < len(brief) || len(brief) == most, err
}

var (
	errFull = errors.New("the page is full")
	errGone = errors.New("it was deleted while it was read")
)
