package redissnapshot

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redisstore"
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
	lookScript   = redisstore.Script(sources, "run", "tell", "look")
	enterScript  = redisstore.Script(sources, "entry", "index", "enter")
	dropScript   = redisstore.Script(sources, "entry", "index", "drop")
)

// verdicts are the statuses of a reply that are errors.
var verdicts = map[string]error{"FENCED": lock.ErrFenced, "NONE": snapshot.ErrNotFound}

// Options configure a [Store]. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix begins every key. It is [A-Za-z0-9_.:-]{1,64}; "" means "holdfast:".
	Prefix string

	// Remember is how long the store keeps the fence of a session without a run in flight, and the id of its last run.
	// 0 means [snapshot.DefaultRemember]. Less than an hour means an hour. Remember must be longer than any request can
	// be late. Hours are enough.
	Remember time.Duration
}

// ErrEviction refuses a server whose maxmemory-policy is not noeviction, at the first use of a store. Such a server
// deletes parts of runs and fences when its memory is full. The message says which policy the server has.
var ErrEviction = redisstore.ErrEviction

// A Store is a [snapshot.Store] on Redis.
type Store struct {
	redis    redisstore.Runner
	prefix   string
	remember int64 // ms
	gone     leftovers
}

var _ snapshot.Store = (*Store)(nil)

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

// runKeys returns the one key of a session.
func (s *Store) runKeys(k snapshot.Key) []string {
	return []string{s.prefix + redisstore.Tag(k.Orchestrator, k.Session) + ":run"}
}

// Begin enters the session in the index and then writes the run, in one script each.
func (s *Store) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	err := redisstore.Checked(ctx, r.Validate())
	var found *snapshot.Run
	if err == nil {
		found, err = s.begin(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("redissnapshot: begin %q: %w", r.Session, err)
	}
	return found, nil
}

func (s *Store) begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	stale, above := barred{at: "0"}, "0"
	for range mostEntries {
		entry, seen, err := s.enter(ctx, r.Key, stale, above)
		if err != nil {
			return nil, err
		}
		reply, err := s.redis.Run(ctx, beginScript, s.runKeys(r.Key),
			append([]any{rand.Text(), entry, seen}, encode(r)...)...)
		switch {
		case err != nil:
			_, err = judge(r.Key, err)
			return nil, err
		case reply.Status == "FOUND":
			found, err := decode(r.Key, reply.Values)
			if err != nil {
				return nil, err
			}
			return &found, nil
		case reply.Status != "INDEX":
			return nil, nil
		}
		stale, above = barred{r.Session, entry, reply.Values[0]}, reply.Values[1]
	}
	return nil, errStale
}

var errStale = errors.New("no index entry is fresh enough: do the clocks of the servers differ by minutes?")

// mostEntries is how often a Begin enters the index at most. A second time is rare. If Begin needs more, the clocks are
// wrong.
const mostEntries = 8

// Adopt takes the run over and returns it, in one script. If there is no run, Adopt keeps the fence.
func (s *Store) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	err := redisstore.Checked(ctx, snapshot.ValidateAdopt(k, f, maxAttempts))
	var r snapshot.Run
	if err == nil {
		r, err = s.adopt(ctx, k, f, maxAttempts)
	}
	if err != nil {
		return r, fmt.Errorf("redissnapshot: adopt %q: %w", k.Session, err)
	}
	return r, nil
}

func (s *Store) adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	reply, err := s.redis.Run(ctx, adoptScript, s.runKeys(k), f.Epoch, f.Nonce, maxAttempts, s.remember)
	if err != nil {
		return judge(k, err)
	}
	r, err := decode(k, reply.Values)
	if err == nil && reply.Status == "PARKED" {
		err = snapshot.ErrParked
	}
	return r, err
}

// Save replaces the run in one script. A part is a field of its own, so that an added part costs no more than its own
// size.
func (s *Store) Save(ctx context.Context, r snapshot.Run) error {
	err := redisstore.Checked(ctx, r.Validate())
	if err == nil {
		_, err = s.redis.Run(ctx, saveScript, s.runKeys(r.Key), encode(r)...)
		_, err = judge(r.Key, err)
	}
	if err != nil {
		return fmt.Errorf("redissnapshot: save %q: %w", r.Session, err)
	}
	return nil
}

// Delete forgets the run except its id and its fence, in one script. A later call, or the next listing, removes the
// run's entry from the index.
func (s *Store) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	err := redisstore.Checked(ctx, snapshot.ValidateDelete(k, id, f))
	if err == nil {
		err = s.delete(ctx, k, id, f)
	}
	if err != nil {
		return fmt.Errorf("redissnapshot: delete %q: %w", k.Session, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	reply, err := s.redis.Run(ctx, deleteScript, s.runKeys(k), id, f.Epoch, f.Nonce, s.remember)
	if err != nil {
		_, err = judge(k, err)
		return err
	}
	if len(reply.Values) == 0 {
		return nil
	}
	if full := s.gone.add(k.Orchestrator, barred{k.Session, reply.Values[0], reply.Values[1]}); full {
		// The run is deleted. If drop fails, readers remove the entries.
		_ = s.drop(ctx, k.Orchestrator, s.gone.take(k.Orchestrator))
	}
	return nil
}
