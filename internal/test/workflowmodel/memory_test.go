package workflowmodel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// TestMemoryDoesAsTheModel walks through the model at random, and does with workflow.Memory what each step does. The
// answers and the rows must be those of the model.
func TestMemoryDoesAsTheModel(t *testing.T) {
	walks := 300
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		walks = 30_000
	}
	for _, w := range []Scenario{
		{name: "claimed", runs: 2, body: long, signals: 2, crash: 1, suspect: 9, lost: 2, handedBack: 9},
		{name: "started", runs: 2, front: true, body: around, signals: 2, crash: 1, suspect: 9, lost: 2, delay: 2},
		{name: "limited", runs: 2, limit: 1, body: oneStep, crash: 1, suspect: 9, lost: 2},
		{name: "held", runs: 1, body: long, signals: 1, suspect: 9, lost: 1, pauses: 9, resumes: 9, cancels: 1},
	} {
		t.Run(w.name, func(t *testing.T) {
			for seed := range uint64(walks) {
				synctest.Test(t, func(t *testing.T) {
					m := &twin{T: t, Scenario: &w}
					m.walk(rand.New(rand.NewPCG(seed, 1)))
				})
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// A twin is a store that does what the store of the model does.
type twin struct {
	*testing.T
	*Scenario
	store workflow.Memory
	lives [processes]int // of the processes
}

// tickTime is one tick of the model's clock.
const tickTime = time.Hour

func (m *twin) walk(random *rand.Rand) {
	s := m.first()
	if !m.front {
		for id := range m.runs {
			m.start(&letter{run: uint8(id)})
		}
	}
	var way []label
	var to []next
	for range 60 {
		if to = m.next(&s, to); len(to) == 0 {
			return
		}
		x := &to[random.IntN(len(to))]
		way = append(way, x.label)
		if x.bad != "" {
			m.Fatalf("the model breaks: %s", x.bad)
		}
		if m.does(x); m.Failed() {
			m.Fatal(&finding{bad: "it does not do as the model", trace: way})
		}
		s = x.state
		s.sync()
		m.compare(&s)
	}
}

// does does what a step of the model does.
func (m *twin) does(x *next) {
	switch x.label.move {
	case tick:
		time.Sleep(tickTime)
	case crash:
		m.lives[x.label.process-1]++
	case cancel, pause, resume:
		m.send(workflow.Message{Run: runID(x.label.run), Action: map[move]workflow.Action{
			cancel: workflow.Cancel, pause: workflow.Pause, resume: workflow.Resume,
		}[x.label.move]}, workflow.Applied)
	}
	switch l := &x.sent; l.kind {
	case startRun:
		if added := m.start(l); added != x.got.added {
			m.Errorf("the start adds: %v", added)
		}
	case claimDue, claimAgain, takeOver:
		m.claim(l, x)
	case sendSignal:
		m.send(workflow.Message{
			Run: runID(l.run), Action: workflow.Signal, ID: strconv.Itoa(int(l.signal)), Event: "e",
			Payload: []byte(strconv.Itoa(int(l.signal))),
		}, receipts[x.got.receipt])
	case writeEntry:
		m.write(l, x.got.verdict)
	}
}

func runID(id uint8) string { return fmt.Sprintf("run-%d", id) }

// name returns the name of a process. Of those that have died, it is that of the last to die.
func (m *twin) name(p uint8) string {
	switch p {
	case nobody:
		return ""
	case dead:
		for i, n := range m.lives {
			if n > 0 {
				return fmt.Sprintf("p%d-%d", i+1, n-1)
			}
		}
		return "nobody that has died"
	}
	return fmt.Sprintf("p%d-%d", p, m.lives[p-1])
}

func (f fence) real() lock.Fence {
	if f.nonce == 0 {
		return lock.Fence{Epoch: int64(f.epoch), Nonce: "none"}
	}
	return lock.Fence{Epoch: int64(f.epoch), Nonce: strconv.Itoa(int(f.nonce))}
}

func (m *twin) start(l *letter) (added bool) {
	n := workflow.NewRun{ID: runID(l.run), Workflow: "w", Version: 1}
	if l.process != nobody {
		n.Owner, n.Fence = m.name(l.process), fence{1, l.nonce}.real()
	}
	started, err := m.store.Start(m.Context(), []workflow.NewRun{n})
	if err != nil {
		m.Fatal(err)
	}
	return started[0].New
}

func (m *twin) claim(l *letter, x *next) {
	r := workflow.ClaimRequest{
		Process: m.name(l.process), Nonce: strconv.Itoa(int(l.nonce)), Limit: mostRuns,
		Definitions: []workflow.Definition{{Workflow: "w", Version: 1}},
	}
	if m.limit > 0 {
		r.Limits = map[string]workflow.Limit{"w": {Runs: m.limit}}
	}
	switch l.kind {
	case claimAgain:
		r.Again = strconv.Itoa(int(l.again))
	case takeOver:
		r.From, r.MostCrashes = m.name(l.again), 1000
	}
	claimed, _, err := m.store.Claim(m.Context(), r)
	if err != nil {
		m.Fatal(err)
	}
	granted := uint8(0)
	for _, c := range claimed {
		for id := range m.runs {
			if was := &x.state.runs[id]; c.ID == runID(uint8(id)) {
				if granted |= 1 << id; c.Fence != was.fence.real() || c.Mail != int64(was.mail) {
					m.Errorf("claimed with %v and %d signals, want %v and %d", c.Fence, c.Mail, was.fence, was.mail)
				}
			}
		}
	}
	if granted != x.got.granted {
		m.Errorf("claims %b, want %b", granted, x.got.granted)
	}
}

func (m *twin) send(msg workflow.Message, want workflow.Receipt) {
	receipts, err := m.store.Send(m.Context(), []workflow.Message{msg})
	if err != nil || receipts[0] != want {
		m.Errorf("%s of %q is %v (%v), want %s", msg.Action, msg.ID, receipts, err, want)
	}
}

// write writes the entry of a stay.
func (m *twin) write(l *letter, want verdict) {
	x := &l.stay
	e := workflow.Entry{Run: runID(l.run), Fence: x.fence.real(), Mail: -1}
	if x.entry.compares() {
		e.Mail = int64(x.mail)
	}
	for i := range m.body {
		if x.held&(1<<i) != 0 {
			e.Steps = append(e.Steps, m.row(i, x.view[i]))
		}
	}
	at := place(&x.view, m.body)
	known := at < len(m.body) && x.view[at].outcome == open
	switch x.entry {
	case timeOut:
		e.Steps = append(e.Steps, m.row(at, row{outcome: timedOut}))
	case keep, parkWait, parkIdle:
		if !known {
			e.Steps = append(e.Steps, m.row(at, row{outcome: open}))
		}
	case end:
		e.Next, e.Status = workflow.End, workflow.Completed
	case giveBack:
		e.Next, e.After = workflow.Park, time.Nanosecond
	case record:
		e.Next = workflow.Record
	}
	if x.entry == parkWait || x.entry == parkIdle {
		e.Next, e.After = workflow.Park, tickTime
		if known {
			e.After, e.Due = 0, m.journal(l.run)[at].Until
		}
	}
	if x.entry == parkWait {
		e.Event = "e"
	}
	verdicts, err := m.store.Write(m.Context(), []workflow.Entry{e})
	if err != nil {
		m.Fatal(err)
	}
	refusal := map[verdict]error{errMail: workflow.ErrMail, errFenced: lock.ErrFenced, errOver: workflow.ErrOver}[want]
	if !errors.Is(verdicts[0], refusal) {
		m.Errorf("the entry %v is %v, want %v", e.Next, verdicts[0], refusal)
	}
}

var (
	kinds    = map[verb]workflow.Kind{step: workflow.KindStep, wait: workflow.KindWait, sleep: workflow.KindSleep}
	receipts = map[receipt]workflow.Receipt{
		consumed: workflow.Consumed, kept: workflow.Kept, over: workflow.Over,
	}
	outcomes = map[uint8]workflow.Outcome{
		open: workflow.Open, done: workflow.Done, timedOut: workflow.TimedOut, late: workflow.Late,
	}
)

// row returns a journal row to be written.
func (m *twin) row(i int, r row) workflow.Step {
	st := workflow.Step{Name: strconv.Itoa(i), Index: i, Kind: kinds[m.body[i]], Outcome: outcomes[r.outcome]}
	if r.outcome == open {
		st.For = tickTime
	}
	if r.value != 0 {
		st.Output = []byte(strconv.Itoa(int(r.value)))
		if m.body[i] == wait {
			st.Signal = string(st.Output)
		}
	}
	return st
}

// journal returns the rows of a run by their place, and then the signals that no wait has taken.
func (m *twin) journal(run uint8) map[int]workflow.Step {
	all := make(map[int]workflow.Step)
	for st, err := range m.store.Steps(m.Context(), runID(run)) {
		if err != nil {
			m.Fatal(err)
		}
		if st.Kind == workflow.KindSignal {
			all[len(m.body)+len(all)] = st
			continue
		}
		all[st.Index] = st
	}
	return all
}

// compare compares the runs with those of the model.
func (m *twin) compare(s *state) {
	for id := range uint8(m.runs) {
		want := &s.runs[id]
		var got workflow.Run
		for r, err := range m.store.Runs(m.Context(), workflow.Query{ID: runID(id)}) {
			if got = r; err != nil {
				m.Fatal(err)
			}
		}
		status := map[uint8]workflow.Status{
			running: workflow.Running, completed: workflow.Completed, cancelled: workflow.Cancelled,
		}[want.status]
		due := never
		switch {
		case got.Due.IsZero():
		case got.Due.After(time.Now()):
			due = later
		default:
			due = now
		}
		if got.Status != status || got.Owner != m.name(want.owner) || (got.Hold == workflow.Paused) != want.paused ||
			due != want.due || (got.Event != "") != want.waits {
			m.Errorf("the run is %+v, want %+v", got, *want)
		}
		m.compareRows(id, want)
	}
}

func (m *twin) compareRows(id uint8, want *run) {
	journal := m.journal(id)
	for i := range m.body {
		w, got := want.rows[i], journal[i]
		if w.outcome == late { // what was late is of no interest
			w.value = 0
			got.Output = nil
		}
		value, _ := strconv.Atoi(string(got.Output))
		if got.Outcome != outcomes[w.outcome] || value != int(w.value) ||
			w.outcome == open && got.Until.After(time.Now()) != w.future {
			m.Errorf("row %d is %+v, want %+v", i, got, w)
		}
		delete(journal, i)
	}
	box := slices.DeleteFunc(slices.Collect(func(yield func(uint8) bool) {
		for _, signal := range want.untaken() {
			if !yield(signal) {
				return
			}
		}
	}), func(signal uint8) bool { return signal == 0 })
	if len(journal) != len(box) {
		m.Errorf("there are %v in the mailbox, want %v", journal, box)
	}
	for _, st := range journal {
		if signal, _ := strconv.Atoi(st.Signal); !slices.Contains(box, uint8(signal)) {
			m.Errorf("signal %d is in the mailbox, want %v", signal, box)
		}
	}
}
