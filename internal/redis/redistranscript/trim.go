package redistranscript

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/transcript"
)

// Trim asks the server for its time and then deletes the entries, in one script each. If there is nothing to delete,
// the first script says so.
func (s *Store) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (deleted int, err error) {
	defer redisstore.Wrap(&err, "trim", k.Session)
	if err := redisstore.Checked(ctx, transcript.ValidateRead(k, spans)); err != nil {
		return 0, err
	}
	args := []any{micro(before)}
	if len(spans) == 0 && before.IsZero() {
		args[0] = ""
	}
	reply, err := s.write(ctx, trimScript, k, rand.Text(), "", append(args, numbers(inOrder(spans))...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(reply.Value(0))
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
