package redistranscript

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/transcript"
)

// Trim looks at a thousand entries in one script, and deletes up to 200 of them, or about one MiB, in a second one. So
// other clients do not wait for long, however much there is to delete. A Trim of more is not one step: what is appended
// meanwhile may be deleted too, and a Trim that is cut off has deleted a part.
func (s *Store) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (deleted int, err error) {
	defer redisstore.Wrap(&err, "trim", k.Session)
	if err := redisstore.Checked(ctx, transcript.ValidateRead(k, spans)); err != nil {
		return 0, err
	}
	args := append([]any{micro(before), ""}, numbers(transcript.Union(spans))...)
	if len(spans) == 0 && before.IsZero() {
		args[0] = ""
	}
	for more := true; more; {
		reply, err := s.write(ctx, trimScript, k, rand.Text(), "", args...)
		if err == nil {
			err = redisstore.Checked(ctx)
		}
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(reply.Value(0))
		if err != nil {
			return 0, err
		}
		deleted += n
		args[1], more = reply.Value(1), reply.Value(1) != ""
	}
	return deleted, nil
}

// Retire deletes the transcripts of sessions that are gone, if nothing was added to them for the time idle. So what is
// said in a session that has begun anew stays.
func (s *Store) Retire(ctx context.Context, gone []transcript.Key, idle time.Duration) []error {
	calls, errs := make([]redisstore.Call, len(gone)), make([]error, len(gone))
	for i, k := range gone {
		calls[i] = redisstore.Call{Keys: s.keys(k), Args: []any{idle.Microseconds()}}
	}
	s.redis.RunAll(ctx, retireScript, calls, func(i int, _ redisstore.Reply, err error) {
		errs[i] = redisstore.AwayFrom(ctx, gone[i], "", judge(gone[i], err))
	})
	return errs
}

// micro returns a time in µs, or the nearest that Lua has.
func micro(t time.Time) int64 {
	switch {
	case t.Year() < 1970:
		return 0
	case t.Year() > 9999:
		t = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t.UnixMicro()
}
