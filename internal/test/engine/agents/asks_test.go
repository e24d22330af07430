package agents_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
)

// The parts of the scene "three". A process of the boss says, and gives both answers. The processes of the clerk and of
// the payer have their names as parts: they finish what others have left in their sessions.
const (
	asks     = "asks"
	shoots   = "shoots"
	approves = "approves"
)

// A grandchild asks the client and a person, through a child. Both calls are shown at the root, and answered there. A
// process of the parent, of the child or of the grandchild is killed before and after each call. Then processes of all
// three go on at once. Each answer counts once, the vendor is charged once, what was used is counted once in the
// session of the parent, and nothing is in flight in the end.
//
// With HOLDFAST_SOAK=1 the test plays all points, otherwise some.
func TestChildAsks(t *testing.T) {
	f := &three{site: onPostgres(t), sum: new(tally)}
	_, f.said = f.story(t, "whole").goesOn(t, 0, nil)
	p := f.story(t, "parts")
	t.Run("at", func(t *testing.T) {
		for _, part := range []string{asks, shoots, approves} {
			for _, at := range p.part(part, "").points(t) {
				f.try(t, part+" "+at, p.part(part, at))
			}
		}
		// A run of each of the three is in flight when the process of the parent dies here.
		for _, first := range []*play{p.part(asks, "after model 3"), p.part(approves, "after pay approved 1")} {
			for _, child := range []string{clerk, payer} {
				name := fmt.Sprintf("%s by %s", first.Part, child)
				left := f.story(t, name)
				left.dies(t, first)
				for _, at := range left.part(child, "").points(t) {
					f.try(t, name+" "+at, first, p.part(child, at))
				}
			}
		}
	})
	t.Logf("%d points, %d kills, and %d processes had ended before", f.points, f.sum.kills, f.sum.spared)
	t.Logf("once more: %d times the model; and %d times a person was asked", f.sum.again, f.sum.doubts)
	if f.points < 200 || f.sum.kills < f.points/7 {
		t.Error("too little has happened")
	}
}

// A three is a family of three agents.
type three struct {
	site   site
	said   string // in a session without a death
	sum    *tally
	points int
}

// story begins a session.
func (f *three) story(t *testing.T, name string) *play {
	t.Helper()
	return &play{Site: f.site, Scene: "three", Session: name, Dir: t.TempDir()}
}

// try plays a session whose processes die one after another.
func (f *three) try(t *testing.T, name string, deaths ...*play) {
	if f.points++; !soak() && f.points%6 != 0 {
		return
	}
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		p, lost, struck := f.story(t, name), 0, false
		for _, d := range deaths {
			var n int
			n, struck = p.dies(t, d)
			lost += n
		}
		if _, got := p.goesOn(t, lost, f.sum); got != f.said {
			t.Errorf("said was %s\nwant     %s", got, f.said)
		}
		f.sum.mu.Lock()
		defer f.sum.mu.Unlock()
		if f.sum.kills++; !struck {
			f.sum.spared++
		}
	})
}

// part returns what a process of the session does.
func (p *play) part(part, at string) *play {
	one := *p
	one.Part, one.At = part, at
	return &one
}

// dies lets the processes of the boss live that come before, and kills a process at the point that d names.
func (p *play) dies(t *testing.T, d *play) (lost int, struck bool) {
	t.Helper()
	for _, part := range []string{asks, shoots, approves} {
		if !slices.Contains([]string{shoots, approves}, d.Part) || part == d.Part {
			break
		}
		p.part(part, "").points(t)
	}
	return p.part(d.Part, d.At).kill(t)
}

// points plays a part to its end, in the process of the test, and returns the points that it came to.
func (p *play) points(t *testing.T) []string {
	t.Helper()
	st, shut, err := p.Site.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	h := newHook("", nil)
	all, err := p.plays(t.Context(), st, h)
	for _, a := range all {
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", p.Part, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.points
}

// tended lets processes of the clerk and of the payer finish what is left of their sessions, until stop is called.
func (p *play) tended(t *testing.T) (stop func()) {
	if p.Scene != "three" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range 2 {
		st, shut, err := p.Site.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h := newHook("", nil)
		all, err := p.agents(h.stores(st, false), h)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer shut()
			for ctx.Err() == nil {
				if _, err := p.tends(t.Context(), all[1+i]); err != nil {
					t.Error(err)
				}
				<-time.After(20 * time.Millisecond)
			}
			for _, a := range all {
				_ = a.Bot().Shutdown(context.WithoutCancel(t.Context()))
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

// tends finishes what is left of the sessions of an agent. It returns how many runs are held by another process.
func (p *play) tends(ctx context.Context, a *agent.Agent[none]) (held int, err error) {
	var left []string // a process that lists them does not die
	for r, err := range a.Bot().Runs(ctx) {
		if err != nil {
			return 0, err
		}
		if p.owns(r.Session) {
			left = append(left, r.Session)
		}
	}
	for _, session := range left {
		if how, err := a.Bot().Recover(ctx, session); err != nil || how == "held" {
			held++
		}
	}
	return held, nil
}

// finishes is the process of a child. It takes over what an owner has left that counts as dead.
func (p *play) finishes(ctx context.Context, a *agent.Agent[none]) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if held, err := p.tends(ctx, a); err != nil || held == 0 {
			return err
		}
		<-time.After(p.deadAfter() / 2)
	}
}
