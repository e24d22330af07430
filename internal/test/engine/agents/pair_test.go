package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Two agents work on the same sessions in one PostgreSQL. Two people answer each call, one at each agent. Turns are
// stopped by the other agent, and agents die and are replaced. One answer counts, and the other person is told. What
// was approved is charged once, and what was refused is not. What models are given is valid, and so is what was said.
func TestTwoAgents(t *testing.T) {
	p := &pair{site: onPostgres(t), charged: make(map[string]int)}
	p.site.Postgres += "0" // 40 connections
	for i := range p.slots {
		st, shut, err := p.site.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(shut)
		p.stores[i] = st
		p.slots[i] = p.spawn(t, st)
	}
	var group sync.WaitGroup
	for n := range 30 {
		group.Go(func() {
			v := &visit{pair: p, t: t, number: n, session: fmt.Sprint("s", n), rng: rand.New(rand.NewPCG(uint64(n), 1))}
			if err := v.play(t.Context()); err != nil {
				t.Errorf("%s: %v", v.session, err)
				return
			}
			v.judge(t.Context())
		})
	}
	group.Wait()
	t.Logf("%d agents died; %d turns were stopped, %d answers were first, %d late", p.deaths.Load(), p.stops.Load(),
		p.first.Load(), p.late.Load())
	if p.deaths.Load() == 0 || p.first.Load() == 0 || p.first.Load() != p.late.Load() {
		t.Error("too little has happened, or an answer has two winners")
	}
}

// A pair is two agents, and their vendor.
type pair struct {
	site                       site
	deaths, stops, first, late atomic.Int64

	mu      sync.Mutex // protects following fields
	slots   [2]*mortal
	stores  [2]agent.Stores
	charged map[string]int // by session
}

// A mortal is an agent that dies: from then on its stores refuse everything.
type mortal struct {
	agent  *agent.Agent[none]
	stores agent.Stores // as they are
	left   atomic.Int64 // how many calls it has until it dies
}

func (m *mortal) dead() bool { return m.left.Load() <= 0 }

// around makes a call of a store. The last one takes effect, and has no answer.
func (m *mortal) around(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
	left := m.left.Add(-1)
	if left < 0 {
		return errDead
	}
	if err := next(ctx); err != nil || left > 0 {
		return err
	}
	return errDead
}

// at returns the agent of a slot, a new one if it has died.
func (p *pair) at(t *testing.T, i int) *mortal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots[i].dead() {
		p.deaths.Add(1)
		p.slots[i] = p.spawn(t, p.stores[i])
	}
	return p.slots[i]
}

// mostDeaths is how many agents die. Then two live.
const mostDeaths = 16

// spawn starts an agent.
func (p *pair) spawn(t *testing.T, st agent.Stores) *mortal {
	m := &mortal{stores: st}
	m.left.Store(int64(100 + rand.IntN(300))) // all sessions together need thousands
	if p.deaths.Load() >= mostDeaths {
		m.left.Store(math.MaxInt64)
	}
	wrapped := st
	wrapped.Checkpoints = faulttest.Checkpoints(st.Checkpoints, m.around)
	wrapped.Snapshots = faulttest.Joined(st.Snapshots, st.Checkpoints, nil, m.around)
	wrapped.Ledger, wrapped.Inbox = faulttest.Ledger(st.Ledger, m.around), faulttest.Inbox(st.Inbox, m.around)
	wrapped.Transcript, wrapped.TurnLog = faulttest.Transcripts(st.Transcript, m.around), nil
	d := agent.Definition[none]{Name: boss, Model: agent.ModelFunc(func(
		_ context.Context, r agent.Request, _ func(string),
	) (agent.Reply, error) {
		if err := agent.Valid(r.Said, nil); err != nil {
			t.Error(err)
		}
		last := r.Said[len(r.Said)-1]
		if last.Role != message.RoleUser {
			return agent.Reply{Message: message.Assistant("done")}, nil
		}
		asks := message.Assistant("paying")
		for _, tool := range []string{"lookup", last.Blocks[0].Text} {
			asks.Blocks = append(asks.Blocks, call("", tool, `{"order":"A1"}`))
		}
		return agent.Reply{Message: asks}, nil
	})}
	look := func(context.Context, order) (string, error) { return long, nil }
	d.Tools = append(d.Tools, agent.Read("lookup", "", look))
	for _, class := range classes {
		d.Tools = append(d.Tools, p.pay(m, class))
	}
	var err error
	m.agent, err = agent.New(d, wrapped, &orchestrator.Options{
		Limits: orchestrator.Limits{DeadAfter: time.Second, Attempts: 50}, Logger: quiet,
	})
	if err != nil {
		t.Error(err)
		return m
	}
	t.Cleanup(func() { _ = m.agent.Bot().Shutdown(context.WithoutCancel(t.Context())) })
	return m
}

// classes are those of the three tools that pay.
var classes = []ledger.Class{ledger.Ask, ledger.Idempotent, ledger.Verifiable}

// pay returns a tool that charges the vendor for a session, once somebody agrees.
func (p *pair) pay(m *mortal, class ledger.Class) agent.Tool {
	return agent.Effect[order, string]{
		Name: "pay-" + class.String(), Class: class, Settles: settles, Approve: func(order) bool { return true },
		Run: func(ctx context.Context, _ string, _ order) (string, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			session := agent.From(ctx).Session
			switch {
			case m.dead():
				return "", errDead
			case class != ledger.Idempotent || p.charged[session] == 0:
				p.charged[session]++
			}
			return "paid", nil
		},
		Verify: func(ctx context.Context, _ string) (string, bool, error) {
			return "paid", p.charges(agent.From(ctx).Session) > 0, nil
		},
	}.Tool()
}

func (p *pair) charges(session string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charged[session]
}

// A visit is a session of a pair.
type visit struct {
	*pair
	t       *testing.T
	number  int
	session string
	rng     *rand.Rand

	call string // that has waited
	by   string // who was the first to answer it
}

// try makes a call of an agent until it is answered by something that is no accident.
func (v *visit) try(
	ctx context.Context, slot int, f func(*agent.Agent[none]) (*agent.Outcome[none], error),
) (o *agent.Outcome[none], err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil {
		m := v.at(v.t, slot)
		o, err = f(m.agent)
		var doubt *orchestrator.InDoubtError
		switch {
		case err == nil:
			return o, nil
		case errors.As(err, &doubt), errors.Is(err, orchestrator.ErrSuspended):
			if err := v.resolve(ctx, v.at(v.t, slot).stores.Ledger); err != nil {
				return nil, err
			}
		case m.dead(), errors.Is(err, orchestrator.ErrIndeterminate), errors.Is(err, orchestrator.ErrBusy):
		default:
			return nil, err
		}
	}
	return nil, fmt.Errorf("no end: %w", err)
}

// resolve is a person who looks into the book of the vendor.
func (v *visit) resolve(ctx context.Context, book ledger.Ledger) error {
	for e, err := range book.Effects(ctx, ledger.Query{Session: v.session, Open: true}) {
		switch {
		case err != nil:
			return err
		case e.Class == ledger.Verifiable:
			<-time.After(settles)
			continue
		case e.State != ledger.Unknown:
			continue
		}
		ans := ledger.Answer{Landed: v.charges(v.session) > 0, By: "desk"}
		if ans.Landed {
			ans.Result = json.RawMessage(`"paid"`)
		}
		if err := ledger.Resolve(ctx, book, e.ID, ans); err != nil && !errors.Is(err, ledger.ErrAnswered) {
			return err
		}
	}
	return nil
}

// play says something, and does what the session needs until it is completed.
func (v *visit) play(ctx context.Context) error {
	slot := v.rng.IntN(2)
	in := orchestrator.Input{RequestID: "r " + v.session, Text: "pay-" + classes[v.number%3].String()}
	undo := v.stopping(ctx, 1-slot)
	_, err := v.try(ctx, slot, func(a *agent.Agent[none]) (*agent.Outcome[none], error) {
		return a.Say(ctx, v.session, in, nil)
	})
	undo()
	for err == nil {
		slot = v.rng.IntN(2)
		s, _, getErr := v.at(v.t, slot).agent.Get(ctx, v.session)
		switch {
		case getErr != nil && !errors.Is(getErr, errDead):
			return getErr
		case getErr != nil:
		case s.Status == agent.Completed:
			return nil
		case s.Status == agent.Paused && v.call != "":
			return fmt.Errorf("an answered session waits for %+v", s.Open)
		case s.Status == agent.Paused:
			err = v.race(ctx, s.Open[0].Call.ID)
		case s.Status == agent.Active:
			_, err = v.try(ctx, slot, func(a *agent.Agent[none]) (*agent.Outcome[none], error) {
				_, err := a.Bot().Resume(ctx, v.session, nil)
				if errors.Is(err, orchestrator.ErrNothingToResume) {
					err = nil
				}
				return nil, err
			})
		default:
			_, err = v.try(ctx, slot, func(a *agent.Agent[none]) (*agent.Outcome[none], error) {
				return a.Continue(ctx, v.session, nil)
			})
		}
	}
	return err
}

// stopping stops the turn in flight from another agent, now and then, and sometimes not at all.
func (v *visit) stopping(ctx context.Context, slot int) (undo func()) {
	if v.rng.IntN(2) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			if err := v.at(v.t, slot).agent.Stop(ctx, v.session, "", "enough"); err == nil {
				v.stops.Add(1)
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	})
	return func() { cancel(); group.Wait() }
}

// race lets two people answer a call, at two agents.
func (v *visit) race(ctx context.Context, id string) error {
	v.call = id
	undo := v.stopping(ctx, v.rng.IntN(2))
	defer undo()
	errs := make([]error, 2)
	answers := []agent.Answer{agent.Approve("Ann"), agent.Refuse("Bob", "no")}
	var group sync.WaitGroup
	for i, ans := range answers {
		group.Go(func() {
			_, errs[i] = v.try(ctx, i, func(a *agent.Agent[none]) (*agent.Outcome[none], error) {
				return a.Answer(ctx, v.session, id, ans)
			})
		})
	}
	group.Wait()
	for i, err := range errs {
		switch {
		case err == nil && v.by != "":
			return errors.New("both answers count")
		case err == nil:
			v.by = answers[i].By
			v.first.Add(1)
		case errors.Is(err, agent.ErrAnswered):
			v.late.Add(1)
		default:
			return err
		}
	}
	return nil
}

// judge checks what the session has come to.
func (v *visit) judge(ctx context.Context) {
	m := v.at(v.t, 0)
	a, err := agent.New(agent.Definition[none]{Name: boss, Model: agent.ModelFunc(nil)}, m.stores, nil)
	if err != nil {
		v.t.Error(err)
		return
	}
	said := saidIn(v.t, a, v.session)
	s, _, err := a.Get(ctx, v.session)
	charges := v.charges(v.session)
	most := 0
	if v.by == "Ann" {
		most = 1
	}
	paid := false
	for _, m := range said {
		for _, b := range m.Blocks {
			if r, ok := b.Result(); ok && r.CallID == v.call {
				paid = b.Text == "paid"
			}
		}
	}
	if by, _ := s.AnsweredBy(v.call); err != nil || by != v.by || charges > most || paid != (charges == 1) {
		v.t.Errorf("%s: %q has answered, it was charged %d times, and said was %s: %v", v.session, v.by, charges,
			print(said), err)
	}
}
