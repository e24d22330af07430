package redissnapshot

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Pages grow. The first runs of a drain should come soon, and many runs should not cost two round trips each. Pages
// stay small because a payload may have megabytes. Brief runs are small, and each costs the server a script.
const firstPage, mostPage, briefPage = 16, 64, 256

// Runs reads the index page by page and yields the runs of its sessions. It drops stale entries. The index has all runs
// in flight, so the cost of each list grows with them, with any query.
func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		if err := s.runs(ctx, q, yield); err != nil {
			yield(snapshot.Run{}, fmt.Errorf("redis: runs of %q: %w", q.Orchestrator, err))
		}
	}
}

// runs returns an error for its caller to yield. If yield wants no more, runs returns nil.
func (s *Store) runs(ctx context.Context, q snapshot.Query, yield func(snapshot.Run, error) bool) error {
	if err := redisstore.Checked(ctx, q.Validate()); err != nil {
		return err
	}
	if q.Session != "" {
		return s.only(ctx, q, yield)
	}
	from, left, tour := redisstore.First, q.Limit, s.redis.Tour()
	if q.After != "" {
		from = redisstore.Past(q.After)
	}
	for size := firstPage; ; size = mostPage {
		if q.Brief {
			size = briefPage
		}
		if q.Status == "" && !q.Unattended && left > 0 {
			size = min(size, left)
		}
		page, err := s.redis.List(ctx, s.indexKey(q.Orchestrator), from, redisstore.Last, size)
		if err != nil {
			return err
		}
		found, err := s.sift(ctx, tour, q, page)
		for _, f := range found {
			if left--; !yield(f.run, f.err) || left == 0 {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if len(page) < size {
			return nil
		}
		from = redisstore.Past(page[len(page)-1].Session)
	}
}

// only yields the run of one session, which needs no index.
func (s *Store) only(ctx context.Context, q snapshot.Query, yield func(snapshot.Run, error) bool) error {
	if q.Session <= q.After {
		return nil
	}
	found, err := s.sift(ctx, s.redis.Tour(), q, []redisstore.Entry{{Session: q.Session}})
	for _, f := range found {
		if !yield(f.run, f.err) {
			return nil
		}
	}
	return err
}

// A finding is a run. err is nil unless the run is damaged, or its node is away.
type finding struct {
	run snapshot.Run
	err error
}

// sift returns the runs of a page that q selects, and drops stale entries. With an error it returns the runs that it
// could look at.
func (s *Store) sift(
	ctx context.Context, tour *redisstore.Tour, q snapshot.Query, page []redisstore.Entry,
) (found []finding, err error) {
	calls := make([]redisstore.Call, len(page))
	for i, e := range page {
		k := snapshot.Key{Orchestrator: q.Orchestrator, Session: e.Session}
		calls[i] = redisstore.Call{
			Keys: s.runKeys(k), Args: []any{string(q.Status), e.Token, unread(q), redisstore.Flag(q.Unattended)},
		}
	}
	var stale []redisstore.Barred
	var errs []error
	tour.RunAll(ctx, lookScript, calls, func(i int, reply redisstore.Reply, err error) {
		k := snapshot.Key{Orchestrator: q.Orchestrator, Session: page[i].Session}
		if q.Session == "" {
			err = redisstore.AwayFrom(ctx, k, "run", err)
		}
		var f finding
		switch {
		case err != nil:
			if f.run, f.err = judge(k, err); !redisstore.Spared(f.err) {
				errs = append(errs, fmt.Errorf("%q: %w", k.Session, err))
				return
			}
			f.run.Key = k
		case reply.Status == "DROP":
			stale = append(stale, redisstore.Barred{Session: k.Session, Token: page[i].Token, At: reply.Value(0)})
			return
		case reply.Status == "RUN":
			f.run, f.err = decode(k, reply.Values)
		default:
			return
		}
		if f.err == nil || q.Selects(f.run.Status) {
			found = append(found, f)
		}
	})
	_ = s.redis.Drop(ctx, s.indexKey(q.Orchestrator), stale...) // another reader drops these entries
	return found, errors.Join(errs...)
}

// unread tells a script what it does not read of a run.
func unread(q snapshot.Query) string {
	switch {
	case q.Brief:
		return "brief"
	case q.Session == "":
		return "listed"
	}
	return ""
}
