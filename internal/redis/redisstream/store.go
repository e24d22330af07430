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
	deleteScript = redisstore.Script(sources, "delete")
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins every key. It is [A-Za-z0-9_.:-]{1,64}; "" means "holdfast:".
	Prefix string

	// Keep is how many chunks of a session are kept at least. 0 or less means stream.DefaultKeep.
	Keep int

	// TTL is how long the chunks of a session are kept after its last Append. 0 means stream.DefaultTTL.
	TTL time.Duration

	// Poll is how often the store asks for readers that wait, while it has no subscription. 0 means 50ms.
	Poll time.Duration
}

// ErrEviction refuses a server whose maxmemory-policy is not noeviction, at the first use of a store and once a minute
// after that. The message says which policy the server has.
var ErrEviction = redisstore.ErrEviction

// A Store is a [stream.Store] on Redis. Chunks expire by themselves.
type Store struct {
	redis  redisstore.Runner
	prefix string
	keep   int
	ttl    int64 // ms
	hub    *tail.Hub
}

var _ stream.Store = (*Store)(nil)

// New returns a store on client. client stays the caller's: the store neither pings nor closes it. New panics if the
// prefix is invalid.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		redis:  redisstore.Runner{Client: client, Refused: stream.ErrRefused},
		prefix: redisstore.Prefix("redisstream", o.Prefix),
		keep:   stream.KeepOf(o.Keep),
		ttl:    max(cmp.Or(max(o.TTL, 0), stream.DefaultTTL).Milliseconds(), 1),
	}
	from := tail.Source{ID: s.key, Ask: s.ask, Poll: cmp.Or(max(o.Poll, 0), 50*time.Millisecond)}
	switch client.(type) {
	case *redis.Client, *redis.ClusterClient:
		from.Listen = (&listener{client}).listen
	}
	s.hub = tail.NewHub(from)
	return s
}

// Schema returns "": there is nothing to create in Redis.
func (s *Store) Schema() string { return "" }

// key returns the one key of a session, which is also the name of its channel.
func (s *Store) key(k stream.Key) string {
	return s.prefix + redisstore.Tag(k.Orchestrator, k.Session) + ":shown"
}

// run runs a script on the key of a session.
func (s *Store) run(
	ctx context.Context, op string, k stream.Key, script *redisstore.Lua, args ...any,
) (redisstore.Reply, error) {
	reply, err := s.redis.Run(ctx, script, []string{s.key(k)}, args...)
	return reply, wrong(op, k, err)
}

// wrong adds the operation and its session to err, and what a fault means.
func wrong(op string, k stream.Key, err error) error {
	if err == nil {
		return nil
	}
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		if err = fmt.Errorf("%w: %w", stream.ErrDamaged, fault); op == "read" {
			err = fmt.Errorf("%w: %w", stream.ErrGone, err)
		}
	}
	return fmt.Errorf("redisstream: %s %q: %w", op, k.Session, err)
}
