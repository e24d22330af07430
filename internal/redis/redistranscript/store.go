package redistranscript

import (
	"context"
	"embed"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/transcript"
)

//go:embed lua
var sources embed.FS

// Each step is one script. A client repeats a request that got no answer. So each script may run twice, the second time
// long after the first.
var (
	appendScript = redisstore.Script(sources, "lex", "said", "append")
	readScript   = redisstore.Script(sources, "lex", "said", "read")
	copyScript   = redisstore.Script(sources, "lex", "said", "copy")
	trimScript   = redisstore.Script(sources, "lex", "said", "trim")
	retireScript = redisstore.Script(sources, "lex", "said", "retire")
	raiseScript  = redisstore.Script(sources, "lex", "said", "raise")
	baseScript   = redisstore.Script(sources, "lex", "said", "base")
)

// Options configure a [Store].
type Options struct{ Prefix string }

// A Store is a [transcript.Store] on Redis.
type Store struct {
	redis redisstore.Runner
	clock clock
}

var (
	_ transcript.Store  = (*Store)(nil)
	_ transcript.Raiser = (*Store)(nil)
)

// New returns a store on client.
func New(client redis.UniversalClient, o *Options) *Store {
	if o == nil {
		o = new(Options)
	}
	return &Store{redis: redisstore.Runner{
		Client: client, Prefix: redisstore.Prefix(o.Prefix),
		Verdicts: map[string]error{"TAKEN": transcript.ErrTaken},
	}}
}

// keys returns the one key of a transcript.
func (s *Store) keys(k transcript.Key) []string {
	return []string{s.redis.Key(":transcript", k.Orchestrator, k.Session)}
}

// mostBegins is how often a call begins at most. A second time is needed if the store did not know the time, or the
// session was trimmed meanwhile. If a call needs many, others trim all the time, or a clock is wrong.
const mostBegins = 16

var errSlow = errors.New("no request is fresh enough: is the session trimmed all the time, or a clock wrong?")

// write runs a script that writes. began is when the call began by the clock of the server, or "" if it is not known.
// Then the script does nothing, and tells the time.
func (s *Store) write(
	ctx context.Context, script *redisstore.Lua, k transcript.Key, call, began string, args ...any,
) (redisstore.Reply, error) {
	for range mostBegins {
		reply, err := s.redis.Run(ctx, script, s.keys(k), append([]any{call, began}, args...)...)
		if err != nil || reply.Status != "BEGIN" {
			return reply, judge(k, err)
		}
		began = reply.Value(0)
		s.clock.tell(began)
	}
	return redisstore.Reply{}, errSlow
}

// judge turns a fault that a script found into a *transcript.DamagedError.
func judge(k transcript.Key, err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return transcript.DamagedError{
			Key: k, What: "transcript", Remedy: "restore it, or delete it by a Trim of all",
		}.Because(fault)
	}
	return err
}
