package redisstream

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

//go:embed lua
var sources embed.FS

var (
	appendScript = redisstore.Script(sources, "head", "append")
	pageScript   = redisstore.Script(sources, "head", "page")
	lastScript   = redisstore.Script(sources, "head", "last")
	startsScript = redisstore.Script(sources, "head", "starts")
	deleteScript = redisstore.Script(sources, "delete")
)

// Options configure a [Store].
type Options struct {
	Prefix string        // begins every key
	Keep   int           // how many chunks of a session are kept at least; 0 or less means stream.DefaultKeep
	TTL    time.Duration // how long chunks are kept after the last Append; 0 means stream.DefaultTTL

	// Poll is how often the store asks for readers that wait, while it has no subscription. 0 means 50ms.
	Poll time.Duration
}

// A Store is a [stream.Store] on Redis. Chunks expire by themselves.
type Store struct {
	redis redisstore.Runner
	keep  int
	ttl   int64 // ms
	hub   *tail.Hub
}

var _ stream.Store = (*Store)(nil)

// New returns a store on client.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		redis: redisstore.Runner{Client: client, Prefix: redisstore.Prefix(o.Prefix)},
		keep:  stream.KeepOf(o.Keep),
		ttl:   max(cmp.Or(max(o.TTL, 0), stream.DefaultTTL).Milliseconds(), 1),
	}
	from := tail.Source{ID: s.key, Ask: s.ask, Poll: cmp.Or(max(o.Poll, 0), 50*time.Millisecond)}
	switch client.(type) {
	case *redis.Client, *redis.ClusterClient:
		from.Listen = (&listener{client}).listen
	}
	s.hub = tail.NewHub(from)
	return s
}

// key returns the one key of a session, which is also the name of its channel.
func (s *Store) key(k stream.Key) string { return s.redis.Key(":shown", k.Orchestrator, k.Session) }

// run runs a script on the key of a session, and says what a fault means.
func (s *Store) run(
	ctx context.Context, k stream.Key, script *redisstore.Lua, args ...any,
) (redisstore.Reply, error) {
	reply, err := s.redis.Run(ctx, script, []string{s.key(k)}, args...)
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		err = fmt.Errorf("%w: %w", stream.ErrDamaged, fault)
	}
	return reply, err
}
