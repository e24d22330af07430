package redischeckpoint

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisprocess"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins every key: [A-Za-z0-9_.:-]{1,64}. "" means "holdfast:".
	Prefix string
	// TTL is how long after its lease a session that owes nothing expires, whole. 0 means never.
	TTL time.Duration

	// Unsettled is the TTL of a session without a settled turn. It has to be longer than a lease. 0 means
	// checkpoint.DefaultUnsettled.
	Unsettled time.Duration

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *redisprocess.Processes
}

// ErrEviction refuses a server whose maxmemory-policy is not noeviction, at the first use of a store and once a minute
// after that. Such a server would delete parts of sessions when its memory is full. The message names its policy.
var ErrEviction = redisstore.ErrEviction

// A Store is a [checkpoint.Store] on Redis.
type Store struct {
	*redisprocess.Processes

	redis  redisstore.Runner
	prefix string
	idle   int64 // ms; 0: sessions stay
	// failed is the number of the last mark with a Retry.
	failed atomic.Int64

	// unsettled is idle for sessions without a settled turn, in ms.
	unsettled int64

	sweeper sweeper
}

var (
	_ checkpoint.Store     = (*Store)(nil)
	_ lock.Watcher         = (*Store)(nil)
	_ lock.Beater          = (*Store)(nil)
	_ checkpoint.Inspector = (*Store)(nil)
)

var (
	_ checkpoint.Sweeper = (*Store)(nil)

	_ lock.Raiser = (*Store)(nil)
)

// New returns a store on client, which stays the caller's: the store neither pings nor closes it.
// It panics if the prefix is invalid.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	s := &Store{
		redis:  redisstore.Runner{Client: client, Verdicts: verdicts, Refused: checkpoint.ErrRefused},
		prefix: redisstore.Prefix("redischeckpoint", o.Prefix),
	}
	s.Processes = cmp.Or(o.Processes, redisprocess.New(client, s.prefix))
	if o.TTL > 0 {
		s.idle = ceil(o.TTL, time.Millisecond)
	}
	s.unsettled = ceil(cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled), time.Millisecond)
	if s.idle > 0 {
		s.unsettled = min(s.unsettled, s.idle)
	}
	return s
}

// Schema returns "": there is nothing to create in Redis.
func (s *Store) Schema() string { return "" }

// ceil returns d in units, rounded up.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
