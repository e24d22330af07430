package redissnapshot

import (
	"cmp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins every key. It is [A-Za-z0-9_.:-]{1,64}; "" means "holdfast:".
	Prefix string

	// Remember is how long the store keeps the fence of a session without a run in flight, and the id of its last run.
	// 0 means [snapshot.DefaultRemember]. Less than an hour means an hour. Remember must be longer than any request can
	// be late. Hours are enough.
	Remember time.Duration
}

// ErrEviction refuses a server whose maxmemory-policy is not noeviction, at the first use of a store and once a minute
// after that. Such a server deletes parts of runs and fences when its memory is full. The message says which policy the
// server has.
var ErrEviction = redisstore.ErrEviction

// A Store is a [snapshot.Store] on Redis.
type Store struct {
	redis    redisstore.Runner
	prefix   string
	remember int64 // ms
	gone     staleEntries
}

var (
	_ snapshot.Store = (*Store)(nil)

	_ lock.Raiser = (*Store)(nil)
)

// New returns a store on client. client stays the caller's: the store neither pings nor closes it. New panics if the
// prefix is invalid.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	return &Store{
		redis:    redisstore.Runner{Client: client, Verdicts: verdicts, Refused: snapshot.ErrRefused},
		prefix:   redisstore.Prefix("redissnapshot", o.Prefix),
		remember: max(cmp.Or(o.Remember, snapshot.DefaultRemember), time.Hour).Milliseconds(),
	}
}

// Schema returns "": there is nothing to create in Redis.
func (s *Store) Schema() string { return "" }
