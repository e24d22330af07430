package redischeckpoint

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

//go:embed lua
var sources embed.FS

// Each transition of a session, or of an index, is one script. A client repeats what it gets no answer to, so each
// may run twice, the second time long after the first.
var (
	claimScript  = script("session", "claim")
	renewScript  = script("session", "renew")
	appendScript = script("session", "append")
	markScript   = script("session", "mark")
	turnsScript  = script("session", "turns")
	bornScript   = script("born")
	deleteScript = script("delete")
	enterScript  = script("enter")
	dropScript   = script("drop")
	listScript   = script("list")
	lookScript   = script("look")
)

func script(names ...string) *redis.Script {
	var src []byte
	for _, name := range names {
		part, err := sources.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		src = append(src, part...)
	}
	return redis.NewScript(string(src))
}

// A reply is the verdict of a script, and whatever comes with it.
type reply struct {
	status string
	values []string
}

type call struct {
	keys []string
	args []any
}

func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) (reply, error) {
	return result(ctx, script.Run(ctx, s.client, keys, args...))
}

// runAll runs script for every call, in one round trip, or two where Redis has forgotten the script. It hands the
// results to each in the order of the calls.
func (s *Store) runAll(ctx context.Context, script *redis.Script, calls []call, each func(i int, r reply, err error)) {
	cmds := s.pipeline(ctx, script.EvalSha, calls)
	var forgotten []int
	var again []call
	for i, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			forgotten, again = append(forgotten, i), append(again, calls[i])
		}
	}
	for i, cmd := range s.pipeline(ctx, script.Eval, again) {
		cmds[forgotten[i]] = cmd
	}
	for i, cmd := range cmds {
		r, err := result(ctx, cmd)
		each(i, r, err)
	}
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (s *Store) pipeline(ctx context.Context, eval eval, calls []call) []*redis.Cmd {
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = eval(ctx, pipe, c.keys, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}

func result(ctx context.Context, cmd *redis.Cmd) (reply, error) {
	parts, err := cmd.StringSlice()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return reply{}, fmt.Errorf("%w: %w", checkpoint.ErrInvalid, err)
	case err != nil:
		return reply{}, interrupted(ctx, err)
	case len(parts) == 0:
		return reply{}, fmt.Errorf("%w: empty reply", checkpoint.ErrInvalid)
	}
	r := reply{parts[0], parts[1:]}
	return r, r.err()
}

// err returns the error that the verdict stands for, if it is one.
func (r reply) err() error {
	switch r.status {
	case "HELD":
		return lock.ErrHeld
	case "FENCED":
		return lock.ErrFenced
	case "CONFLICT":
		return checkpoint.ErrConflict
	case "INVALID":
		return fmt.Errorf("%w: %s", checkpoint.ErrInvalid, r.values[0])
	}
	return nil
}

// interrupted adds to err that ctx is done. A client that honours its deadline reports an i/o timeout, and may do so
// before the timer of ctx has fired.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", cause(ctx), err)
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// cause returns why ctx is done, in a way that also tells how.
func cause(ctx context.Context) error {
	why := context.Cause(ctx)
	if errors.Is(why, ctx.Err()) {
		return why
	}
	return fmt.Errorf("%w: %w", ctx.Err(), why)
}
