package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnlog"
)

const (
	oddName        = "odd"
	mostIterations = 6
	inputsOfLives  = 2 // the processes of the last input may die
	mostTries      = 40

	// A run that waits is due after longestPause, and so is a delivery.
	longestPause = 15 * time.Minute
)

// A kill says where a process dies: at which step, and whether the write of that step still takes effect. The zero
// value kills no process.
type kill struct {
	step  int
	after bool
}

// Lives are a session, the processes that serve it one after the other, and what outlives them.
type lives struct {
	*plan
	world
	ledger ledger.Ledger
	log    *turnlog.Memory
	stream stream.Store
	notes  *notes

	t       *testing.T
	bots    []*orchestrator.Orchestrator[odd]
	steps   int      // that the first process for the last input passed
	failed  []string // what callers heard of turns that failed
	history []string // of each process: what it was asked, and its end
}

func newLives(t *testing.T, p *plan) *lives {
	return &lives{
		plan: p, world: newWorld(), ledger: new(ledger.Memory), log: new(turnlog.Memory), stream: new(stream.Memory),
		notes: newNotes(), t: t,
	}
}

// A mortal is a process that dies at a step. A step is a write of a store, or a point in a function of the bot. A dead
// process writes nothing.
type mortal struct {
	*lives
	kill   kill
	bot    *orchestrator.Orchestrator[odd]
	firsts firsts

	mu     sync.Mutex // protects following fields
	passed int
	dead   bool
	diedAt string
}

// survives counts a step, and reports whether the process lives after it.
func (p *mortal) survives(step string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed++
	if p.passed == p.kill.step && !p.dead {
		p.dead, p.diedAt = true, step
	}
	return !p.dead
}

func (p *mortal) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// writes are the methods of stores that are steps.
var writes = []string{
	"Append", "Mark", "Begin", "Save", "Delete", "Adopt", "Issue", "Finish", "Record", "AdoptEffects", "RecordPhase",
}

// write is the Around of the stores. Fences end a dead process at once: no answer is as final.
func (p *mortal) write(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
	wasDead := p.isDead()
	alive := p.survives(strings.TrimSpace("write " + c.Method + " " + string(c.Status) + c.Phase))
	if wasDead || !alive && !p.kill.after {
		return lock.ErrFenced
	}
	err := next(ctx)
	if err == nil {
		p.notes.written(c)
	}
	if !alive {
		return lock.ErrFenced
	}
	return err
}

// spawn starts a process.
func (l *lives) spawn(k kill) *mortal {
	p := &mortal{lives: l, kill: k}
	around := faulttest.On(p.write, writes...)
	o := p.options(around)
	var err error
	p.bot, err = orchestrator.New(p.definition(), faulttest.Checkpoints(l.Checkpoints, around), &o)
	if err != nil {
		l.t.Fatalf("seed %d: %v", l.seed, err)
	}
	l.bots = append(l.bots, p.bot)
	return p
}

func (p *mortal) options(around faulttest.Around) Options {
	o := Options{
		Logger: quiet(), KeepSnapshots: p.keep, RequireDelivered: p.required,
		Limits: orchestrator.Limits{FanOut: 3, Iterations: mostIterations, Attempts: 50},
		History: func(context.Context, string) ([]message.Message, error) {
			return []message.Message{message.User("hello")}, nil
		},
	}
	if p.withSnapshots {
		o.Snapshots = faulttest.Snapshots(p.Snapshots, around)
	}
	if p.withLedger || p.chance(40, "changes ledgers") && p.chance(50, "has a ledger", len(p.bots)) {
		o.Ledger = faulttest.Ledger(p.ledger, around)
	}
	if p.withLog {
		o.TurnLog = faulttest.TurnLog(p.log, around)
	}
	if p.withStream {
		o.Stream = p.stream
	}
	if p.compacts {
		o.Compaction = orchestrator.Compaction{After: 1, Keep: 1, Run: p.compact}
	}
	return o
}

func (p *mortal) compact(context.Context, orchestrator.Range) (used orchestrator.Usage, err error) {
	if !p.survives("compact") {
		return used, errDead
	}
	return used, nil
}

// serve sends the inputs, each until its turn has settled or failed. The first processes for the last one die.
func (l *lives) serve(kills []kill) {
	for i := range inputsOfLives - 1 {
		l.send(i, nil)
	}
	l.send(inputsOfLives-1, kills)
}

// send sends an input to one process after the other, until its turn has settled or failed.
func (l *lives) send(number int, kills []kill) {
	in := Input{Text: fmt.Sprint("input ", number), RequestID: fmt.Sprint("r", number)}
	if l.chance(20, "data", number) {
		in.Data = json.RawMessage(`{"a": [1, 2]}`)
	}
	for try := range mostTries {
		var k kill
		if len(kills) > 0 {
			k, kills = kills[0], kills[1:]
		}
		p := l.spawn(k)
		err := p.serves(in, l.pick(3, "way", k.step, try, len(kills)))
		synctest.Wait()
		if try == 0 {
			l.steps = p.passed
		}
		if l.ended(p, in, err) {
			return
		}
		time.Sleep(time.Second) // entries of the turn log are a millisecond apart, and may be ahead of the clock
	}
	l.notes.fault("%s does not end", in.Text)
}

// errAgain says that a process has recovered the session, and that the input comes again.
var errAgain = errors.New("recovered")

// serves serves an input in one of three ways. If a run is in flight, a Resume or a Recover may finish it. After a
// Recover, a failed turn would begin anew, so a bot that may fail is not recovered.
func (p *mortal) serves(in Input, way int) (err error) {
	ctx, inFlight := p.t.Context(), p.inFlight()
	switch {
	case way == 1 && inFlight:
		p.note(in.Text + ": Resume")
		_, err = p.bot.Resume(ctx, "s", nil)
	case way == 2 && inFlight && !p.mayFail():
		p.note(in.Text + ": Recover")
		outcome, cause := p.bot.Recover(ctx, "s")
		err = fmt.Errorf("%w: %s, %v", errAgain, outcome, cause)
		if !p.isDead() {
			time.Sleep(longestPause)
		}
	default:
		p.note(in.Text + ": Execute")
		_, err = p.bot.Execute(ctx, "s", in, nil)
	}
	return err
}

func (l *lives) note(what string) { l.history = append(l.history, what) }

// inFlight reports whether the last run has not ended.
func (p *mortal) inFlight() (is bool) {
	for r, err := range p.bot.Runs(p.t.Context()) {
		is = err == nil && r.Status != snapshot.Ended
	}
	return is
}

// ended buries a dead process, or closes a live one, and reports whether the turn of its input has settled or failed.
func (l *lives) ended(p *mortal, in Input, err error) bool {
	if p.isDead() {
		l.note(fmt.Sprintf("  died at step %d: %s", p.kill.step, p.diedAt))
		l.notes.buried()
		l.FreeUp(l.t, oddName)
		return false
	}
	_ = p.bot.Shutdown(l.t.Context())
	l.note(fmt.Sprint("  error: ", err))
	switch {
	case err == nil:
		return true
	case errors.Is(err, orchestrator.ErrSuspended),
		errors.Is(err, errAgain) && strings.Contains(err.Error(), "suspended"):
		l.answer()
		return false
	case errors.Is(err, errAgain), errors.Is(err, orchestrator.ErrIndeterminate), errors.Is(err, orchestrator.ErrOwed),
		errors.Is(err, orchestrator.ErrNothingToResume):
		return false
	}
	l.failed = append(l.failed, fmt.Sprintf("%s failed: %v", in.Text, err))
	return true
}

// answer says truthfully of each effect in doubt whether it happened.
func (l *lives) answer() {
	ctx := l.t.Context()
	for e, err := range l.ledger.Effects(ctx, ledger.Query{Open: true}) {
		if err != nil {
			l.t.Fatal(err)
		}
		if e.Class != ledger.Ask {
			continue
		}
		value, landed := l.notes.landedAt(e.ID)
		a := ledger.Answer{By: "me", Landed: landed}
		if landed {
			a.Result, _ = json.Marshal(value)
		}
		if err := ledger.Resolve(ctx, l.ledger, e.ID, a); err != nil {
			l.notes.fault("resolve %s: %v", e.ID, err)
		}
	}
}
