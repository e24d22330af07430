package chaostest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Stores are the data that outlives a process.
type Stores struct {
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
}

// A simulation is a history under way. One goroutine, the scheduler, makes its steps.
type simulation struct {
	Stores
	name  string // of the bot
	plan  plan
	rng   *rand.Rand
	time  clock
	tally Tally

	mu      sync.Mutex // protects following fields, and process.dead
	pending []*message // whose senders wait
	ended   []*call    // not noticed yet
	working int        // goroutines of calls
	step    int        // only the scheduler makes one

	started   int // processes
	processes []*process
	rooms     []*room
	calls     []*call
	late      []*message // late copies of requests
	lines     []line
	names     names
	wrong     []Wrong
}

// A Tally counts the events of histories.
type Tally struct{ Histories, Calls, Steps, Settled, Lost, Late, Killed, Taken int }

func (t *Tally) add(u Tally) {
	t.Histories += u.Histories
	t.Calls += u.Calls
	t.Steps += u.Steps
	t.Settled += u.Settled
	t.Lost += u.Lost
	t.Late += u.Late
	t.Killed += u.Killed
	t.Taken += u.Taken
}

// String returns the counts in one line.
func (t Tally) String() string {
	return fmt.Sprintf("%d histories, %d calls, %d steps, %d turns settled; "+
		"%d messages lost, %d copies late, %d processes killed, %d leases taken away",
		t.Histories, t.Calls, t.Steps, t.Settled, t.Lost, t.Late, t.Killed, t.Taken)
}

// patience is how long a store has for an answer.
const patience = 10 * time.Second

func newWorld(s Stores, seed uint64, c clock, name string) *simulation {
	w := &simulation{Stores: s, name: name, time: c, names: make(names), rng: rand.New(rand.NewPCG(seed, 0))}
	w.plan = newPlan(w.rng)
	for i := range w.plan.sessions {
		w.rooms = append(w.rooms, newRoom(fmt.Sprintf("s%d", i)))
	}
	for range w.plan.processes {
		w.processes = append(w.processes, w.start(false))
	}
	return w
}

// longest is the number of steps after which a history has no more faults.
const longest = 3000

// play makes steps until all calls have ended.
func (w *simulation) play() {
	for len(w.calls) < w.plan.calls || len(w.active()) > 0 {
		if w.step == longest {
			w.plan = w.plan.calm()
		}
		w.next()
		w.act()
	}
}

// next waits until every process waits for the scheduler, and notes which calls have ended.
func (w *simulation) next() {
	w.time.settle()
	w.mu.Lock()
	w.step++
	ended := w.ended
	w.ended = nil
	slices.SortStableFunc(w.pending, byName)
	w.mu.Unlock()
	slices.SortFunc(ended, func(a, b *call) int { return a.n - b.n })
	for _, c := range ended {
		w.notice(c)
	}
}

// act lets one event happen.
func (w *simulation) act() {
	p := &w.plan
	ready := w.waiting(func(m *message) bool { return m.from.stopped <= w.step })
	dice := w.rng.IntN(1000)
	hit := func(permille int) bool {
		dice -= permille
		return dice < 0
	}
	switch save := w.branchSave(); {
	case save != nil:
		w.hand(save, w.send(save))
	case hit(p.kill):
		w.kill(w.anyProcess())
	case hit(p.stop):
		w.stop(w.anyProcess())
	case hit(p.shutdown):
		w.shutdown(w.anyProcess())
	case hit(p.takeover):
		w.takeAway(w.anyRoom())
	case hit(p.leave):
		w.leave()
	case hit(min(p.late*len(w.late), 150)):
		w.arrive()
	case hit(p.tick):
		w.pass([]int{1, 1, 3, 8, 24, 70}[w.rng.IntN(6)])
	case len(w.calls) < p.calls && len(w.active()) < p.atOnce && (len(ready) == 0 || hit(150)):
		w.call()
	case len(ready) > 0:
		w.serve(ready[w.rng.IntN(len(ready))])
	default:
		w.idle()
	}
}

// idle makes a step in which no message can be served. A stopped process goes on, or time passes.
func (w *simulation) idle() {
	if held := w.waiting(func(*message) bool { return true }); len(held) > 0 && w.chance(200) {
		held[0].from.stopped = 0
	}
	w.pass([]int{1, 1, 1, 1, 3}[w.rng.IntN(5)])
}

// branchSave returns the Save of a finished branch while another branch of the fan-out is running. The engine holds a
// mutex until that Save is answered. The other branch may need the mutex, and synctest does not count a goroutine that
// waits for a mutex as blocked. So the answer comes at once, and without a fault.
func (w *simulation) branchSave() *message {
	for _, branch := range w.waiting(func(m *message) bool { return m.branch }) {
		for _, save := range w.waiting(func(m *message) bool { return m.call == branch.call && m.op == "Save" }) {
			return save
		}
	}
	return nil
}

func (w *simulation) pass(quanta int) {
	w.note("%v pass", time.Duration(quanta)*w.time.quantum)
	w.time.pass(quanta)
}

func (w *simulation) chance(permille int) bool { return w.rng.IntN(1000) < permille }

func (w *simulation) anyProcess() *process { return w.processes[w.rng.IntN(len(w.processes))] }

func (w *simulation) anyRoom() *room { return w.rooms[w.rng.IntN(len(w.rooms))] }

// waiting returns the unanswered messages that match.
func (w *simulation) waiting(match func(*message) bool) (some []*message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.pending {
		if match(m) {
			some = append(some, m)
		}
	}
	return some
}

// active returns the calls that have not ended.
func (w *simulation) active() (some []*call) {
	for _, c := range w.calls {
		if c.over == 0 {
			some = append(some, c)
		}
	}
	return some
}

func (w *simulation) room(session string) *room {
	for _, r := range w.rooms {
		if r.session == session {
			return r
		}
	}
	panic("no such session: " + session)
}

func (w *simulation) key(session string) checkpoint.Key {
	return checkpoint.Key{Orchestrator: w.name, Session: session}
}

func (w *simulation) errorf(law, format string, args ...any) {
	w.wrong = append(w.wrong, Wrong{law, w.names.text(format, args)})
}
