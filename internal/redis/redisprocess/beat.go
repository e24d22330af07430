package redisprocess

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Beat is one script. It may be repeated by the client: then a beat counts twice.
func (p *Processes) Beat(ctx context.Context, process string) (beats map[string]int64, err error) {
	err = redisstore.Checked(ctx, lock.ValidateBeat(process))
	var r redisstore.Reply
	if err == nil {
		r, err = p.redis.Run(ctx, beatScript, p.beatKeys(), process, lock.Silence.Milliseconds())
	}
	beats = make(map[string]int64, len(r.Values)/2)
	for i := 0; err == nil && i+1 < len(r.Values); i += 2 {
		beats[r.Values[i]], err = strconv.ParseInt(r.Values[i+1], 10, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("redisprocess: beat: %w", err)
	}
	return beats, nil
}

// beatKeys returns the one key that holds the beats of all processes.
func (p *Processes) beatKeys() []string { return []string{p.prefix + "beats"} }
