package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A stage is where a scenario is played: one session of a bot, on the stores of one backend. The bot is a scribe: it notes
// its input once in each of two iterations.
type stage struct {
	*testing.T
	world
}

// stages plays a scenario on every backend.
func stages(t *testing.T, scenario func(*stage)) {
	t.Helper()
	backends(t, func(t *testing.T, w world) {
		t.Parallel()
		scenario(&stage{t, w})
	})
}

const iterations = 2

var scribeKey = checkpoint.Key{Orchestrator: "scribe", Session: "s"}

// A process runs the bot.
type process struct {
	*Bot
	stage  *stage
	events diary

	mu     sync.Mutex // protects following fields
	once   map[string][]rule
	always map[string]rule
	calls  map[string]int
}

// A rule is what becomes of a call to a store. send asks the store, whatever has become of the caller.
type rule func(send func() error) error

// impatient is how long those try who will not be answered.
const impatient = 500 * time.Millisecond

var errLost = errors.New("connection reset")

// The request arrives, and its reply does not; or the request does not either.
func replyLost(send func() error) error { _ = send(); return errLost }
func requestLost(func() error) error    { return errLost }

// process starts one. What body does comes before each note.
func (s *stage) process(o Options, body func(context.Context, *Turn) error) *process {
	return s.processOf(scribe(body), o)
}

func (s *stage) processOf(d Def, o Options) *process {
	p := &process{stage: s, once: make(map[string][]rule), always: make(map[string]rule), calls: make(map[string]int)}
	w := &wire{world: s.world, pass: p.pass}
	p.Bot = w.ends().start(s, d, o)
	p.Subscribe(p.events.note)
	return p
}

func scribe(body func(context.Context, *Turn) error) Def {
	note := func(ctx context.Context, t *Turn) error {
		if body != nil {
			if err := body(ctx, t); err != nil {
				return err
			}
		}
		t.State.Said = append(t.State.Said, fmt.Sprint(t.Input.Text, t.Iteration))
		return nil
	}
	return Def{
		Name: scribeKey.Orchestrator, Iterate: true, Intents: Intents{"note": {Run: note}},
		Evaluate: func(_ context.Context, t *Turn) (Next, error) {
			if t.Iteration+1 == iterations {
				return orchestrator.End, nil
			}
			return orchestrator.To("note"), nil
		},
	}
}

func (p *process) pass(ctx context.Context, r request, send func(context.Context) error) error {
	rule := p.rule(r.method)
	if rule == nil {
		return send(ctx)
	}
	return rule(func() error { return send(context.WithoutCancel(ctx)) })
}

// rule notes a call, and returns what becomes of it; nil: nothing special.
func (p *process) rule(method string) rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[method]++
	if next := p.once[method]; len(next) > 0 {
		p.once[method] = next[1:]
		return next[0]
	}
	return p.always[method]
}

// next makes rules what becomes of the next calls of a kind, one each.
func (p *process) next(method string, rules ...rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.once[method] = rules
}

// from makes r what becomes of the calls of a kind after those.
func (p *process) from(method string, r rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.always[method] = r
}

func (p *process) called(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[method]
}

// A stop is where a process stands still, until it is told to go on.
type stop struct {
	stage       *stage
	there, open chan struct{}
}

func (s *stage) stop() *stop { return &stop{s, make(chan struct{}), make(chan struct{})} }

// wait is for the process that stops.
func (s *stop) wait() {
	close(s.there)
	<-s.open
}

// reached waits until it has.
func (s *stop) reached() {
	s.stage.Helper()
	s.stage.await(s.there)
}

func (s *stop) goOn() { close(s.open) }

// stopBefore stops a process before its next call of a kind is sent.
func (p *process) stopBefore(method string) *stop {
	s := p.stage.stop()
	p.next(method, func(send func() error) error {
		s.wait()
		return send()
	})
	return s
}

// stopAt returns a body that stops the first time it comes to an iteration.
func (s *stop) stopAt(iteration int) func(context.Context, *Turn) error {
	var once sync.Once
	return func(_ context.Context, t *Turn) error {
		if t.Iteration == iteration {
			once.Do(s.wait)
		}
		return nil
	}
}

// A letter is a request that its sender gives up, and that arrives later.
type letter struct{ send func() error }

func (l *letter) delay(send func() error) error {
	l.send = send
	return errLost
}

// double delivers the letter, and keeps a copy.
func (l *letter) double(send func() error) error {
	l.send = send
	return send()
}

func (s *stage) await(c <-chan struct{}) {
	s.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		s.Fatal("it does not happen")
	}
}

// A pending is an Execute under way.
type pending struct {
	*process
	done chan struct{}
	res  *Result
	err  error
}

func (p *process) begin(in Input) *pending {
	e := &pending{process: p, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.res, e.err = p.Execute(e.stage.Context(), scribeKey.Session, in, nil)
	}()
	return e
}

// settles waits for a turn that must settle.
func (e *pending) settles() *Result {
	e.stage.Helper()
	e.stage.await(e.done)
	if e.err != nil {
		e.stage.Fatal(e.err)
	}
	return e.res
}

// fails waits for an error that is all of those, and unknown only if it has to be.
func (e *pending) fails(targets ...error) {
	e.stage.Helper()
	e.stage.await(e.done)
	wantErr(e.stage, e.err, targets...)
	unknown := slices.Contains(targets, orchestrator.ErrIndeterminate)
	failed := strings.Contains(e.events.kinds(), string(orchestrator.TurnFailed))
	if errors.Is(e.err, orchestrator.ErrIndeterminate) != unknown || failed && unknown {
		e.stage.Errorf("got %v, after %s", e.err, e.events.kinds())
	}
}

func (p *process) execute(in Input) *Result {
	p.stage.Helper()
	return p.begin(in).settles()
}

// takeOver ends the lease of whoever has the session, as time would.
func (s *stage) takeOver() {
	s.Helper()
	c, err := seize(s.Context(), s.checkpoints, scribeKey, "time", time.Minute)
	if err == nil {
		err = s.checkpoints.Mark(s.Context(), c.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// crash leaves the run of an input in flight, with its first iteration saved, and nobody to go on with it.
func (s *stage) crash(in Input) {
	s.Helper()
	var crashed *process
	dead := func(func() error) error { return lock.ErrFenced } // no answer is as final, so that the process ends at once
	crashed = s.process(Options{}, func(_ context.Context, t *Turn) error {
		if t.Iteration == 0 {
			return nil
		}
		for _, method := range []string{"Append", "Mark", "Save", "Delete"} {
			crashed.from(method, dead)
		}
		return errDead
	})
	crashed.begin(in).fails(orchestrator.ErrIndeterminate)
	s.takeOver()
}

// aside settles a turn in a process that has no snapshot store, as one of an older deploy may: the snapshot store does not see its
// fence.
func (s *stage) aside(in Input) {
	s.Helper()
	bot, err := orchestrator.New(scribe(nil), s.checkpoints, &Options{Logger: quiet()})
	if err == nil {
		_, err = bot.Execute(s.Context(), scribeKey.Session, in, nil)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// recovers checks what a drain makes of the session.
func (p *process) recovers(want string) {
	p.stage.Helper()
	outcome, err := p.Recover(p.stage.Context(), scribeKey.Session)
	if outcome != want || err != nil {
		p.stage.Errorf("recovered: %q, %v; want %q", outcome, err, want)
	}
}

// ends checks that the session has the turns of these inputs and no others, each applied once to the state that the one
// before it left, and that nothing is left to do.
func (s *stage) ends(inputs ...string) {
	s.Helper()
	idle := s.process(Options{}, func(_ context.Context, t *Turn) error {
		s.Errorf("%q is still to be run", t.Input.Text)
		return nil
	})
	idle.recovers("cleaned")
	wantRuns(s, idle.Bot, 0)
	var kept []*Result
	for res, err := range idle.Turns(s.Context(), scribeKey.Session) {
		if err != nil {
			s.Fatal(err)
		}
		kept = append(kept, res)
	}
	slices.Reverse(kept)
	var got, said []string
	for i, res := range kept {
		got = append(got, res.Input.Text)
		for n := range iterations {
			said = append(said, fmt.Sprint(res.Input.Text, n))
		}
		wantSaid(s, res.State, said...)
		if res.Turn != i {
			s.Errorf("turn %d is numbered %d", i, res.Turn)
		}
	}
	if !slices.Equal(got, inputs) {
		s.Errorf("turns %q, want %q", got, inputs)
	}
}
