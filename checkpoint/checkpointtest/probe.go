package checkpointtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
)

const bot = "bot"

// A probe wraps a store in verbs that leave the clause when they fail. Only the goroutine of the clause may call them.
type probe struct {
	ctx   context.Context
	store checkpoint.Store
}

var nonces atomic.Int64

func nonce() string { return fmt.Sprintf("nonce-%d", nonces.Add(1)) }

func key(session string) checkpoint.Key { return checkpoint.Key{Orchestrator: bot, Session: session} }

func request(ttl time.Duration) checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "suite", Nonce: nonce(), TTL: ttl}
}

// claim takes a free session for an hour.
func (p *probe) claim(session string) checkpoint.Claimed {
	return p.claimAs(session, request(time.Hour))
}

// wantBorn takes the session from the owner c without asking for a Born. The session keeps its own.
func (p *probe) wantBorn(session string, c *checkpoint.Claimed, born int64) {
	*c = p.claimAs(session, from(c.Fence))
	if c.Born != born {
		fail("session %q was born at %d, want %d", session, c.Born, born)
	}
}

// wantNew shows that this is the first claim of its session.
func wantNew(c checkpoint.Claimed) {
	first := checkpoint.Claimed{Lease: c.Lease, Born: c.Fence.Epoch}
	if c != first {
		fail("claimed %+v, want %+v", c, first)
	}
}

func (p *probe) claimAs(session string, r checkpoint.ClaimRequest) checkpoint.Claimed {
	c, err := p.store.Claim(p.ctx, key(session), r)
	ok(err)
	if c.Key != key(session) || c.Fence.Nonce != r.Nonce {
		fail("claim %q with nonce %q returned lease %+v", session, r.Nonce, c.Lease)
	}
	return c
}

// from requests the session that the bearer of f owns.
func from(f lock.Fence) checkpoint.ClaimRequest {
	r := request(time.Hour)
	r.From = f
	return r
}

// steal takes a session from its owner. If the session has no owner, steal claims it.
func (p *probe) steal(session string) checkpoint.Claimed {
	r := request(time.Hour)
	c, err := p.store.Claim(p.ctx, key(session), r)
	if held, is := errors.AsType[*checkpoint.HeldError](err); is {
		r.From = held.Fence
		return p.claimAs(session, r)
	}
	ok(err)
	return c
}

// wantHeld shows that Claim refuses r and names this owner.
func (p *probe) wantHeld(session string, r checkpoint.ClaimRequest, owner checkpoint.HeldError) {
	c, err := p.store.Claim(p.ctx, key(session), r)
	if err == nil {
		fail("a claim From %v is granted %v", r.From, c.Fence)
	}
	held, is := errors.AsType[*checkpoint.HeldError](err)
	if !is || !errors.Is(err, lock.ErrHeld) {
		fail("Claim returns %v, which is no *HeldError", err)
	}
	if *held != owner {
		fail("a refused claim names %+v, want %+v", *held, owner)
	}
}

// owner returns the HeldError that names the bearer of l.
func owner(l checkpoint.Lease) checkpoint.HeldError {
	return checkpoint.HeldError{Owner: "suite", Fence: l.Fence}
}

// unowned is the HeldError of a session without an owner.
var unowned checkpoint.HeldError

// bury deletes a session, also if it is owned.
func (p *probe) bury(session string) {
	ok(p.store.Delete(p.ctx, p.steal(session).Lease))
}

// tryClaim claims for an hour and returns the error.
func (p *probe) tryClaim(session string) error {
	_, err := p.store.Claim(p.ctx, key(session), request(time.Hour))
	return err
}

// expired returns a lease that has expired, and that no other process has taken. To know that, it waits until another
// lease, granted later for as long, is over.
func (p *probe) expired(session string) checkpoint.Lease {
	l := p.claimAs(session, request(time.Millisecond)).Lease
	p.claimAs("clock", request(time.Millisecond))
	for errors.Is(p.tryClaim("clock"), lock.ErrHeld) {
		if p.ctx.Err() != nil {
			fail("a lease of 1 ms never expires")
		}
	}
	p.bury("clock")
	return l
}

func turn(n int) checkpoint.Checkpoint { return run(n, fmt.Sprintf("run-%d", n)) }

func run(n int, id string) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Turn: n, RunID: id, Signature: "sig", State: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

func (p *probe) tryAppend(l checkpoint.Lease, cp checkpoint.Checkpoint) error {
	return p.store.Append(p.ctx, l, cp, checkpoint.AppendOptions{})
}

func (p *probe) append(l checkpoint.Lease, cps ...checkpoint.Checkpoint) {
	for _, cp := range cps {
		ok(p.tryAppend(l, cp))
	}
}

// settle appends turns from and below to, with o.
func (p *probe) settle(l checkpoint.Lease, from, to int, o checkpoint.AppendOptions) {
	for n := from; n < to; n++ {
		ok(p.store.Append(p.ctx, l, turn(n), o))
	}
}

// settled claims a session, settles n turns and gives it back.
func (p *probe) settled(session string, n int) {
	l := p.claim(session).Lease
	p.settle(l, 0, n, checkpoint.AppendOptions{})
	p.release(l)
}

func (p *probe) release(l checkpoint.Lease) {
	ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Release: true}))
}

func (p *probe) turns(session string, from int) []checkpoint.Checkpoint {
	var cps []checkpoint.Checkpoint
	for cp, err := range p.store.Turns(p.ctx, key(session), from) {
		ok(err)
		cps = append(cps, cp)
	}
	return cps
}

// wantTurns compares the kept turns, newest first.
func (p *probe) wantTurns(session string, want ...int) {
	got := []int{}
	for _, cp := range p.turns(session, checkpoint.Newest) {
		got = append(got, cp.Turn)
	}
	if want == nil {
		want = []int{}
	}
	if !reflect.DeepEqual(got, want) {
		fail("session %q keeps turns %v, want %v", session, got, want)
	}
}

func (p *probe) sessions(q checkpoint.SessionQuery) []string {
	q.Orchestrator = bot
	ids := []string{}
	for id, err := range p.store.Sessions(p.ctx, q) {
		ok(err)
		ids = append(ids, id)
	}
	return ids
}

func (p *probe) wantSessions(q checkpoint.SessionQuery, want ...string) {
	if want == nil {
		want = []string{}
	}
	if got := p.sessions(q); !reflect.DeepEqual(got, want) {
		fail("sessions of %+v are %q, want %q", q, got, want)
	}
}

func together(fs ...func()) { suite.Together(fs...) }

func sameCheckpoint(got, want checkpoint.Checkpoint) error {
	if got.Turn != want.Turn || got.Signature != want.Signature || got.Version != want.Version ||
		got.RunID != want.RunID || got.RequestID != want.RequestID ||
		strings.Join(got.Route, "\n") != strings.Join(want.Route, "\n") || len(got.Route) != len(want.Route) {
		return fmt.Errorf("got %+v, want %+v", got, want)
	}
	if err := sameJSON(got.State, want.State); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if len(want.Payload) == 0 && len(got.Payload) == 0 {
		return nil
	}
	if err := sameJSON(got.Payload, want.Payload); err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	return nil
}

// sameJSON compares values. Two numbers are the same if they have the same value, even if they are written differently.
func sameJSON(got, want json.RawMessage) error {
	g, err := decode(got)
	if err != nil {
		return err
	}
	w, err := decode(want)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(g, w) {
		return fmt.Errorf("got %.200s, want %.200s", got, want)
	}
	return nil
}

func decode(doc json.RawMessage) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(doc)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w in %.200q", err, doc)
	}
	return exact(v), nil
}

// exact replaces numbers by their exact value as a fraction.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(string(v))
		if !ok {
			return string(v)
		}
		return r.RatString()
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}
