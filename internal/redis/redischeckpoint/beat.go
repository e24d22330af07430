package redischeckpoint

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Beat is one script. It may be repeated by the client: then a beat counts twice.
func (s *Store) Beat(ctx context.Context, process string) (beats map[string]int64, err error) {
	err = redisstore.Checked(ctx, checkpoint.ValidateBeat(process))
	var r redisstore.Reply
	if err == nil {
		r, err = s.redis.Run(ctx, beatScript, s.beatKeys(), process, checkpoint.Silence.Milliseconds())
	}
	beats = make(map[string]int64, len(r.Values)/2)
	for i := 0; err == nil && i+1 < len(r.Values); i += 2 {
		beats[r.Values[i]], err = strconv.ParseInt(r.Values[i+1], 10, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("redischeckpoint: beat: %w", err)
	}
	return beats, nil
}

// beatKeys returns the one key that holds the beats of all processes.
func (s *Store) beatKeys() []string { return []string{s.prefix + "beats"} }
