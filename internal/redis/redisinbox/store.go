package redisinbox

import (
	"embed"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

//go:embed lua
var sources embed.FS

// Each step is one script. A client repeats a request that got no answer. So each script may run twice, the second time
// long after the first.
var (
	postScript   = redisstore.Script(sources, "lex", "box", "post")
	removeScript = redisstore.Script(sources, "lex", "box", "remove")
	itemScript   = redisstore.Script(sources, "lex", "box", "item")
	itemsScript  = redisstore.Script(sources, "lex", "box", "items")
)

// Options configure a [Store].
type Options struct{ Prefix string }

// A Store is an [inbox.Store] on Redis.
type Store struct{ redis redisstore.Runner }

var _ inbox.Store = (*Store)(nil)

// New returns a store on client.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	return &Store{redisstore.Runner{Client: client, Prefix: redisstore.Prefix(o.Prefix)}}
}

// boxKeys returns the one key of the items of a kind in a session.
func (s *Store) boxKeys(k inbox.Key, kind inbox.Kind) []string {
	return []string{s.redis.Key(":inbox:"+string(kind), k.Orchestrator, k.Session)}
}

// indexKey returns the key of the index of the sessions that have items of a kind.
func (s *Store) indexKey(orchestrator string, kind inbox.Kind) string {
	return s.redis.Key(":inbox:"+string(kind), orchestrator)
}

// judge turns a fault that a script found into a *inbox.DamagedError. If all items of the kind are concerned, the id is
// "".
func judge(it inbox.Item, err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return inbox.Damaged(it, fault)
	}
	return err
}
