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
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A stage is the place of a scenario: one session of a bot, on the stores of one backend. The bot is a scribe: it notes
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

// A rule decides the fate of a call to a store. send asks the store, also after the caller has gone.
type rule func(send func() error) error

// impatient is how long processes try that get no answer.
const impatient = 3 * time.Second

// The request arrives, and its reply does not. Or the request does not arrive either.
func replyLost(send func() error) error { _ = send(); return errLost }
func requestLost(func() error) error    { return errLost }

// process starts a process. body runs before each note.
func (s *stage) process(o Options, body func(context.Context, *Turn) error) *process {
	return s.processOf(scribe(body), o)
}

func (s *stage) processOf(d Def, o Options) *process {
	p := &process{stage: s, once: make(map[string][]rule), always: make(map[string]rule), calls: make(map[string]int)}
	w := &wire{world: s.world, pass: p.pass}
	p.Bot = w.ends().Start(s, d, o)
	p.Subscribe(p.events.Note)
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

func (p *process) pass(ctx context.Context, r faulttest.Call, send func(context.Context) error) error {
	rule := p.rule(r.Method)
	if rule == nil {
		return send(ctx)
	}
	return rule(func() error { return send(context.WithoutCancel(ctx)) })
}

// rule notes a call and returns its rule, or nil.
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

// next sets the rules of the next calls of a kind, one each.
func (p *process) next(method string, rules ...rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.once[method] = rules
}

// from sets the rule r of the later calls of a kind.
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

// A stop is a place where a process waits until it is told to go on.
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

// reached waits until the process has stopped.
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

// stopAt returns a body that stops when it first comes to an iteration.
func (s *stop) stopAt(iteration int) func(context.Context, *Turn) error {
	var once sync.Once
	return func(_ context.Context, t *Turn) error {
		if t.Iteration == iteration {
			once.Do(s.wait)
		}
		return nil
	}
}

// A letter is a request that arrives after its sender has given up.
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

// fails waits for an error that is all of these. The error is "unknown" only if it has to be.
func (e *pending) fails(targets ...error) {
	e.stage.Helper()
	e.stage.await(e.done)
	wantErr(e.stage, e.err, targets...)
	unknown := slices.Contains(targets, orchestrator.ErrIndeterminate)
	failed := strings.Contains(e.events.Kinds(), string(orchestrator.TurnFailed))
	if errors.Is(e.err, orchestrator.ErrIndeterminate) != unknown || failed && unknown {
		e.stage.Errorf("got %v, after %s", e.err, e.events.Kinds())
	}
}

func (p *process) execute(in Input) *Result {
	p.stage.Helper()
	return p.begin(in).settles()
}

// takeOver ends the lease of the session's owner, as time would.
func (s *stage) takeOver() {
	s.Helper()
	c, err := seize(s.Context(), s.Checkpoints, scribeKey, "time", time.Minute)
	if err == nil {
		err = s.Checkpoints.Mark(s.Context(), c.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// crash leaves the run of an input in flight, with its first iteration saved, and without an owner.
func (s *stage) crash(in Input) {
	s.Helper()
	var crashed *process
	// No answer is as final, so the process ends at once.
	dead := func(func() error) error { return lock.ErrFenced }
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

// aside settles a turn in a process without a snapshot store, as one of an older deploy may have none. The snapshot
// store does not see the fence of that process.
func (s *stage) aside(in Input) {
	s.Helper()
	bot, err := orchestrator.New(scribe(nil), s.Checkpoints, &Options{Logger: quiet()})
	if err == nil {
		_, err = bot.Execute(s.Context(), scribeKey.Session, in, nil)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// recovers checks the outcome of a drain of the session.
func (p *process) recovers(want string) {
	p.stage.Helper()
	outcome, err := p.Recover(p.stage.Context(), scribeKey.Session)
	if outcome != want || err != nil {
		p.stage.Errorf("recovered: %q, %v; want %q", outcome, err, want)
	}
}

// ends checks that the session has the turns of these inputs and no others. Each was applied once to the state of its
// predecessor, and there is no unfinished work.
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
