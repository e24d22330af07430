// Package redisprocess keeps in Redis which processes are alive, and which of them watches. The stores of a database
// share it.
package redisprocess

import (
	"context"
	"embed"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

//go:embed lua
var sources embed.FS

var (
	watchScript = redisstore.Script(sources, "watch")
	beatScript  = redisstore.Script(sources, "beat")
	restScript  = redisstore.Script(sources, "rest")
)

// Processes implement [lock.Beater] and [lock.Watcher].
type Processes struct {
	redis redisstore.Runner
	home  pulse.Home
}

var (
	_ lock.Beater  = (*Processes)(nil)
	_ lock.Watcher = (*Processes)(nil)
)

// New returns the processes of a database. prefix begins every key.
func New(client redis.UniversalClient, prefix string) *Processes {
	return &Processes{redis: redisstore.Runner{Client: client, Prefix: prefix}}
}

// Pulse returns the pulse of this process in the database, whatever store asks.
func (p *Processes) Pulse(lock.Beater) *pulse.Pulse { return p.home.Pulse(p) }

// Beat is one script. It may be repeated by the client: then a beat counts twice.
func (p *Processes) Beat(ctx context.Context, process string) (beats map[string]int64, err error) {
	defer redisstore.Wrap(&err, "beat", process)
	if err := redisstore.Checked(ctx, lock.ValidateBeat(process)); err != nil {
		return nil, err
	}
	r, err := p.redis.Run(ctx, beatScript, p.beatKeys(), process, lock.Silence.Milliseconds())
	if err != nil {
		return nil, err
	}
	beats = make(map[string]int64, len(r.Values)/2)
	for i := 0; i+1 < len(r.Values); i += 2 {
		if beats[r.Values[i]], err = strconv.ParseInt(r.Values[i+1], 10, 64); err != nil {
			return nil, err
		}
	}
	return beats, nil
}

// Rest is one script.
func (p *Processes) Rest(ctx context.Context, process string) (err error) {
	defer redisstore.Wrap(&err, "rest", process)
	if err = redisstore.Checked(ctx, lock.ValidateRest(process)); err == nil {
		_, err = p.redis.Run(ctx, restScript, p.beatKeys(), process)
	}
	return err
}

// beatKeys returns the one key that holds the beats of all processes.
func (p *Processes) beatKeys() []string { return []string{p.redis.Prefix + "beats"} }

// Watch is one script. The key expires when process stops being the watcher.
func (p *Processes) Watch(
	ctx context.Context, orchestrator, definition, process string, d time.Duration,
) (other time.Duration, err error) {
	defer redisstore.Wrap(&err, "watch", orchestrator)
	if err := redisstore.Checked(ctx, lock.ValidateWatch(orchestrator, definition, process, d)); err != nil {
		return 0, err
	}
	ms := (d + time.Millisecond - 1).Milliseconds()
	r, err := p.redis.Run(ctx, watchScript, []string{p.redis.Key(":watch", orchestrator, definition)}, process, ms)
	if err != nil {
		return 0, err
	}
	var left [1]int64
	err = r.Numbers(left[:])
	return time.Duration(left[0]) * time.Millisecond, err
}
