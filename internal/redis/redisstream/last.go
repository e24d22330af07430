package redisstream

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

// Last implements [stream.Store].
func (s *Store) Last(ctx context.Context, k stream.Key) (seq int64, run string, status stream.Status, err error) {
	defer redisstore.Wrap(&err, "ask for the last of the stream of", k.Session)
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return 0, "", "", err
	}
	r, err := s.run(ctx, k, lastScript)
	if err != nil {
		return 0, "", "", err
	}
	seq, status, err = head(r)
	return seq, r.Value(2), status, err
}

// head reads the reply of lastScript. A session that is not known has shown nothing.
func head(r redisstore.Reply) (last int64, status stream.Status, err error) {
	if r.Status == "NONE" {
		return 0, stream.Ended, nil
	}
	if last, err = strconv.ParseInt(r.Value(0), 10, 64); err != nil {
		return 0, "", fmt.Errorf("last: %w", err)
	}
	return last, stream.Status(r.Value(1)), nil
}

// ask returns the marks that are no longer right, or cannot be read.
func (s *Store) ask(ctx context.Context, marks []tail.Mark) (wrong []tail.Mark, err error) {
	calls := make([]redisstore.Call, len(marks))
	for i, m := range marks {
		calls[i].Keys = []string{s.key(m.Key)}
	}
	s.redis.RunAll(ctx, lastScript, calls, func(i int, r redisstore.Reply, failed error) {
		if failed != nil {
			err = fmt.Errorf("redis: ask for readers: %w", failed)
			return
		}
		last, status, failed := head(r)
		if failed != nil || last != marks[i].Seq || status != stream.Active {
			wrong = append(wrong, marks[i])
		}
	})
	return wrong, err
}
