package faulttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// An action is one call, as rapid draws it. Sessions are indexes. Leases, runs and the like are counted back from the
// latest. Therefore every sequence of actions is a history. If an action names a thing that does not exist yet, it
// makes no call.
type action interface {
	do(ctx context.Context, m *machine) error
}

type claim struct {
	Session int
	// Again chooses the nonce: 0 means a new one, n that of the nth latest lease.
	Again int
	// From chooses the owner to take over from: 0 means none, n the bearer of the nth latest lease.
	From    int
	Short   bool
	Request string
	// Born, with From, asks for an earlier Born.
	Born bool
}

func (a claim) do(ctx context.Context, m *machine) error {
	id := m.ids[a.Session]
	r := checkpoint.ClaimRequest{Nonce: m.fresh("nonce"), TTL: long, RequestID: a.Request}
	if l, ok := m.lease(id, a.From-1); ok {
		r.From = l.Fence
		if a.Born {
			r.Born = l.Fence.Epoch - 1
		}
	}
	if l, ok := m.lease(id, a.Again-1); ok {
		r.Nonce = l.Fence.Nonce
	}
	r.Owner = r.Nonce
	state := live
	if old := m.model.lives[id]; a.Short &&
		!(old.ownedBy(lock.Fence{Epoch: m.model.epochs[id], Nonce: r.Nonce}) && old.lease == live) {
		r.TTL, state = short, fading
	}
	allowed := m.model.mayClaim(id, r.Nonce, r.From)
	got, err := m.store.Claim(ctx, m.key(id), r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok && allowed != granted {
		if !m.model.names(id, *held) {
			return fmt.Errorf("claim by %s: refused in favour of %+v, lease is %+v", r.Nonce, *held, m.model.lives[id])
		}
		return nil
	}
	if err != nil || allowed == refused {
		return fmt.Errorf("claim by %s: got error %v and fence %v, lease is %+v", r.Nonce, err, got.Fence,
			m.model.lives[id])
	}
	if err := m.model.claim(id, r.Nonce, got.Fence, state); err != nil {
		return err
	}
	m.model.bear(id, r.Born)
	others := slices.DeleteFunc(m.leases[id], func(l checkpoint.Lease) bool { return l == got.Lease })
	m.leases[id] = append(others, got.Lease)
	return sameClaim(got, m.key(id), a.Request, m.model.lives[id])
}

// expire waits until all short leases are over.
type expire struct{}

func (expire) do(ctx context.Context, m *machine) error { return m.pass(ctx, short) }

type settle struct {
	Session, Lease int
	// Ahead is the turn's distance from the next turn.
	Ahead int
	// Run is 0 for a new run, or n for the nth latest run.
	Run int
	// Value is an index of values.
	Value   int
	Request string
	Opts    checkpoint.AppendOptions
}

func (a settle) do(ctx context.Context, m *machine) error {
	id := m.ids[a.Session]
	l, ok := m.lease(id, a.Lease)
	if !ok {
		return nil
	}
	turn := a.Ahead
	if s := m.model.lives[id]; s != nil {
		turn += len(s.turns)
	}
	if turn < 0 {
		return nil
	}
	run := m.fresh("run")
	if s, ok := nthLast(m.settles[id], a.Run-1); ok {
		run = s.turn.RunID
	}
	s := settlement{l, checkpoint.Checkpoint{
		Turn: turn, RunID: run, RequestID: a.Request, State: json.RawMessage(values[a.Value]),
		Payload: json.RawMessage(values[(a.Value+turn)%len(values)]), Route: []string{"refund", `a"b,{}`}[:turn%3],
		Signature: "signature", Version: "v1",
	}, a.Opts}
	if turn%2 == 0 {
		s.turn.Payload = nil
	}
	m.settles[id] = append(m.settles[id], s)
	return m.settle(ctx, s)
}

// settle appends on both, and compares the results.
func (m *machine) settle(ctx context.Context, s settlement) error {
	id := s.lease.Session
	want := m.model.settle(id, s.lease.Fence, copied(s.turn), s.opts)
	cp := copied(s.turn)
	cp.SavedAt = bogusTime
	err := m.store.Append(ctx, s.lease, cp, s.opts)
	scribble(&cp)
	if err := wantVerdict(err, want); err != nil {
		return fmt.Errorf("append turn %d, run %s, by %v: %w", cp.Turn, cp.RunID, s.lease.Fence, err)
	}
	return m.compareTurns(ctx, id, checkpoint.Newest, -1)
}

func copied(cp checkpoint.Checkpoint) checkpoint.Checkpoint {
	cp.State, cp.Payload, cp.Route = slices.Clone(cp.State), slices.Clone(cp.Payload), slices.Clone(cp.Route)
	return cp
}

// repeat repeats an Append, as after a lost reply.
type repeat struct{ Session, Settle int }

func (a repeat) do(ctx context.Context, m *machine) error {
	if s, ok := nthLast(m.settles[m.ids[a.Session]], a.Settle); ok {
		return m.settle(ctx, s)
	}
	return nil
}

type mark struct {
	Session, Lease int
	Marks          checkpoint.Marks
}

func (a mark) do(ctx context.Context, m *machine) error {
	id := m.ids[a.Session]
	l, ok := m.lease(id, a.Lease)
	if !ok {
		return nil
	}
	want := m.model.mark(id, l.Fence, a.Marks)
	if err := wantVerdict(m.store.Mark(ctx, l, a.Marks), want); err != nil {
		return err
	}
	return m.compareList(ctx, checkpoint.SessionQuery{Owing: true, Due: true})
}

// renew renews up to two leases of each session. It never shortens a live lease: the contract does not promise that a
// shorter lease works.
type renew struct {
	// Leases is a set of bits for each session: the latest lease, and the one before.
	Leases [sessions]int
	Short  bool
}

func (a renew) do(ctx context.Context, m *machine) error {
	var leases []checkpoint.Lease
	ttl, state := long, live
	if a.Short {
		ttl, state = short, fading
	}
	for i, id := range m.ids {
		for n := range 2 {
			if l, ok := m.lease(id, n); ok && a.Leases[i]>>n&1 == 1 {
				leases = append(leases, l)
			}
		}
		if s := m.model.lives[id]; s != nil && s.lease == live {
			ttl, state = long, live
		}
	}
	want := map[checkpoint.Lease]bool{}
	for _, l := range leases {
		if m.model.renew(l.Session, l.Fence, state) {
			want[l] = true
		}
	}
	lost, err := m.store.Renew(ctx, ttl, leases)
	if err != nil {
		return err
	}
	got := map[checkpoint.Lease]bool{}
	for _, l := range lost {
		got[l] = true
	}
	if len(lost) != len(want) || !maps.Equal(got, want) {
		return fmt.Errorf("lost %v, want %v", lost, want)
	}
	return nil
}

type remove struct{ Session, Lease int }

func (a remove) do(ctx context.Context, m *machine) error {
	id := m.ids[a.Session]
	l, ok := m.lease(id, a.Lease)
	if !ok {
		return nil
	}
	want := m.model.remove(id, l.Fence)
	return wantVerdict(m.store.Delete(ctx, l), want)
}

type turns struct{ Session, From, Count int }

func (a turns) do(ctx context.Context, m *machine) error {
	return m.compareTurns(ctx, m.ids[a.Session], a.From, a.Count)
}

type load struct{ Session, Turn int }

func (a load) do(ctx context.Context, m *machine) error {
	id := m.ids[a.Session]
	got, err := checkpoint.Load(ctx, m.store, m.key(id), a.Turn)
	want := m.model.from(id, a.Turn)
	if len(want) == 0 || a.Turn != checkpoint.Newest && want[0].Turn != a.Turn {
		return wantVerdict(err, checkpoint.ErrNotFound)
	}
	if err != nil {
		return err
	}
	return sameTurn(&got, want[0])
}

type list struct{ Query checkpoint.SessionQuery }

func (a list) do(ctx context.Context, m *machine) error { return m.compareList(ctx, a.Query) }

// sweep retires one idle session, in any order, and then all others.
type sweep struct{}

func (sweep) do(ctx context.Context, m *machine) error {
	s, ok := m.store.(checkpoint.Sweeper)
	if !ok {
		return fmt.Errorf("%T cannot sweep", m.store)
	}
	if err := m.pass(ctx, short+m.ttl); err != nil {
		return err
	}
	idle := m.model.sweep(m.settledStay)
	one, err := s.Sweep(ctx, 1)
	if err != nil || one > 1 {
		return fmt.Errorf("retired %d, limit 1: %w", one, err)
	}
	if rest, err := s.Sweep(ctx, 0); err != nil || one+rest < idle {
		return fmt.Errorf("retired %d and %d, want %d: %w", one, rest, idle, err)
	}
	return m.compareAll(ctx)
}

// refuse makes a call with an argument that every backend refuses.
type refuse struct{ Session, Call int }

func (a refuse) do(ctx context.Context, m *machine) error {
	k := m.key(m.ids[a.Session])
	l := checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: 1, Nonce: "n"}}
	ok := checkpoint.Checkpoint{State: json.RawMessage(`1`), RunID: "r"}
	var err error
	switch a.Call {
	case 0:
		_, err = m.store.Claim(ctx, k, checkpoint.ClaimRequest{Nonce: "n", TTL: time.Nanosecond})
	case 1:
		_, err = m.store.Claim(ctx, k, checkpoint.ClaimRequest{TTL: long})
	case 2:
		err = m.store.Append(ctx, l, ok, checkpoint.AppendOptions{Keep: -1})
	case 3:
		err = m.store.Append(ctx, l, checkpoint.Checkpoint{Turn: -1, State: ok.State, RunID: "r"},
			checkpoint.AppendOptions{})
	case 4:
		err = m.store.Append(ctx, l, checkpoint.Checkpoint{State: json.RawMessage(`{"a":`), RunID: "r"},
			checkpoint.AppendOptions{})
	case 5:
		err = m.store.Mark(ctx, l, checkpoint.Marks{Delivered: -1})
	case 6:
		_, err = m.store.Renew(ctx, 0, nil)
	case 7:
		l.Session = "a\x00"
		err = m.store.Delete(ctx, l)
	case 8:
		_, err = checkpoint.Load(ctx, m.store, checkpoint.Key{Orchestrator: k.Orchestrator}, 0)
	case 9:
		_, err = m.store.Claim(ctx, k, checkpoint.ClaimRequest{Nonce: "n", TTL: long, From: lock.Fence{Epoch: 1}})
	case 10:
		err = m.store.Mark(ctx, l, checkpoint.Marks{Retry: -1})
	case 11:
		for _, err = range m.store.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: k.Orchestrator, Due: true}) {
		}
	case 12:
		for _, err = range m.store.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: k.Orchestrator, Limit: -1}) {
		}
	}
	return wantVerdict(err, checkpoint.ErrInvalid)
}
