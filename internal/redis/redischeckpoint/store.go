package redischeckpoint

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisprocess"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

//go:embed lua
var sources embed.FS

// Each transition of a session, or of an index, is one script. A client repeats a request that got no answer, so each
// script may run twice, the second time long after the first.
var (
	claimScript  = redisstore.Script(sources, "session", "claim")
	heldScript   = redisstore.Script(sources, "session", "held")
	headScript   = redisstore.Script(sources, "session", "head")
	renewScript  = redisstore.Script(sources, "session", "renew")
	appendScript = redisstore.Script(sources, "session", "labels", "append")
	markScript   = redisstore.Script(sources, "session", "mark")
	turnsScript  = redisstore.Script(sources, "session", "turns")
	deleteScript = redisstore.Script(sources, "session", "labels", "delete")
	raiseScript  = redisstore.Script(sources, "session", "raise")
	enterScript  = redisstore.Script(sources, "entry", "enter")
	dropScript   = redisstore.Script(sources, "entry", "drop")
	lookScript   = redisstore.Script(sources, "look")

	labelScript   = redisstore.Script(sources, "entry", "label")
	labeledScript = redisstore.Script(sources, "labels", "labeled")
)

// Options configure a [Store].
type Options struct {
	// Prefix begins every key.
	Prefix string
	// TTL is how long after its lease a session that owes nothing expires, whole. 0 means never.
	TTL time.Duration

	// Unsettled is the TTL of a session without a settled turn. It has to be longer than a lease. 0 means
	// checkpoint.DefaultUnsettled.
	Unsettled time.Duration

	// Said deletes what was said in sessions that are gone, if nothing was said since they were used. It returns an
	// error for each. It may be nil.
	Said func(ctx context.Context, gone []checkpoint.Key, idle time.Duration) []error

	// Processes are those of the database, whose stores beat as one. If it is nil, the store has its own.
	Processes *redisprocess.Processes
}

// A Store is a [checkpoint.Store] on Redis.
type Store struct {
	*redisprocess.Processes

	redis redisstore.Runner
	idle  int64 // ms; 0: sessions stay
	// failed is the number of the last mark with a Retry.
	failed atomic.Int64

	// unsettled is idle for sessions without a settled turn, in ms.
	unsettled int64

	sweeper sweeper
	said    func(ctx context.Context, gone []checkpoint.Key, idle time.Duration) []error
	labels  sweeper // of the index of labels
}

var (
	_ checkpoint.Store     = (*Store)(nil)
	_ checkpoint.Inspector = (*Store)(nil)
	_ checkpoint.Sweeper   = (*Store)(nil)
	_ lock.Raiser          = (*Store)(nil)
)

// New returns a store on client.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	s := &Store{redis: redisstore.Runner{
		Client: client, Prefix: redisstore.Prefix(o.Prefix),
		// HELD is a checkpoint.HeldError, which Claim makes of its values.
		Verdicts: map[string]error{"FENCED": lock.ErrFenced, "CONFLICT": checkpoint.ErrConflict},
	}}
	s.Processes = cmp.Or(o.Processes, redisprocess.New(client, s.redis.Prefix))
	s.said = o.Said
	if o.TTL > 0 {
		s.idle = ceil(o.TTL, time.Millisecond)
	}
	s.unsettled = ceil(cmp.Or(max(o.Unsettled, 0), checkpoint.DefaultUnsettled), time.Millisecond)
	if s.idle > 0 {
		s.unsettled = min(s.unsettled, s.idle)
	}
	return s
}

// sessionKeys returns the one key of a session.
func (s *Store) sessionKeys(k checkpoint.Key) []string {
	return []string{s.redis.Key(":session", k.Orchestrator, k.Session)}
}

// damaged turns the Fault of a script into a *checkpoint.DamagedError of the session.
func damaged(k checkpoint.Key, err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return checkpoint.Damaged(k, fault)
	}
	return err
}

// failed says what was to be done with a session, and what a Fault means. It is for defer.
func failed(err *error, op string, k checkpoint.Key) {
	*err = damaged(k, *err)
	redisstore.Wrap(err, op, k.Session)
}

// Raise implements lock.Raiser. It returns how many sessions had an owner.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	return s.redis.Raise(ctx, raiseScript, ":session", s.idle, s.unsettled)
}

// ceil returns d in units, rounded up.
func ceil(d, unit time.Duration) int64 {
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
