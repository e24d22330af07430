package redisstore

import (
	"context"
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var sources embed.FS

// A Lua is a script for Redis.
type Lua struct {
	*redis.Script
	text string
}

// Script joins the files of lua/ in from, or in this package. It puts the functions before them that all scripts use.
func Script(from embed.FS, names ...string) *Lua {
	src := read(sources, "clock")
	for _, name := range names {
		src = append(src, read(from, name)...)
	}
	return &Lua{redis.NewScript(string(src)), string(src)}
}

func read(from embed.FS, name string) []byte {
	src, err := from.ReadFile("lua/" + name + ".lua")
	if err != nil {
		src, err = sources.ReadFile("lua/" + name + ".lua")
	}
	if err != nil {
		panic(err)
	}
	return src
}

// A Runner runs the scripts of a store. Each script may run twice: the Runner repeats a request that gets no answer,
// and the first copy may arrive after the second.
type Runner struct {
	Client redis.UniversalClient
	// Prefix begins every key.
	Prefix string
	// Verdicts maps verdicts to errors. A verdict without an entry is no error.
	Verdicts map[string]error

	// looked is when it was last known that the servers do not evict keys, or do not say, by clock; 0 if it is not.
	looked atomic.Int64

	// now replaces clock in tests.
	now func() int64
}

// A Fault is data that no script of the store has written: the verdict is INVALID, or a key has the wrong type.
type Fault struct {
	What string
	// Told is the data that the script could still read.
	Told []string
}

// Error returns What.
func (f *Fault) Error() string { return f.What }

// A Reply is the verdict of a script, and the data that comes with it.
type Reply struct {
	Status string
	Values []string
}

// Value returns the value at i. If the reply has fewer values, Value returns "". Only a server that is not Redis sends
// such a reply.
func (r Reply) Value(i int) string {
	if i < len(r.Values) {
		return r.Values[i]
	}
	return ""
}

// Numbers reads the first values.
func (r Reply) Numbers(into []int64) (err error) {
	for i := range into {
		if into[i], err = strconv.ParseInt(r.Value(i), 10, 64); err != nil {
			return fmt.Errorf("head: %w", err)
		}
	}
	return nil
}

// A Call is the arguments of one run of a script.
type Call struct {
	Keys []string
	Args []any
}

// Run runs script. If Redis does not answer, Run repeats it, as often as the options of the client say.
func (r *Runner) Run(ctx context.Context, script *Lua, keys []string, args ...any) (Reply, error) {
	if err := r.fit(ctx); err != nil {
		return Reply{}, err
	}
	cmd, doubt := r.send(ctx, script, Call{keys, args})
	return r.result(ctx, cmd, doubt)
}

// ask runs script for every call, in one round trip. If Redis has forgotten the script, ask needs two. The client may
// repeat the request by itself. Therefore the error of a refusal does not say that an earlier copy had no effect.
func (r *Runner) ask(ctx context.Context, script *Lua, calls []Call) []answer {
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
	answers := make([]answer, len(calls))
	for i, cmd := range cmds {
		err := cmd.Err()
		doubt := unsent(err) // the last time; the client may have sent it before
		if answered(err) && code(err) == gone {
			cmd, doubt = r.send(ctx, script, calls[i])
		}
		answers[i].reply, answers[i].err = r.result(ctx, cmd, doubt)
	}
	return answers
}

type eval func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (r *Runner) pipeline(ctx context.Context, eval eval, calls []Call) []*redis.Cmd {
	pipe := r.Client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = eval(ctx, pipe, c.Keys, c.Args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	return cmds
}

// result reads the answer of a script. doubt says that an earlier copy of the request was sent and not answered.
func (r *Runner) result(ctx context.Context, cmd *redis.Cmd, doubt bool) (Reply, error) {
	parts, err := cmd.StringSlice()
	switch {
	// Redis before 7 puts the script's name in front.
	case err != nil && strings.Contains(err.Error(), "WRONGTYPE "):
		return Reply{}, &Fault{What: err.Error()}
	case err != nil:
		return Reply{}, interrupted(ctx, refusal(err, doubt))
	case len(parts) == 0:
		return Reply{}, &Fault{What: "empty reply"}
	case parts[0] == "INVALID":
		told := Reply{Values: parts[1:]}
		return Reply{}, &Fault{What: told.Value(0), Told: told.Values[min(1, len(told.Values)):]}
	}
	return Reply{parts[0], parts[1:]}, r.Verdicts[parts[0]]
}
