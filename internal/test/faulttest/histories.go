package faulttest

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	workers     = 5
	callsOfEach = 9
)

// CheckpointHistories records n histories of five workers on a store. If no order of the calls explains the replies,
// the test fails and prints the seed and the calls of the first such history.
func CheckpointHistories(t *testing.T, newStore func(*testing.T) checkpoint.Store, n int) {
	t.Helper()
	seed := rand.Uint64()
	illegal, ops, err := checkHistories(t.Context(), newStore(t), n, seed, func(history []porcupine.Operation) {
		if !t.Failed() {
			t.Errorf("illegal history of seed %d:\n%s", seed, listing(spec, history))
		}
	})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if illegal > 0 {
		t.Fatalf("%d of %d histories are illegal, seed %d", illegal, n, seed)
	}
	t.Logf("%d histories of %d calls are legal", n, ops)
}

// IllegalHistories records n histories on s. It returns how many of them are illegal, and how many calls they have. The
// seed fixes the workers' choices, not the order in which their calls meet. An error says that the histories prove
// nothing.
func IllegalHistories(ctx context.Context, s checkpoint.Store, n int, seed uint64) (illegal, ops int, err error) {
	return checkHistories(ctx, s, n, seed, func([]porcupine.Operation) {})
}

func checkHistories(
	ctx context.Context, s checkpoint.Store, n int, seed uint64, report func([]porcupine.Operation),
) (illegal, ops int, err error) {
	settled := false
	for i := range n {
		history, err := recordHistory(ctx, s, seed+uint64(i))
		if err != nil {
			return illegal, ops, err
		}
		ops += len(history)
		settled = settled || slices.ContainsFunc(history, func(op porcupine.Operation) bool {
			out := op.Output.(reply)
			return op.Input.(call).op == "append" && out.err == nil && !out.unknown
		})
		if porcupine.CheckOperationsTimeout(spec, history, time.Minute) == porcupine.Illegal {
			illegal++
			report(history)
		}
	}
	if !settled {
		return illegal, ops, errors.New("no turn was settled")
	}
	return illegal, ops, nil
}

// recordHistory lets five workers act at random, on one or two sessions of their own.
func recordHistory(ctx context.Context, s checkpoint.Store, seed uint64) ([]porcupine.Operation, error) {
	h := &history{store: s, sessions: 1 + int(seed%2), orchestrator: "history " + crand.Text()}
	start := make(chan struct{})
	var wg sync.WaitGroup
	for id := range workers {
		w := &worker{history: h, id: id, rng: rand.New(rand.NewPCG(seed, uint64(id)))}
		wg.Go(func() {
			<-start
			for range callsOfEach {
				w.act(ctx)
			}
		})
	}
	close(start)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return h.ops, h.err
}

// A history is the calls of the workers. Its clock is a counter: if one call returned before another began, the counter
// shows it.
type history struct {
	store        checkpoint.Store
	orchestrator string
	sessions     int
	clock        atomic.Int64

	mu  sync.Mutex // protects following fields
	ops []porcupine.Operation
	// err is a verdict that is forbidden for its call.
	err error
}

func (h *history) record(client int, in call, do func() (reply, error)) reply {
	began := h.clock.Add(1)
	out, err := do()
	ended := h.clock.Add(1)
	out.err = verdict(err)
	if out.unknown = err != nil && !slices.Contains(verdicts, out.err); out.unknown {
		ended = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: ended})
	switch out.err {
	case checkpoint.ErrInvalid, checkpoint.ErrNotFound, checkpoint.ErrSchema:
		h.err = fmt.Errorf("%s: %w", describe(in, out), err)
	}
	return out
}

// A worker uses the lease that it got last, and sometimes an older one.
type worker struct {
	*history
	id     int
	rng    *rand.Rand
	serial int
	held   []*tenure
	// asked is a claim whose reply was lost.
	asked *call
	// seen is a claim that was refused. Its From is the owner.
	seen *call
}

// A tenure is a lease and the turn that its bearer would settle next.
type tenure struct {
	claim call // the claim that was granted
	fence lock.Fence
	next  int
	last  *call // its last Append
}

func (w *worker) act(ctx context.Context) {
	for range w.rng.IntN(4) {
		runtime.Gosched()
	}
	t := w.tenure()
	dice := w.rng.IntN(100)
	switch {
	case w.asked != nil && dice < 50:
		w.claim(ctx, *w.asked)
	case t == nil || dice < 25:
		w.claim(ctx, w.newClaim())
	case dice < 30:
		w.claim(ctx, t.claim)
	case dice < 75:
		w.append(ctx, t, w.newAppend(t))
	case dice < 82 && t.last != nil:
		w.append(ctx, t, *t.last)
	case dice < 93:
		w.release(ctx, t)
	case dice < 97:
		w.renew(ctx, t)
	default:
		w.remove(ctx, t)
	}
}

func (w *worker) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *worker) name(what string) string {
	w.serial++
	return fmt.Sprintf("%s%d.%d", what, w.id, w.serial)
}

func (w *worker) tenure() *tenure {
	if len(w.held) == 0 {
		return nil
	}
	if w.chance(15) {
		return w.held[w.rng.IntN(len(w.held))]
	}
	return w.held[len(w.held)-1]
}

func (w *worker) newClaim() call {
	c := call{
		op: "claim", nonce: w.name("n"), long: w.chance(50),
		key: checkpoint.Key{Orchestrator: w.orchestrator, Session: fmt.Sprint("s", w.rng.IntN(w.sessions))},
	}
	t := w.tenure()
	if t != nil && t.last != nil && w.chance(50) {
		c.request = t.last.run
	}
	switch {
	case w.seen != nil && w.chance(60):
		c.key, c.from = w.seen.key, w.seen.from
	case t != nil && w.chance(10):
		c.key, c.from = t.claim.key, t.fence
	}
	return c
}

func (w *worker) newAppend(t *tenure) call {
	c := call{op: "append", key: t.claim.key, fence: t.fence, turn: t.next, run: w.name("r"), release: w.chance(15)}
	c.keep = []int{1, 3, checkpoint.KeepAll, checkpoint.KeepAll}[w.rng.IntN(4)]
	if w.chance(10) {
		c.turn = max(0, c.turn+1-2*w.rng.IntN(2))
	}
	return c
}

func (w *worker) claim(ctx context.Context, in call) {
	r := checkpoint.ClaimRequest{
		Owner: fmt.Sprint("worker ", w.id), Nonce: in.nonce, TTL: long, RequestID: in.request, From: in.from,
	}
	if !in.long {
		r.TTL = [...]time.Duration{time.Microsecond, short}[w.rng.IntN(2)]
	}
	ctx, cancel := w.impatient(ctx)
	defer cancel()
	out := w.record(w.id, in, func() (reply, error) {
		c, err := w.store.Claim(ctx, in.key, r)
		if held, ok := errors.AsType[*checkpoint.HeldError](err); ok {
			return reply{fence: held.Fence}, err
		}
		out := reply{fence: c.Fence, born: c.Born, turn: -1, answered: c.Answered != nil}
		if c.Last != nil {
			out.turn, out.last = c.Last.Turn, c.Last.RunID
		}
		return out, err
	})
	w.asked, w.seen = nil, nil
	if out.unknown {
		w.asked = &in
	}
	if out.err == lock.ErrHeld && out.fence != (lock.Fence{}) {
		in.from = out.fence
		w.seen = &in
	}
	if out.err == nil {
		w.held = append(w.held, &tenure{claim: in, fence: out.fence, next: out.turn + 1})
	}
}

// impatient returns a context that sometimes ends before the reply. Then the call may have happened, or may happen
// later.
func (w *worker) impatient(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.chance(5) {
		return context.WithTimeout(ctx, time.Duration(w.rng.IntN(1000))*time.Microsecond)
	}
	return ctx, func() {}
}

func (w *worker) append(ctx context.Context, t *tenure, in call) {
	ctx, cancel := w.impatient(ctx)
	defer cancel()
	cp := checkpoint.Checkpoint{Turn: in.turn, RunID: in.run, RequestID: in.run, State: json.RawMessage(`{"n":1}`)}
	out := w.record(w.id, in, func() (reply, error) {
		return reply{}, w.store.Append(ctx, checkpoint.Lease{Key: in.key, Fence: in.fence}, cp,
			checkpoint.AppendOptions{Keep: in.keep, Release: in.release})
	})
	t.last = &in
	if out.err == nil {
		t.next = in.turn + 1
	}
}

func (w *worker) release(ctx context.Context, t *tenure) {
	in := call{op: "release", key: t.claim.key, fence: t.fence}
	w.record(w.id, in, func() (reply, error) {
		return reply{}, w.store.Mark(ctx, checkpoint.Lease{Key: in.key, Fence: in.fence},
			checkpoint.Marks{Release: true})
	})
}

func (w *worker) renew(ctx context.Context, t *tenure) {
	in := call{op: "renew", key: t.claim.key, fence: t.fence, long: true}
	w.record(w.id, in, func() (reply, error) {
		lost, err := w.store.Renew(ctx, long, []checkpoint.Lease{{Key: in.key, Fence: in.fence}})
		return reply{lost: len(lost) > 0}, err
	})
}

func (w *worker) remove(ctx context.Context, t *tenure) {
	in := call{op: "delete", key: t.claim.key, fence: t.fence}
	w.record(w.id, in, func() (reply, error) {
		return reply{}, w.store.Delete(ctx, checkpoint.Lease{Key: in.key, Fence: in.fence})
	})
}
