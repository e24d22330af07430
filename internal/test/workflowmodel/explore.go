package workflowmodel

import (
	"fmt"
	"slices"
	"strings"
)

// A finding is what exploring a scenario has found.
type finding struct {
	states int
	whole  bool // all states were visited
	bad    string
	trace  []label
}

func (f *finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, after", f.bad)
	for i, l := range f.trace {
		fmt.Fprintf(&b, "\n%3d %v", i+1, l)
	}
	return b.String()
}

// first returns the state before anything has happened.
func (w *Scenario) first() (s state) {
	if !w.front {
		for i := range w.runs {
			if w.family && i == 1 { // its parent has not started it yet
				break
			}
			s.runs[i] = run{status: running, due: now}
			s.seen[i].start = 2
		}
	}
	s.sync()
	return s
}

// A search is what explore knows of the states that it has seen. A state has the number in which it was found.
type search struct {
	*Scenario
	numbers map[state]int32
	links   []link
	resting []int32
	edges   [][2]int32 // those that are progress
	to      []next
}

// A link says how a state was reached first.
type link struct {
	from  int32
	label label
}

// trace returns the way to a state, and one step more.
func (q *search) trace(i int32, last ...label) (t []label) {
	for ; i > 0; i = q.links[i].from {
		t = append(t, q.links[i].label)
	}
	slices.Reverse(t)
	return append(t, last...)
}

// explore visits all states, up to a limit, breadth first: what it finds, it finds on a shortest way.
func (w *Scenario) explore(limit int) finding {
	s := w.first()
	w.canon(&s)
	q := &search{Scenario: w, numbers: map[state]int32{s: 0}, links: make([]link, 1)}
	for layer, number := []state{s}, int32(0); len(layer) > 0; {
		var after []state
		for i := range layer {
			var f *finding
			if after, f = q.visit(&layer[i], number, after); f != nil {
				return *f
			}
			number++
		}
		if layer = after; len(q.numbers) > limit {
			return finding{states: len(q.numbers)}
		}
	}
	f := finding{states: len(q.numbers), whole: true}
	if i := stuck(len(q.numbers), q.edges, q.resting); i >= 0 {
		f.bad, f.trace = "a run is stuck: nothing leads to its end any more", q.trace(i)
	}
	return f
}

// visit makes all steps from a state, and appends the states that are new.
func (q *search) visit(s *state, number int32, after []state) ([]state, *finding) {
	if q.rests(s) {
		q.resting = append(q.resting, number)
	}
	q.to = q.next(s, q.to)
	for i := range q.to {
		x := &q.to[i]
		if x.bad == "" {
			x.bad = q.check(&x.state)
		}
		if x.bad != "" {
			return nil, &finding{states: len(q.numbers), bad: x.bad, trace: q.trace(number, x.label)}
		}
		q.canon(&x.state)
		n, known := q.numbers[x.state]
		if !known {
			n = int32(len(q.numbers))
			q.numbers[x.state] = n
			after = append(after, x.state)
			q.links = append(q.links, link{number, x.label})
		}
		if x.progress && n != number {
			q.edges = append(q.edges, [2]int32{number, n})
		}
	}
	return after, nil
}

// stuck returns the first state from which no edges lead to a state that rests, or -1.
func stuck(states int, edges [][2]int32, resting []int32) int32 {
	// The edges that lead to each state, as a list in one slice.
	first, before := make([]int32, states+1), make([]int32, len(edges))
	for _, e := range edges {
		first[e[1]+1]++
	}
	for i := range states {
		first[i+1] += first[i]
	}
	at := append([]int32(nil), first[:states]...)
	for _, e := range edges {
		before[at[e[1]]] = e[0]
		at[e[1]]++
	}
	good := make([]bool, states)
	for _, i := range resting {
		good[i] = true
	}
	for work := resting; len(work) > 0; {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range before[first[i]:first[i+1]] {
			if !good[p] {
				good[p] = true
				work = append(work, p)
			}
		}
	}
	for i := range good {
		if !good[i] {
			return int32(i)
		}
	}
	return -1
}

var moveNames = [...]string{
	"?", "starts", "claims what is due", "claims again", "takes over", "signal", "writes", "reads the journal",
	"ends the step", "gives the run back", "cancel", "pause", "resume", "dies", "the server crashes",
	"the log is flushed", "time passes", "a delayed request arrives:", "a delayed request is lost",
	beginChild: "the start of a child begins", beginCancel: "a cancel begins", count: "counts the owners",
}

var entryNames = [...]string{
	"?", "outcomes", "a timeout", "what a refused park had", "a park that waits", "a park that sleeps",
	"a park until now", "the end", "late outcomes",
}

// String says what has happened.
func (l label) String() string {
	text := moveNames[l.move]
	switch l.move {
	case writeEntry:
		text += " " + entryNames[l.detail]
	case takeOver:
		text += fmt.Sprintf(" from %d", l.detail)
	case sendSignal:
		text += fmt.Sprintf(" %d", l.detail)
	case arrive:
		text += " " + moveNames[l.detail]
	}
	if l.process != 0 {
		text = fmt.Sprintf("process %d %s", l.process, text)
	}
	if l.run != 0 {
		text += fmt.Sprintf(" (run %d)", l.run+1)
	}
	return text + [...]string{"", "; the answer is lost", "; the request is delayed"}[l.how]
}
