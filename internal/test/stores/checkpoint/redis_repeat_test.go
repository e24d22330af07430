package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/lock"
)

// A story is the life of one session, and every verdict on the way.
type story struct {
	ctx   context.Context
	store checkpoint.Store
	// claiming tells the hooks that a free session is being claimed: a repeat of that claim may take effect again.
	claiming atomic.Bool
	verdicts []string
}

func tell(ctx context.Context, s checkpoint.Store, lives int) []string {
	return (&story{ctx: ctx, store: s}).tell(lives)
}

func (y *story) tell(lives int) []string {
	owes := checkpoint.AppendOptions{Keep: 2, Owes: true}
	for life := range lives {
		first := y.claim(fmt.Sprint("first", life))
		y.append(first, 9, owes)
		y.append(first, 0, owes)
		y.append(first, 0, owes)
		y.mark(first, checkpoint.Marks{Retry: time.Hour})
		y.mark(first, checkpoint.Marks{Retry: 2 * time.Hour})
		y.claim(fmt.Sprint("first", life))
		y.mark(first, checkpoint.Marks{Delivered: 1})
		y.mark(first, checkpoint.Marks{Retry: time.Hour})
		y.append(first, 1, owes)
		y.mark(first, checkpoint.Marks{Retry: time.Hour})
		y.append(first, 2, checkpoint.AppendOptions{Keep: 1})
		y.mark(first, checkpoint.Marks{Delivered: 3, Summarized: 1})
		y.renew(first)
		y.append(first, 3, checkpoint.AppendOptions{Keep: 2, Owes: true, Release: true})
		y.append(first, 4, owes)
		y.renew(first)
		second := y.claim(fmt.Sprint("second", life))
		y.mark(first, release)
		y.mark(second, checkpoint.Marks{Delivered: 9, Release: true})
		y.mark(second, checkpoint.Marks{Delivered: 9, Release: true})
		y.take(fmt.Sprint("late", life), second)
		third := y.claim(fmt.Sprint("third", life))
		y.append(third, 4, owes)
		y.mark(third, checkpoint.Marks{Retry: time.Hour})
		y.take(fmt.Sprint("late", life), second)
		y.claim(fmt.Sprint("waits", life))
		fourth := y.take(fmt.Sprint("fourth", life), third)
		y.mark(third, checkpoint.Marks{Retry: time.Hour})
		y.mark(fourth, checkpoint.Marks{Retry: time.Hour})
		y.take(fmt.Sprint("fourth", life), third)
		y.append(third, 5, owes)
		y.mark(fourth, checkpoint.Marks{Delivered: 4})
		y.delete(third)
		y.delete(fourth)
		y.delete(fourth)
		y.take(fmt.Sprint("gone", life), fourth)
		y.append(fourth, 5, owes)
		y.append(fourth, 0, owes)
	}
	return y.verdicts
}

// claim claims the session if it is free.
func (y *story) claim(nonce string) checkpoint.Lease {
	y.claiming.Store(true)
	defer y.claiming.Store(false)
	return y.ask(nonce, lock.Fence{})
}

// take claims the session from the owner of a lease.
func (y *story) take(nonce string, from checkpoint.Lease) checkpoint.Lease {
	return y.ask(nonce, from.Fence)
}

func (y *story) ask(nonce string, from lock.Fence) checkpoint.Lease {
	r := request()
	r.Nonce, r.From, r.RequestID = nonce, from, "request-1"
	c, err := y.store.Claim(y.ctx, key("a"), r)
	newest, answered := -1, -1
	if c.Last != nil {
		newest = c.Last.Turn
	}
	if c.Answered != nil {
		answered = c.Answered.Turn
	}
	y.note(fmt.Sprintf("claim: %d settled, %d answered, %d summarized, %d delivered, %d failed",
		newest, answered, c.Summarized, c.Delivered, c.Failed), err)
	return c.Lease
}

func (y *story) delete(l checkpoint.Lease) { y.note("delete", y.store.Delete(y.ctx, l)) }

func (y *story) append(l checkpoint.Lease, n int, o checkpoint.AppendOptions) {
	y.note(fmt.Sprintf("append %d", n), y.store.Append(y.ctx, l, turn(n), o))
}

func (y *story) mark(l checkpoint.Lease, m checkpoint.Marks) {
	y.note(fmt.Sprintf("mark %+v", m), y.store.Mark(y.ctx, l, m))
}

func (y *story) renew(l checkpoint.Lease) {
	lost, err := y.store.Renew(y.ctx, time.Hour, []checkpoint.Lease{l})
	y.note(fmt.Sprintf("renew: %d lost", len(lost)), err)
}

// note adds a verdict, and the data that readers see after it.
func (y *story) note(what string, err error) {
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok {
		err = fmt.Errorf("held by %q, %q", held.Owner, held.Fence.Nonce)
	}
	for _, target := range []error{lock.ErrFenced, checkpoint.ErrConflict, checkpoint.ErrInvalid} {
		if errors.Is(err, target) {
			err = target
		}
	}
	var seen []string
	for _, q := range []checkpoint.SessionQuery{{}, {Owing: true}, {Owing: true, Due: true}} {
		q.Orchestrator = "bot"
		for id, err := range y.store.Sessions(y.ctx, q) {
			seen = append(seen, fmt.Sprint(q.Owing, q.Due, id, err))
		}
	}
	for cp, err := range y.store.Turns(y.ctx, key("a"), checkpoint.Newest) {
		seen = append(seen, fmt.Sprint(cp.Turn, err))
	}
	y.verdicts = append(y.verdicts, fmt.Sprint(what, ": ", err, " ", seen))
}

// on returns the story of a store on Redis.
func on(t *testing.T, lives int) redistest.Story {
	return func(client *redis.Client, prefix string) []string {
		return tell(t.Context(), redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix}), lives)
	}
}

// If any answer is lost after its request took effect, the client repeats the request, and the caller sees no
// difference.
func TestLostReply(t *testing.T) {
	t.Parallel()
	redistest.LoseReplies(t, tell(t.Context(), new(checkpoint.Memory), 1), on(t, 1))
}

// A copy of a request that arrives long after changes nothing, also in the next life of the session.
func TestLateCopy(t *testing.T) {
	t.Parallel()
	const lives = 2
	redistest.CopyLate(t, tell(t.Context(), new(checkpoint.Memory), lives), func(e *redistest.Echo) redistest.Story {
		return func(client *redis.Client, prefix string) []string {
			s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
			y := &story{ctx: t.Context(), store: s}
			e.Spare = &y.claiming
			return y.tell(lives)
		}
	})
}

// The failed attempts of one owner are numbered by its clock. The numbers of the next owner may be lower.
func TestRedisRetryBehindClock(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{})
	ahead := claim(t, s, "a").Lease
	settle(t, s, ahead, owes, 0)
	mark(t, s, ahead, checkpoint.Marks{Retry: time.Hour})
	tried := time.Now().AddDate(1, 0, 0).UnixMicro()
	check(t, s.client.HSet(t.Context(), s.at("a"), "tried", tried).Err())
	mark(t, s, claim(t, s, "a").Lease, checkpoint.Marks{Retry: time.Hour})
	if c := claim(t, s, "a"); c.Failed != 2 {
		t.Errorf("%d attempts have failed, want 2", c.Failed)
	}
}

func TestRedisScriptFlush(t *testing.T) {
	t.Parallel()
	redistest.ForgetScripts(t, tell(t.Context(), new(checkpoint.Memory), 2), on(t, 2))
}
