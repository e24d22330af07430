package redistranscript

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// Append is one script. If the time of the server is not known, the first run of the script tells it. If the session
// has no entry, Append asks where new transcripts begin.
func (s *Store) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (_ transcript.Span, err error) {
	defer redisstore.Wrap(&err, "append to", k.Session)
	body, err := transcript.EncodeEntry(k, id, msgs)
	if err := redisstore.Checked(ctx, err); err != nil {
		return transcript.Span{}, err
	}
	reply, err := s.add(ctx, func(call, base string) (redisstore.Reply, error) {
		return s.write(ctx, appendScript, k, call, s.clock.now(), id, len(msgs), body, base)
	})
	if err != nil {
		return transcript.Span{}, err
	}
	s.clock.tell(reply.Value(2))
	return spanOf(reply)
}

// add calls write. If the session has no entry, write is called once more, with the number before its first one.
func (s *Store) add(
	ctx context.Context, write func(call, base string) (redisstore.Reply, error),
) (redisstore.Reply, error) {
	call := rand.Text()
	reply, err := write(call, "")
	if err != nil || reply.Status != "NEW" {
		return reply, err
	}
	base, err := s.base(ctx)
	if err != nil {
		return reply, err
	}
	return write(call, base)
}

// spanOf reads the first two values.
func spanOf(reply redisstore.Reply) (transcript.Span, error) {
	var n [2]int64
	if err := reply.Numbers(n[:]); err != nil {
		return transcript.Span{}, fmt.Errorf("%w: %w", transcript.ErrDamaged, err)
	}
	return transcript.Span{From: n[0], Through: n[1]}, nil
}
