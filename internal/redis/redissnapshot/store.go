package redissnapshot

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

//go:embed lua
var sources embed.FS

// Each transition of a run, or of the index, is one script. A client repeats a request that got no answer. So each
// script may run twice, the second time long after the first.
var (
	beginScript  = redisstore.Script(sources, "run", "tell", "parts", "begin")
	adoptScript  = redisstore.Script(sources, "run", "tell", "parts", "adopt")
	saveScript   = redisstore.Script(sources, "run", "parts", "save")
	deleteScript = redisstore.Script(sources, "run", "delete")
	raiseScript  = redisstore.Script(sources, "run", "raise")
	lookScript   = redisstore.Script(sources, "run", "tell", "look")
)

// Options configure a [Store].
type Options struct {
	// Prefix begins every key.
	Prefix string

	// Remember is how long the store keeps the fence of a session without a run in flight, and the id of its last run.
	// 0 means [snapshot.DefaultRemember]. Less than an hour means an hour. Remember must be longer than any request can
	// be late. Hours are enough.
	Remember time.Duration
}

// A Store is a [snapshot.Store] on Redis.
type Store struct {
	redis    redisstore.Runner
	remember int64 // ms
	gone     staleEntries
}

var (
	_ snapshot.Store = (*Store)(nil)

	_ lock.Raiser = (*Store)(nil)
)

// New returns a store on client.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	return &Store{
		redis: redisstore.Runner{
			Client: client, Prefix: redisstore.Prefix(o.Prefix),
			Verdicts: map[string]error{"FENCED": lock.ErrFenced, "NONE": snapshot.ErrNotFound},
		},
		remember: max(cmp.Or(o.Remember, snapshot.DefaultRemember), time.Hour).Milliseconds(),
	}
}

// runKeys returns the one key of a session.
func (s *Store) runKeys(k snapshot.Key) []string {
	return []string{s.redis.Key(":run", k.Orchestrator, k.Session)}
}

// indexKey returns the key of the index of an orchestrator's runs.
func (s *Store) indexKey(orchestrator string) string { return s.redis.Key(":inflight", orchestrator) }

// judge turns a fault that a script found in a run into a *snapshot.DamagedError. It returns the run as far as the
// script could read it. With any other error it returns an empty run.
func judge(k snapshot.Key, err error) (snapshot.Run, error) {
	fault, ok := errors.AsType[*redisstore.Fault](err)
	if !ok {
		return snapshot.Run{}, err
	}
	r := snapshot.Run{Key: k}
	if len(fault.Told) == 2 {
		r.ID, r.Status = fault.Told[0], snapshot.Status(fault.Told[1])
	}
	return r, snapshot.Damaged(k, fault)
}

// Raise implements lock.Raiser. It returns of how many sessions a fence was known.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	return s.redis.Raise(ctx, raiseScript, ":run")
}
