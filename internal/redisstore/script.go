package redisstore

import (
	"context"
	"embed"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var sources embed.FS

// Script joins files of lua/ in from, and puts before them what every script may use.
func Script(from embed.FS, names ...string) *redis.Script {
	src := read(sources, "clock")
	for _, name := range names {
		src = append(src, read(from, name)...)
	}
	return redis.NewScript(string(src))
}

func read(from embed.FS, name string) []byte {
	src, err := from.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return src
}

// A Runner runs the scripts of a store. Each may run twice: a client repeats what it gets no answer to, and the first
// copy may arrive after the second.
type Runner struct {
	Client   redis.UniversalClient
	Verdicts map[string]error // what verdicts stand for; those that are missing are no errors

	known atomic.Bool // the servers do not evict, or do not say
}

// A Fault is what a script has found that no script wrote: its verdict is INVALID, or a key has the wrong type.
type Fault struct {
	What string
	Told []string // what the script could read all the same
}

func (f *Fault) Error() string { return f.What }

// A Reply is the verdict of a script, and whatever comes with it.
type Reply struct {
	Status string
	Values []string
}

// A Call is what one run of a script gets.
type Call struct {
	Keys []string
	Args []any
}

// Run runs script once.
func (r *Runner) Run(ctx context.Context, script *redis.Script, keys []string, args ...any) (Reply, error) {
	if err := r.fit(ctx); err != nil {
		return Reply{}, err
	}
	return r.result(ctx, script.Run(ctx, r.Client, keys, args...))
}

// RunAll runs script for every call, in one round trip, or two where Redis has forgotten the script. It hands the
// results to each in the order of the calls.
func (r *Runner) RunAll(ctx context.Context, script *redis.Script, calls []Call, each func(i int, reply Reply, err error)) {
	if err := r.fit(ctx); err != nil {
		for i := range calls {
			each(i, Reply{}, err)
		}
		return
	}
	cmds := r.pipeline(ctx, script.EvalSha, calls)
	var forgotten []int
	var again []Call
	for i, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			forgotten, again = append(forgotten, i), append(again, calls[i])
		}
	}
	for i, cmd := range r.pipeline(ctx, script.Eval, again) {
		cmds[forgotten[i]] = cmd
	}
	for i, cmd := range cmds {
		reply, err := r.result(ctx, cmd)
		each(i, reply, err)
	}
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (r *Runner) pipeline(ctx context.Context, eval eval, calls []Call) []*redis.Cmd {
	pipe := r.Client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = eval(ctx, pipe, c.Keys, c.Args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}

func (r *Runner) result(ctx context.Context, cmd *redis.Cmd) (Reply, error) {
	parts, err := cmd.StringSlice()
	switch {
	case err != nil && strings.Contains(err.Error(), "WRONGTYPE "): // Redis before 7 puts the script's name in front
		return Reply{}, &Fault{What: err.Error()}
	case err != nil:
		return Reply{}, interrupted(ctx, err)
	case len(parts) == 0:
		return Reply{}, &Fault{What: "empty reply"}
	case parts[0] == "INVALID":
		return Reply{}, &Fault{What: parts[1], Told: parts[2:]}
	}
	return Reply{parts[0], parts[1:]}, r.Verdicts[parts[0]]
}
