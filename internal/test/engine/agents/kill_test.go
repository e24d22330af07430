package agents_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnlog"
)

// soak reports whether the tests do all that they can. Otherwise they do what a change of one line can wait for.
func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }

// A process is killed before and after each call of a store, of a model and of a vendor: in a turn with a tool of each
// class and one that waits for a person, in one whose tools ask before they pay, in one that a message steers, in one
// whose history a summary shortens, and in one whose child waits for a person. Messages move to the transcript in
// between. A second process goes on. Each charge is made once, or a person is asked. The model is asked once more only
// if a reply was lost that no save had. What it is given is valid, and what was said in the end is what is said without
// a kill.
//
// The three sites share the points. With HOLDFAST_SOAK=1 each of them plays all points.
func TestKillEverywhere(t *testing.T) {
	for number, name := range []string{"postgres", "sqlite", "postgres and redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sites[name](t)
			for scene, logs := range map[string][]bool{
				"turn": {false, true}, "asked": {false}, "family": {false, true}, "steered": {false}, "summed": {false},
			} {
				for _, log := range logs {
					own := s
					own.Log = log
					title := scene
					if log {
						title += " with a log"
					}
					t.Run(title, func(t *testing.T) {
						t.Parallel()
						killEverywhere(t, own, scene, number, "")
					})
				}
			}
		})
	}
}

// hasty are the points to which a process comes or not, as the time goes: an effect rides in a save, or it is alone.
var hasty = regexp.MustCompile(`stream\.|inbox\.|Issue|Finish|Save`)

// A tally counts what the kills of a scene have led to.
type tally struct {
	mu                                  sync.Mutex // protects following fields
	kills, spared, again, doubts, reran int
}

// killEverywhere kills the processes of a scene: at each point, or at those that are for the site of this number.
func killEverywhere(t *testing.T, s site, scene string, number int, vendor string) {
	whole := &play{
		Site: s.copied(t), Scene: scene, Session: fmt.Sprint(vendor, scene, s.Log), Dir: t.TempDir(), Vendor: vendor,
	}
	points, said := whole.goesOn(t, 0, nil)
	if len(points) < 45 { // up to 40 more, if no effect rides in a save
		t.Fatalf("a process has only the points %q", points)
	}
	sum, every, apart := new(tally), 3, 1
	switch { // these are a "turn" or a "family", but for some calls
	case vendor != "":
		every, apart = 18, 3
	case s.Log, scene == "steered", scene == "summed":
		every, apart = 9, 3
	}
	t.Run("at", func(t *testing.T) {
		for i, at := range points {
			if !soak() && i%every != number*apart {
				continue
			}
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				p := &play{
					Site: s.copied(t), Scene: scene, Session: fmt.Sprint(vendor, scene, s.Log, " ", at),
					Dir: t.TempDir(), At: at, Vendor: vendor,
				}
				lost, struck := p.kill(t)
				if !struck && !hasty.MatchString(at) {
					t.Error("the process has not come to this point")
				}
				if _, got := p.goesOn(t, lost, sum); got != said {
					t.Errorf("said was %s\nwant     %s", got, said)
				}
				sum.mu.Lock()
				defer sum.mu.Unlock()
				if sum.kills++; !struck {
					sum.spared++
				}
			})
		}
	})
	if sum.spared > max(5, sum.kills/2) {
		t.Errorf("%d of %d processes have not come to their points", sum.spared, sum.kills)
	}
	t.Logf("%d points, %d kills, and %d processes had ended before", len(points), sum.kills, sum.spared)
	t.Logf("once more: %d times the model, %d times a pure tool; and %d times a person was asked", sum.again, sum.reran,
		sum.doubts)
}

// goesOn drives the session to its end in the process of the test, and judges it. It returns the points that it came
// to, and what was said.
func (p *play) goesOn(t *testing.T, lost int, sum *tally) (points []string, said string) {
	t.Helper()
	st, shut, err := p.Site.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shut)
	h := newHook("", nil)
	stop := p.tended(t)
	all, err := p.plays(t.Context(), st, h)
	stop()
	h.mu.Lock()
	points = slices.Clone(h.points)
	h.mu.Unlock()
	for _, a := range all {
		p.recover(t, a)
		p.follow(t, st, a)
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	p.judge(t, lost, sum)
	p.judgeStores(t, st, all)
	return points, p.judgeSaid(t, st, all)
}

// recover finishes what a process has left that died when its turn had settled.
func (p *play) recover(t *testing.T, a *agent.Agent[none]) {
	t.Helper()
	for r, err := range a.Bot().Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p.owns(r.Session) {
			if _, err := a.Bot().Recover(t.Context(), r.Session); err != nil {
				t.Errorf("%s is not recovered: %v", r.Session, err)
			}
		}
	}
}

// follow fails the test if a reader of a session waits for more.
func (p *play) follow(t *testing.T, st agent.Stores, a *agent.Agent[none]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for session := range p.sessions(t, st, a) {
		for _, err := range a.Bot().Follow(ctx, session, stream.Newest) {
			if err != nil {
				t.Errorf("a reader of %s gets %v", session, err)
			}
		}
	}
}

// judge checks what the model, the vendors and the person have noted.
func (p *play) judge(t *testing.T, lost int, sum *tally) {
	t.Helper()
	if wrong := p.noted("invalid"); len(wrong) > 0 {
		t.Errorf("the model was given %q", wrong)
	}
	for _, v := range p.vendors() {
		if paid := p.noted("paid-" + v); len(paid) != 1 {
			t.Errorf("%s was charged %d times: %q", v, len(paid), paid)
		}
		asked := append(p.noted("questions-"+v), p.noted("paid-"+v)...)
		if all := slices.Compact(slices.Clone(asked)); len(all) != 1 || p.Scene == "asked" && len(asked) > 3 {
			t.Errorf("%s has got the keys %q", v, asked)
		}
	}
	asked, doubts := len(p.noted("asked")), p.noted("doubts")
	if want := p.replies() + lost; asked != want {
		t.Errorf("the model was asked %d times, want %d", asked, want)
	}
	if len(doubts) > 1 {
		t.Errorf("a person was asked about %q", doubts)
	}
	if sum == nil {
		return
	}
	sum.mu.Lock()
	defer sum.mu.Unlock()
	sum.again += lost
	sum.doubts += len(doubts)
	if len(p.noted("looked")) > 1 {
		sum.reran++
	}
}

// judgeStores checks that nothing waits, and that nothing is in flight.
func (p *play) judgeStores(t *testing.T, st agent.Stores, all []*agent.Agent[none]) {
	t.Helper()
	for _, a := range all {
		for r, err := range a.Bot().Runs(t.Context()) {
			if err != nil || p.owns(r.Session) {
				t.Errorf("a run is in flight: %+v, %v", r.Key, err)
			}
		}
		for o, err := range a.Waiting(t.Context(), "") {
			if err == nil && p.owns(o.Session) {
				t.Errorf("%s waits for %+v", o.Session, o.Pending)
			}
		}
		for session := range p.sessions(t, st, a) {
			if !p.Site.Log {
				break
			}
			q := turnlog.Query{Orchestrator: a.Name(), Session: session, Open: true}
			for s, err := range st.TurnLog.(turnlog.Lister).Turns(t.Context(), q) {
				t.Errorf("the turn log is open: %+v, %v", s, err)
			}
		}
	}
	for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{Open: true}) {
		if err != nil || p.owns(e.Session) {
			t.Errorf("an effect is open: %+v, %v", e, err)
		}
	}
}
