package workflowtest_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

func TestSuiteConvictsDebounce(t *testing.T) {
	convict(t, map[string]mutant{
		"the first input counts":       {"debounce", debounces(func(n *newRun, old run) { n.Input = old.Input })},
		"the first delay counts":       {"debounce", eachNew(func(n *newRun) { n.Delay = min(n.Delay, 2*minuteOf) })},
		"each start is a run":          {"debounce", debounces(func(n *newRun, _ run) { n.Key += n.ID })},
		"a key is of all workflows":    {"debounce", globalDebounce},
		"what has begun is moved":      {"debounce-begun", movesBegun},
		"what is over keeps its key":   {"debounce-begun", keepsKey},
		"a repeat is another start":    {"debounce-again", repeats()},
		"any start moves":              {"debounce-again", eachNew(func(n *newRun) { n.Debounce = n.Key != "" && n.Owner == "" })},
		"one after the other":          {"debounce-several", oneByOne},
		"a pause ends":                 {"debounce-held", resumes},
		"a start looks, and adds":      {"race-debounce", looksForKey},
		"a start looks, and then adds": {"race-debounce-claim", looksWhetherBegun},
	})
}

const minuteOf = 10 * 60 * 1e9

// debounces changes a debounced start if there is a run with its key.
func debounces(change func(n *newRun, old run)) fault {
	return func(b *broken) {
		eachNew(func(n *newRun) {
			for _, r := range b.all(workflow.Query{Workflow: n.Workflow}) {
				if n.Debounce && r.Key == n.Key {
					change(n, r)
				}
			}
		})(b)
	}
}

func globalDebounce(b *broken) {
	b.start = before(b.start, func(n *newRun) {
		for _, r := range b.all(workflow.Query{}) {
			if r.Key == n.Key && n.Debounce {
				n.Workflow = r.Workflow
			}
		}
	})
}

// movesBegun tells of the run that has begun.
func movesBegun(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		for _, r := range b.all(workflow.Query{Status: workflow.Running}) {
			if len(runs) == 1 && runs[0].Debounce && r.Key == runs[0].Key && r.Owner == "" && r.ID != runs[0].ID {
				return []started{{ID: r.ID, Version: r.Version, Status: r.Status}}, nil
			}
		}
		return start(ctx, runs)
	}
}

func keepsKey(b *broken) {
	var mu sync.Mutex
	keys := make(map[string]string)
	eachNew(func(n *newRun) {
		mu.Lock()
		defer mu.Unlock()
		keys[n.ID] = n.Key
	})(b)
	eachRun(func(r *run) {
		mu.Lock()
		defer mu.Unlock()
		r.Key = keys[r.ID]
	})(b)
}

func repeats() fault {
	return eachNew(func(n *newRun) {
		if n.Debounce {
			n.ID = workflow.NewID()
		}
	})
}

func resumes(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		all, err := start(ctx, runs)
		for i, s := range all {
			if runs[i].Debounce && !s.New {
				_, _ = b.Memory.Send(ctx, []message{{Run: s.ID, Action: workflow.Resume}})
			}
		}
		return all, err
	}
}

// looksWhetherBegun tells of a run that had not begun when it looked.
func looksWhetherBegun(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		all := b.all(workflow.Query{Workflow: runs[0].Workflow})
		i := slices.IndexFunc(all, func(r run) bool { return r.Key == runs[0].Key && r.Owner == "" })
		runtime.Gosched()
		s, err := start(ctx, runs)
		if err == nil && i >= 0 && s[0].New {
			s[0] = started{ID: all[i].ID, Version: 1, Status: workflow.Running}
		}
		return s, err
	}
}
