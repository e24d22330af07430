package pginbox

import (
	"context"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// Pages grow. The first items should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage = 16, 64

// Items implements [inbox.Store]. It reads pages of 16 and then 64 items.
func (s *Store) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		if err := inbox.ValidateItems(k, kind); err != nil {
			yield(inbox.Item{}, err)
			return
		}
		if err := s.items(ctx, k, kind, yield); err != nil {
			yield(inbox.Item{}, s.db.Error(ctx, "items", k, err))
		}
	}
}

// items yields what Items yields. It returns nil if yield asks it to stop.
func (s *Store) items(ctx context.Context, k inbox.Key, kind inbox.Kind, yield func(inbox.Item, error) bool) error {
	var last *row
	for size := firstPage; ; size = mostPage {
		page, more, err := s.page(ctx, k, kind, last, size)
		for i := range page {
			if err := ctxcause.Of(ctx); err != nil {
				return err
			}
			r := &page[i]
			if !yield(r.Item, s.db.Error(ctx, "items", r.Key, r.intact())) {
				return nil
			}
			last = r
		}
		if err != nil || !more {
			return err
		}
	}
}

// page returns the next items, and whether there may be more. If the server cannot read the data of all, page reads the
// items one by one. Of an item whose data the server cannot read, it returns the rest.
func (s *Store) page(
	ctx context.Context, k inbox.Key, kind inbox.Kind, after *row, size int,
) (page []row, more bool, err error) {
	where, args := behind(k, after)
	page, err = s.list(ctx, s.sql.list, k, kind, where, size, args...)
	if !pgstate.Corrupt(err) {
		return page, len(page) == size, err
	}
	brief, err := s.list(ctx, s.sql.listBrief, k, kind, where, size, args...)
	for _, r := range brief {
		alone, err := s.alone(ctx, r.Key, kind, r.ID)
		switch {
		case pgstate.Corrupt(err):
			r.unread = err
			page = append(page, r)
		case err != nil:
			return page, false, err
		default: // it may have been removed since
			page = append(page, alone...)
		}
	}
	return page, len(brief) == size, err
}

// behind returns the condition of the items that follow, and its arguments. A part that is not needed is left out, so
// that the planner sees which index serves.
func behind(k inbox.Key, after *row) (where string, args []any) {
	switch {
	case k.Session != "" && after == nil:
		return "session = $4::text", []any{k.Session}
	case k.Session != "":
		return "session = $4::text AND (at, id) > ($5::timestamptz, $6::text)", []any{k.Session, after.at, after.ID}
	case after == nil:
		return "true", nil
	}
	return "(session, at, id) > ($4::text, $5::timestamptz, $6::text)", []any{after.Session, after.at, after.ID}
}

func (s *Store) list(
	ctx context.Context, sql string, k inbox.Key, kind inbox.Kind, where string, size int, args ...any,
) (page []row, err error) {
	scan := func(from pgx.CollectableRow) (row, error) { return scanRow(from, k.Orchestrator, kind) }
	sql = strings.Replace(sql, "{selected}", where, 1)
	return pgstate.Collect(ctx, s.db, scan, size, sql, append([]any{k.Orchestrator, string(kind), size}, args...)...)
}
