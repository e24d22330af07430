package redisstore

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// An attempt is a command that the client sends once. The client alone would repeat a command and return only the last
// error. After a lost answer, a refusal of the repeat says nothing about the first copy.
type attempt struct {
	*redis.Cmd
	// lost says that a copy may have been sent, and got no answer.
	lost bool
}

// NoRetry keeps the client from repeating the command. The client still follows redirections of a cluster.
func (*attempt) NoRetry() bool { return true }

// SetErr remembers a lost answer. Each client that the command goes through calls SetErr.
func (a *attempt) SetErr(err error) {
	a.lost = a.lost || err != nil && !answered(err) && !unsent(err)
	a.Cmd.SetErr(err)
}

// answered reports whether err is the answer of a server.
func answered(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// unsent reports whether the command could not be sent because there was no connection.
func unsent(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// again reports whether to repeat a command that failed with err. It is true if the command got no answer, or an answer
// that may be different in a moment.
func again(err error) bool {
	switch {
	case err == nil:
		return false
	case answered(err):
		return passing[code(err)]
	case unsent(err):
		return true
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// send sends script, repeats it if necessary, and returns the last copy of the command with its answer. doubt says that
// one of the copies got no answer.
func (r *Runner) send(ctx context.Context, script *Lua, c Call) (cmd *redis.Cmd, doubt bool) {
	p := patienceOf(r.Client)
	name, text := "evalsha", script.Hash()
	for n := 0; ; {
		a := &attempt{Cmd: command(ctx, name, text, c)}
		err := r.Client.Process(ctx, a)
		// After gone, the script may have had an effect before.
		doubt = doubt || a.lost || answered(err) && code(err) == gone
		switch {
		case name == "evalsha" && redis.HasErrorPrefix(err, "NOSCRIPT"):
			name, text = "eval", script.text
		case n == p.retries || !again(err) || !p.pause(ctx, n):
			return a.Cmd, doubt
		default:
			n++
		}
	}
}

func command(ctx context.Context, name, text string, c Call) *redis.Cmd {
	args := make([]any, 0, 3+len(c.Keys)+len(c.Args))
	args = append(args, name, text, len(c.Keys))
	for _, key := range c.Keys {
		args = append(args, key)
	}
	cmd := redis.NewCmd(ctx, append(args, c.Args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// A patience says how often a client repeats a command, and how long it waits before each repeat.
type patience struct {
	retries     int
	least, most time.Duration
}

// patienceOf returns the patience that the options of the client ask for.
func patienceOf(c redis.UniversalClient) patience {
	switch c := c.(type) {
	case *redis.Client:
		o := c.Options()
		return patience{o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff}
	case *redis.ClusterClient:
		o := c.Options()
		return patience{o.MaxRedirects, o.MinRetryBackoff, o.MaxRetryBackoff}
	case *redis.Ring:
		o := c.Options()
		return patience{o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff}
	}
	return patience{3, 8 * time.Millisecond, 512 * time.Millisecond} // the defaults of go-redis
}

// pause waits before the next copy, longer each time. If ctx ends, pause returns false.
func (p patience) pause(ctx context.Context, n int) bool {
	if p.least <= 0 {
		return ctx.Err() == nil
	}
	d := min(p.most, p.least<<min(n, 16))
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
