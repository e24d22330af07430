package redistest

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Answering returns a client without a server, which answers every command with reply. A store may repeat a command
// until it gets another answer. So after many commands the client answers with an error.
//
// The lines of reply are the values of an array. A line that begins with # is a number, a line ~ is nil. If reply
// begins with -, the answer is the rest as an error.
func Answering(reply string) *redis.Client {
	const patience = 50
	c := redis.NewClient(&redis.Options{Addr: "192.0.2.1:1", MaxRetries: -1}) // not a name, which New would look up
	c.AddHook(&answer{reply: reply, left: patience})
	return c
}

type answer struct {
	reply string
	left  int
}

// A said is an error of a server.
type said string

func (s said) Error() string { return string(s) }

func (said) RedisError() {}

func (a *answer) give(cmd redis.Cmder) error {
	a.left--
	script, ok := cmd.(interface{ SetVal(any) })
	refusal, refused := strings.CutPrefix(a.reply, "-")
	switch {
	case a.left < 0:
		cmd.SetErr(errors.New("enough"))
	case refused:
		cmd.SetErr(said(refusal))
	case ok:
		script.SetVal(values(a.reply))
	default:
		cmd.SetErr(said("ERR unknown command"))
	}
	return cmd.Err()
}

func values(reply string) (all []any) {
	for line := range strings.SplitSeq(reply, "\n") {
		number, isNumber := strings.CutPrefix(line, "#")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case isNumber && err == nil:
			all = append(all, n)
		case line == "~":
			all = append(all, nil)
		default:
			all = append(all, line)
		}
	}
	return all
}

func (a *answer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return a.give(cmd) }
}

func (a *answer) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		var first error
		for _, cmd := range cmds {
			if err := a.give(cmd); first == nil {
				first = err
			}
		}
		return first
	}
}
