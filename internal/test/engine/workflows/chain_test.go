package workflows_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// links is how many steps a chain has.
const links = 10

// chain is a workflow of steps, with a sleep. Each version has its own names. Its output is what its steps have
// returned. A fifth of the steps are transactions.
func (w *world) chain(version int) *flow.Workflow[int, []string] {
	return flow.New("chain", version, func(r *flow.Run, _ int) (all []string, err error) {
		for i := range links {
			name := fmt.Sprintf("v%d-%d", version, i)
			var got string
			if i%5 == 3 {
				got, err = w.book(r, name)
			} else {
				got, err = w.step(r, name)
			}
			if err != nil {
				return nil, err
			}
			all = append(all, got)
			if i == links/2 {
				if err := r.Sleep(fmt.Sprintf("v%d-nap", version), nap); err != nil {
					return nil, err
				}
			}
		}
		return all, nil
	})
}

// run runs an engine in the process of the test until the test ends, or stop is called.
func (w *world) run(t *testing.T, defs ...flow.Definition) (e *flow.Engine, stop func()) {
	t.Helper()
	return w.runWith(t, w.options(), defs...)
}

func (w *world) runWith(t *testing.T, o *flow.Options, defs ...flow.Definition) (e *flow.Engine, stop func()) {
	t.Helper()
	return runOn(t, w.store, o, defs...)
}

func runOn(t *testing.T, s workflow.Store, o *flow.Options, defs ...flow.Definition) (e *flow.Engine, stop func()) {
	t.Helper()
	e = flow.NewEngine(s, o, defs...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return e, stop
}

// awaitBeats waits until a process beats.
func (w *world) awaitBeats(t *testing.T) {
	t.Helper()
	for began := time.Now(); ; <-time.After(nap) {
		beats, err := w.store.Beat(t.Context(), "")
		if err != nil || time.Since(began) > time.Minute {
			t.Fatal("no process beats: ", err)
		}
		if len(beats) > 0 {
			return
		}
	}
}

// judgeChain checks a run of chain: it has completed, and its output, its journal and its version agree. calls are
// those of all runs, by step. It returns how many calls there were too many.
func (w *world) judgeChain(t *testing.T, r workflow.Run, calls map[string][]call) (extra int) {
	t.Helper()
	var output []string
	if err := json.Unmarshal(r.Output, &output); err != nil || r.Status != workflow.Completed || len(output) != links {
		t.Errorf("run %s is %s with %s: %q", r.ID, r.Status, r.Output, r.Error)
		return 0
	}
	steps := 0
	for st, err := range w.store.Steps(t.Context(), r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(st.Name, fmt.Sprintf("v%d-", r.Version)) || st.Outcome != workflow.Done {
			t.Errorf("version %d has the row %+v", r.Version, st)
		}
		if steps++; st.Kind != workflow.KindStep {
			continue
		}
		var i int
		var value string
		_, err := fmt.Sscanf(st.Name, fmt.Sprintf("v%d-%%d", r.Version), &i)
		if err == nil {
			err = json.Unmarshal(st.Output, &value)
		}
		if err != nil || output[i] != value {
			t.Errorf("step %s returned %q, and the output has %v: %v", st.Name, value, output, err)
		}
		of := calls[r.ID+"/"+st.Name]
		if !slices.ContainsFunc(of, func(c call) bool { return c.value == value }) {
			t.Errorf("no call of %s returned %q: %v", st.Name, value, of)
		}
		extra += len(of) - 1
		if i%5 == 3 && len(of) != 1 {
			t.Errorf("%s was committed %d times", st.Name, len(of))
		}
	}
	if steps != links+1 {
		t.Errorf("run %s has %d rows", r.ID, steps)
	}
	return extra
}

// judgeChains waits for runs, and judges them.
func (w *world) judgeChains(t *testing.T, ids []string) (extra int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := workflow.NewClient(w.store)
	var runs []workflow.Run
	for _, id := range ids {
		r, err := c.Await(ctx, id)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		runs = append(runs, r)
	}
	all, err := w.calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string][]call)
	for _, c := range all {
		calls[c.step] = append(calls[c.step], c)
	}
	for _, r := range runs {
		extra += w.judgeChain(t, r, calls)
	}
	return extra
}

// start starts runs of chain by name.
func (w *world) start(t *testing.T, n int) (ids []string) {
	t.Helper()
	c := workflow.NewClient(w.store)
	for i := range n {
		o := &workflow.StartOptions{IdempotencyKey: rand.Text()}
		s, err := c.Start(t.Context(), "chain", i, o)
		for range 9 { // a connection of the pool may be one to a server that has crashed since
			if err == nil {
				break
			}
			s, err = c.Start(t.Context(), "chain", i, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, s.ID)
	}
	return ids
}
