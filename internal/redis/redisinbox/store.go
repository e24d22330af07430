package redisinbox

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins every key. It is [A-Za-z0-9_.:-]{1,64}; "" means "holdfast:".
	Prefix string
}

// ErrEviction refuses a server whose maxmemory-policy is not noeviction, at the first use of a store and once a minute
// after that. Such a server deletes answers when its memory is full. The message says which policy the server has.
var ErrEviction = redisstore.ErrEviction

// A Store is an [inbox.Store] on Redis.
type Store struct {
	redis  redisstore.Runner
	prefix string
}

var _ inbox.Store = (*Store)(nil)

// New returns a store on client. client stays the caller's: the store neither pings nor closes it. New panics if the
// prefix is invalid.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	return &Store{
		redis:  redisstore.Runner{Client: client, Refused: inbox.ErrRefused},
		prefix: redisstore.Prefix("redisinbox", o.Prefix),
	}
}

// Schema returns "": there is nothing to create in Redis.
func (s *Store) Schema() string { return "" }
