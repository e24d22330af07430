package redissnapshot

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/internal/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Pages grow: the first runs of a drain should come soon, and many should not cost two round trips each. They stay
// small because a payload may have megabytes.
const firstPage, mostPage = 16, 64

// Runs reads the index page by page and yields what the sessions have. Entries that are stale are dropped.
func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		if err := s.runs(ctx, q, yield); err != nil {
			yield(snapshot.Run{}, fmt.Errorf("redissnapshot: runs of %q: %w", q.Orchestrator, err))
		}
	}
}

// runs returns an error for its caller to yield, and nil once yield has had enough.
func (s *Store) runs(ctx context.Context, q snapshot.Query, yield func(snapshot.Run, error) bool) error {
	if err := redisstore.Checked(ctx, q.Validate()); err != nil {
		return err
	}
	if q.Session != "" {
		return s.only(ctx, q, yield)
	}
	from, left := "-", q.Limit
	if q.After != "" {
		from = "(" + q.After
	}
	for size := firstPage; ; size = mostPage {
		if q.Status == "" && left > 0 {
			size = min(size, left)
		}
		page, err := s.redis.List(ctx, s.indexKeys(q.Orchestrator), from, "+", size)
		if err != nil {
			return err
		}
		found, err := s.sift(ctx, q, page)
		if err != nil {
			return err
		}
		for _, r := range found {
			if left--; !yield(r, nil) || left == 0 {
				return nil
			}
		}
		if len(page) < size {
			return nil
		}
		from = "(" + page[len(page)-1].Session
	}
}

// only yields the run of one session, which needs no index.
func (s *Store) only(ctx context.Context, q snapshot.Query, yield func(snapshot.Run, error) bool) error {
	if q.Session <= q.After {
		return nil
	}
	found, err := s.sift(ctx, q, []redisstore.Entry{{Session: q.Session}})
	for _, r := range found {
		yield(r, nil)
	}
	return err
}

// sift returns the runs of a page that q selects, and drops the entries that are stale.
func (s *Store) sift(ctx context.Context, q snapshot.Query, page []redisstore.Entry) (found []snapshot.Run, err error) {
	calls := make([]redisstore.Call, len(page))
	for i, e := range page {
		q.Session = e.Session
		calls[i] = redisstore.Call{Keys: s.runKeys(q.Key), Args: []any{string(q.Status), e.Token}}
	}
	var stale []barred
	var errs []error
	s.redis.RunAll(ctx, lookScript, calls, func(i int, reply redisstore.Reply, err error) {
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%q: %w", page[i].Session, err))
		case reply.Status == "DROP":
			stale = append(stale, barred{page[i].Session, page[i].Token, reply.Values[0]})
		case reply.Status == "RUN":
			r, err := decode(snapshot.Key{Orchestrator: q.Orchestrator, Session: page[i].Session}, reply.Values)
			found, errs = append(found, r), append(errs, err)
		}
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	_ = s.drop(ctx, q.Orchestrator, stale) // another reader will
	return found, nil
}
