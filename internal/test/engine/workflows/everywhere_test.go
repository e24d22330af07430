package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// A strike says what happens to a process, and at which of its calls.
type strike struct {
	stop  bool // and not kill
	call  int
	after bool // its answer
}

func (s strike) String() string {
	what, when := "kill", "before"
	if s.stop {
		what = "stop"
	}
	if s.after {
		when = "after"
	}
	return fmt.Sprintf("%s-%s-%02d", what, when, s.call)
}

// most is how many calls a run of verbs has, and some more: claims come as they come.
const most = 38

// A run with all verbs, whose process is killed at each of its calls, before the call is sent and after its answer. A
// second process goes on. What had ended before does not run again, StepTx happens once, and the journal and the output
// agree.
func TestKillEverywhere(t *testing.T) { everywhere(t, false) }

// The same with a process that stands still instead, and goes on when the run is over. What it does then counts for
// nothing.
func TestStopEverywhere(t *testing.T) { everywhere(t, true) }

func everywhere(t *testing.T, stop bool) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var played, struck atomic.Int64
			t.Run("at", func(t *testing.T) {
				s := build(t)
				for call := 1; call <= most; call++ {
					for _, after := range []bool{false, true} {
						at := strike{stop, call, after}
						t.Run(at.String(), func(t *testing.T) {
							t.Parallel()
							own := s
							if s.Kind == "sqlite" { // a file has one writer, who may be stopped
								own = build(t)
							}
							if played.Add(1); at.play(t, own) {
								struck.Add(1)
							}
						})
					}
				}
			})
			if n := struck.Load(); n < played.Load()/3 { // a claim is struck after its answer only
				t.Errorf("%d processes were struck", n)
			}
		})
	}
}

// play reports whether the process came to the call.
func (s strike) play(t *testing.T, at site) (struck bool) {
	w := at.here(t)
	name := s.String()
	go w.signal(t.Context(), name)
	p := job{Site: at, Workflow: name, Key: name, Strike: s.call, After: s.after}.start(t)
	switch said := p.next(); {
	case said == here && s.stop:
		p.stop()
	case said == here:
		p.kill()
	case said != over:
		t.Fatalf("the process says %q", said)
	default:
		p.end()
		w.judge(t, w.goesOn(t, name), s, p.cmd.Process.Pid)
		return false
	}
	began := time.Now()
	_, shut := w.run(t, w.verbs(name), w.inner(name))
	r := w.goesOn(t, name)
	t.Logf("process %d was struck, and the run was over after %v", p.cmd.Process.Pid, time.Since(began))
	if s.stop {
		p.resume()
		p.say(goOn)
		p.hear(over)
		p.end()
	}
	shut()
	w.judge(t, r, s, p.cmd.Process.Pid)
	return true
}

// signal gives a run of verbs what it waits for.
func (w *world) signal(ctx context.Context, name string) {
	c := workflow.NewClient(w.store)
	for ctx.Err() == nil {
		if _, err := c.SignalFirst(ctx, name, "go", "gone", "once"); err == nil {
			return
		}
		<-time.After(nap)
	}
}

// goesOn starts a run of verbs, if it is not there, and returns it when it is over.
func (w *world) goesOn(t *testing.T, name string) workflow.Run {
	t.Helper()
	c := workflow.NewClient(w.store)
	s, err := c.Start(t.Context(), name, 1, &workflow.StartOptions{IdempotencyKey: name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := c.Await(ctx, s.ID)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return r
}

// judge checks what a run of verbs has left. first is the process that was struck.
func (w *world) judge(t *testing.T, r workflow.Run, s strike, first int) {
	t.Helper()
	if r.Status != workflow.Completed {
		t.Errorf("the run is %s: %q", r.Status, r.Error)
	}
	values := w.judgeJournal(t, r)
	all, err := w.calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string][]call)
	for _, c := range all {
		if run, step, _ := strings.Cut(c.step, "/"); run == r.ID || strings.HasPrefix(run, r.ID+".") {
			calls[step] = append(calls[step], c)
		}
	}
	family := 0
	for c, err := range w.store.Runs(t.Context(), workflow.Query{Parent: r.ID}) {
		if family++; err != nil || c.Status != workflow.Completed || family > 1 {
			t.Errorf("child %d is %+v: %v", family, c, err)
		}
	}
	extra := 0
	for step, of := range calls {
		extra += judgeCalls(t, step, of, values[step])
	}
	if extra > 2 { // one of each branch
		t.Errorf("%d calls too many: %v", extra, calls)
	}
	for _, order := range orders {
		judgeOrder(t, calls, order, s, first)
	}
}

// judgeCalls checks the calls of a step: each process has called it once, and one of them has returned the value. It
// returns how many calls there were too many.
func judgeCalls(t *testing.T, step string, calls []call, value string) (extra int) {
	t.Helper()
	seen, attempts := make(map[string]bool), make(map[int]bool)
	for _, c := range calls {
		who := fmt.Sprint(c.attempt, " in ", c.pid)
		if seen[who] {
			t.Errorf("%s was called twice as attempt %s: %v", step, who, calls)
		}
		seen[who], seen[c.value], attempts[c.attempt] = true, true, true
	}
	want := 1
	if step == "retries" {
		want = 2
	}
	if len(attempts) != want || !seen[value] {
		t.Errorf("%s: the calls are %v, and the journal has %q", step, calls, value)
	}
	if len(calls) > want && slices.Contains([]string{"booked", "right/two"}, step) {
		t.Errorf("%s was committed twice: %v", step, calls)
	}
	return len(calls) - want
}

// judgeOrder checks that a step was not called any more after the next one had begun. A process that stood still may
// call one, as long as it does not know that it has lost the run.
func judgeOrder(t *testing.T, calls map[string][]call, order []string, s strike, first int) {
	t.Helper()
	late := 0
	for i := range order[1:] {
		before, next := calls[order[i]], calls[order[i+1]]
		if len(before) == 0 || len(next) == 0 {
			t.Errorf("%s or %s was not called", order[i], order[i+1])
			continue
		}
		for _, c := range before {
			switch {
			case c.n < next[0].n:
			case s.stop && c.pid == first:
				late++
			default:
				t.Errorf("%s was called after %s had begun: %v, %v", order[i], order[i+1], before, next)
			}
		}
	}
	if late > 1 {
		t.Errorf("the process that stood still called %d steps: %v", late, calls)
	}
}

// judgeJournal checks the journal of verbs. It returns the values of the steps.
func (w *world) judgeJournal(t *testing.T, r workflow.Run) map[string]string {
	t.Helper()
	values := make(map[string]string)
	for st, err := range w.store.Steps(t.Context(), r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if st.Kind == workflow.KindSignal && st.Name == workflow.ChildEvent { // the parent had looked before it came
			continue
		}
		want, known := rows[st.Name]
		if !known || st.Kind != want.kind || st.Outcome != want.outcome {
			t.Errorf("the journal has %+v", st)
		}
		if _, again := values[st.Name]; again {
			t.Errorf("the journal has %s twice", st.Name)
		}
		var value string
		if st.Kind == workflow.KindStep || st.Kind == workflow.KindChild || st.Name == "go" {
			if err := json.Unmarshal(st.Output, &value); err != nil {
				t.Error(err)
			}
		}
		values[st.Name] = value
		if st.Name == "retries" && st.Attempts != 2 || st.Name == "go" && (st.Signal != "once" || value != "gone") {
			t.Errorf("the journal has %+v", st)
		}
	}
	if len(values) != len(rows) {
		t.Errorf("the journal has %v", values)
	}
	var output []string
	err := json.Unmarshal(r.Output, &output)
	want := []string{
		values["first"], values["retries"], values["booked"], values["child"], "slept", "gone", "nothing came",
		values["left/one"] + " " + values["left/two"], values["right/one"] + " " + values["right/two"], values["last"],
	}
	if err != nil || !slices.Equal(output, want) {
		t.Errorf("the output is %v, and the journal has %v: %v", output, want, err)
	}
	return values
}
