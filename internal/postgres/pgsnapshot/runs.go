package pgsnapshot

import (
	"context"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Pages grow. The first runs should come soon, and many runs should not cost a round trip each. Brief runs are small.
const firstPage, mostPage, briefPage = 16, 64, 1000

// Runs implements [snapshot.Store].
func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		if err := q.Validate(); err != nil {
			yield(snapshot.Run{}, err)
			return
		}
		after, left := q.After, q.Limit
		for size := firstPage; ; size = mostPage {
			if q.Brief {
				size = briefPage
			}
			if q.Limit > 0 {
				size = min(size, left)
			}
			page, more, err := s.page(ctx, q, after, size)
			if err != nil {
				yield(snapshot.Run{}, s.error(ctx, "runs", q.Key, err))
				return
			}
			for _, r := range page {
				if !yield(r.Run, s.error(ctx, "runs", r.Key, r.intact())) {
					return
				}
				after = r.Session
			}
			if left -= len(page); !more || q.Limit > 0 && left == 0 || q.Session != "" {
				return
			}
		}
	}
}

// page returns the next runs, and whether there may be more.
func (s *Store) page(ctx context.Context, q snapshot.Query, after string, size int) (page []row, more bool, err error) {
	page, err = s.list(ctx, q, after, size)
	more = len(page) == size
	if pgstate.Corrupt(err) && !q.Brief {
		return s.pageByRow(ctx, q, after, size, err)
	}
	return page, more, err
}

// list returns the next runs if the server can read them all.
func (s *Store) list(ctx context.Context, q snapshot.Query, after string, size int) (page []row, err error) {
	one, all, unattended := s.sql.session, s.sql.runs, s.sql.unattended
	if q.Brief {
		one, all, unattended = s.sql.sessionBrief, s.sql.runsBrief, s.sql.unattendedBrief
	}
	if !q.Selects(snapshot.Suspended) && !q.Selects(snapshot.Parked) {
		all = unattended
	}
	if q.Session != "" {
		return s.session(ctx, q, after, one)
	}
	return pgstate.Collect(ctx, s.db, scanListed, 0, all, q.Orchestrator, after, string(q.Status), size)
}

// session returns the run of one session, if it is in flight and q selects it.
func (s *Store) session(ctx context.Context, q snapshot.Query, after, sql string) (page []row, err error) {
	page, err = pgstate.Collect(ctx, s.db, scanListed, 0, sql, q.Orchestrator, q.Session)
	return slices.DeleteFunc(page, func(r row) bool {
		return !r.inFlight || r.Session <= after || !q.Selects(r.Status)
	}), err
}
