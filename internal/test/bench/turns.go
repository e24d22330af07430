package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

const (
	botName   = "support"
	signature = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d75a28f65f50" // of a definition
	leaseTTL  = 30 * time.Second
)

func sessionName(i int) string { return fmt.Sprintf("session-%06d", i) }

// A rota shares out sessions among workers. Each worker uses its own sessions in turn, again and again.
type rota struct {
	names   []string
	workers int
	taken   []int // by worker
}

func newRota(sessions, workers int) *rota {
	r := &rota{make([]string, sessions), workers, make([]int, workers)}
	for i := range r.names {
		r.names[i] = sessionName(i)
	}
	return r
}

// next returns the worker's next session.
func (r *rota) next(worker int) string {
	n := r.taken[worker]
	r.taken[worker]++
	return r.names[worker+r.workers*(n%(len(r.names)/r.workers))]
}

// A player plays turns on a store.
type player struct {
	store  checkpoint.Store
	states []json.RawMessage
	keep   int
	prefix string // of its sessions
}

func (p player) claim(ctx context.Context, session string) (checkpoint.Claimed, error) {
	return p.store.Claim(ctx, checkpoint.Key{Orchestrator: botName, Session: p.prefix + session},
		checkpoint.ClaimRequest{Owner: "bench", Nonce: rand.Text(), TTL: leaseTTL})
}

func following(last *checkpoint.Checkpoint) int {
	if last == nil {
		return 0
	}
	return last.Turn + 1
}

// settle appends a turn.
func (p player) settle(ctx context.Context, l checkpoint.Lease, turn int, o checkpoint.AppendOptions) error {
	o.Keep = p.keep
	return p.store.Append(ctx, l, checkpoint.Checkpoint{
		Turn: turn, State: p.states[turn%len(p.states)], Route: []string{"refund"}, Signature: signature, Version: "1",
		RunID: rand.Text(),
	}, o)
}

// play claims a session and settles a turn, which releases the session.
func (p player) play(ctx context.Context, session string) error {
	c, err := p.claim(ctx, session)
	if err != nil {
		return err
	}
	return p.settle(ctx, c.Lease, following(c.Last), checkpoint.AppendOptions{Release: true})
}

// deliver is play with an owed reply. It marks the reply as delivered.
func (p player) deliver(ctx context.Context, session string) error {
	c, err := p.claim(ctx, session)
	if err != nil {
		return err
	}
	turn := following(c.Last)
	if err := p.settle(ctx, c.Lease, turn, checkpoint.AppendOptions{Owes: true}); err != nil {
		return err
	}
	return p.store.Mark(ctx, c.Lease, checkpoint.Marks{Delivered: turn + 1, Release: true})
}

// on makes an operation of a function on a session.
func (r *rota) on(do func(ctx context.Context, session string) error) operation {
	return func(ctx context.Context, worker int) error {
		return do(ctx, r.next(worker))
	}
}

// fill settles turns until the session has that many.
func (p player) fill(ctx context.Context, session string, turns int) error {
	c, err := p.claim(ctx, session)
	if err != nil {
		return err
	}
	for turn := following(c.Last); turn < turns; turn++ {
		if err := p.settle(ctx, c.Lease, turn, checkpoint.AppendOptions{}); err != nil {
			return err
		}
	}
	return p.store.Mark(ctx, c.Lease, checkpoint.Marks{Release: true})
}

// fillers is how many sessions are filled at once.
const fillers = 32

// fillAll fills sessions numbered from 0.
func (p player) fillAll(ctx context.Context, sessions, turns int) error {
	return inParallel(sessions, func(i int) error { return p.fill(ctx, sessionName(i), turns) })
}

// inParallel calls fill for numbers from 0, many at once.
func inParallel(sessions int, fill func(i int) error) error {
	errs := make([]error, min(fillers, sessions))
	var wg sync.WaitGroup
	for f := range errs {
		wg.Go(func() {
			for i := f; i < sessions && errs[f] == nil; i += len(errs) {
				errs[f] = fill(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
