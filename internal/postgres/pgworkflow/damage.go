package pgworkflow

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// If a document has lost a block, the whole statement that reads it fails, and so does its transaction. The rest of the
// row can be read.

// claimUnread claims runs without their documents, and reads the inputs one by one. A run whose input the server cannot
// read is held as Drifted. Otherwise each claim would meet it, and fail.
func (s *Store) claimUnread(
	ctx context.Context, calls []call,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	claimed, next, err = s.claimBy(ctx, calls)
	var held []workflow.Entry
	for i := range claimed {
		c := &claimed[i]
		if c.Owner == "" {
			continue
		}
		input, unread := pgstate.One(ctx, s.db, scanDocument, s.sql.input, c.ID)
		switch c.Input = input; {
		case pgstate.Corrupt(unread):
			held = append(held, workflow.Entry{
				Run: c.ID, Fence: c.Fence, Next: workflow.Stop, Held: workflow.Drifted, Mail: -1,
				Error: workflow.ErrorText(workflow.Damaged(c.ID, unread).Error()),
			})
		case unread != nil && !errors.Is(unread, pgx.ErrNoRows):
			err = unread
		}
	}
	if err == nil && len(held) > 0 {
		_, err = s.Write(ctx, held)
		claimed = slices.DeleteFunc(claimed, func(c workflow.Claimed) bool {
			return slices.ContainsFunc(held, func(e workflow.Entry) bool { return e.Run == c.ID })
		})
	}
	return claimed, next, err
}

// readAlone reads runs one by one, in place of a page that the server cannot read. brief are the runs of the page
// without their documents. A run is left out if the condition of q on the documents does not select it.
func (f *front) readAlone(ctx context.Context, w *where, brief []row) (page []row, err error) {
	for _, r := range brief {
		one, err := f.rows(ctx, f.sql.one, w.of(r.ID), documents, 1)
		switch {
		case pgstate.Corrupt(err):
			r.unread = err
			page = append(page, r)
		case err != nil:
			return page, err
		default:
			page = append(page, one...)
		}
	}
	return page, nil
}

// journalAlone is journal for a run of which the server cannot read an output. It reads the outputs one by one.
func (f *front) journalAlone(ctx context.Context, run string) ([]stepRow, error) {
	sql := strings.NewReplacer("{output}", "NULL::jsonb", "{payload}", "NULL::jsonb").Replace(f.sql.steps)
	all, err := pgstate.Collect(ctx, f.db, scanStep, 0, sql, run)
	for i := range all {
		s := &all[i]
		sql, key := f.sql.output, s.Name
		if s.Kind == workflow.KindSignal {
			sql, key = f.sql.payload, s.Signal
		}
		s.Output, err = pgstate.One(ctx, f.db, scanDocument, sql, run, key)
		switch {
		case pgstate.Corrupt(err):
			s.unread = err
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			return nil, err
		}
		err = nil
	}
	return all, err
}
