package pgtranscript

import (
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// mostBytes bounds a page, together with the number of its entries. It has one entry more than fit.
const mostBytes = 4 << 20

// Read implements [transcript.Store]. It reads pages of up to 256 entries and about 4 MiB, each in one statement.
func (s *Store) Read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	page := func(ctx context.Context, span transcript.Span, most int) ([]transcript.Entry, bool, error) {
		all, more, err := s.page(ctx, k, span, most)
		return all, more, s.db.Error(ctx, "read", k, err)
	}
	return transcript.ReadPages(ctx, k, spans, page)
}

var errGone = errors.New("it was deleted while it was read")

// page returns the next entries. If the server cannot read the bodies of all, page reads the entries one by one. How
// many bytes they have is not known then, so there may be more.
func (s *Store) page(
	ctx context.Context, k transcript.Key, span transcript.Span, most int,
) (page []transcript.Entry, more bool, err error) {
	page, err = s.list(ctx, s.sql.page, k, span, most)
	if !pgstate.Corrupt(err) {
		size := 0
		for _, e := range page {
			size += len(e.Body)
		}
		return page, len(page) == most || size >= mostBytes, err
	}
	page, err = s.list(ctx, s.sql.brief, k, span, most)
	for i := range page {
		first := transcript.Span{From: page[i].From, Through: page[i].From}
		alone, err := s.list(ctx, s.sql.page, k, first, 1)
		switch {
		case pgstate.Corrupt(err):
			page[i].Unread = err
		case err != nil:
			return nil, false, err
		case len(alone) == 0:
			page[i].Unread = errGone
		default:
			page[i] = alone[0]
		}
	}
	return page, true, err
}

func (s *Store) list(
	ctx context.Context, sql string, k transcript.Key, span transcript.Span, most int,
) ([]transcript.Entry, error) {
	return pgstate.Collect(ctx, s.db, func(from pgx.CollectableRow) (e transcript.Entry, err error) {
		err = from.Scan(&e.From, &e.Through, &e.Body)
		return e, err
	}, 0, sql, k.Orchestrator, k.Session, span.From, span.Through, most, mostBytes)
}
