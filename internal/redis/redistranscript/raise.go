package redistranscript

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/transcript"
)

// allKey returns the key that says where the transcripts begin that the servers do not have.
func (s *Store) allKey() string { return s.redis.Prefix + "transcripts" }

// Raise implements [transcript.Raiser]. It reads the names of all keys of all servers.
func (s *Store) Raise(ctx context.Context) (err error) {
	defer redisstore.Wrap(&err, "raise", s.allKey())
	if err := redisstore.Checked(ctx); err != nil {
		return err
	}
	if _, err = s.redis.Run(ctx, raiseScript, []string{s.allKey()}); err != nil {
		return err
	}
	_, err = s.redis.Raise(ctx, raiseScript, ":transcript")
	return err
}

// base returns the number before the first one of a new transcript.
func (s *Store) base(ctx context.Context) (string, error) {
	reply, err := s.redis.Run(ctx, baseScript, []string{s.allKey()})
	return reply.Value(0), judge(transcript.Key{}, err)
}
