package workflowtest_test

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

func TestSuiteConvictsRead(t *testing.T) {
	convict(t, map[string]mutant{
		"oldest first":             {"runs-order", lists(func(_ workflow.Query, all []run) []run { return oldestFirst(all) })},
		"a page has no end":        {"runs-pages", eachQuery(func(q *workflow.Query) { q.Limit = 0 })},
		"pages begin anew":         {"runs-pages", eachQuery(func(q *workflow.Query) { q.After = nil })},
		"one page only":            {"runs-pages", lists(func(_ workflow.Query, all []run) []run { return all[:min(len(all), 100)] })},
		"Until is inclusive":       {"runs-query", eachQuery(untilInclusive)},
		"Since is exclusive":       {"runs-query", eachQuery(sinceExclusive)},
		"a status is ignored":      {"runs-query", eachQuery(func(q *workflow.Query) { q.Status = "" })},
		"an input is ignored":      {"runs-query", eachQuery(func(q *workflow.Query) { q.Input = nil })},
		"a workflow is ignored":    {"runs-query", eachQuery(func(q *workflow.Query) { q.Workflow = "" })},
		"an id is a prefix":        {"runs-query", eachQuery(func(q *workflow.Query) { q.ID = strings.ToLower(q.ID) })},
		"the newest waits longest": {"runs-event", lists(newestWaits)},
		"a payload is ignored":     {"runs-event", eachQuery(noPayload)},
		"all waits are of one run": {"runs-event", lists(withAny)},
		"a key is ignored":         {"runs-keys", eachQuery(func(q *workflow.Query) { q.KeyPrefix = "" })},
		"a key has no case":        {"runs-keys", eachQuery(func(q *workflow.Query) { q.KeyPrefix = strings.ToLower(q.KeyPrefix) })},
		"keys go by start":         {"runs-keys", lists(keysByStart)},
		"one page of keys":         {"runs-keys", lists(onePageOfKeys)},
		"a list holds the lock":    {"runs-loop", holdsLock},
		"a list is read once":      {"runs-twice", readsOnce},
		"a journal is by name":     {"steps-order", journals(byName)},
		"a journal of 100 rows":    {"steps-many", journals(func(all []row) []row { return all[:min(len(all), 100)] })},
		"a mailbox of 100 signals": {"steps-many", journals(shortMailbox)},
		"counts of what runs":      {"counts", countsRunning},
		"counts of one workflow":   {"counts", countsOne},
		"counts all statuses":      {"counts", countsAll},
		"a sweep of what is over":  {"sweep-nothing", sweeps(workflow.Completed)},
		"a sweep of what runs":     {"sweep-nothing", sweeps(workflow.Running)},
	})
}

func oldestFirst(all []run) []run {
	slices.Reverse(all)
	return all
}

func untilInclusive(q *workflow.Query) {
	if !q.Until.IsZero() {
		q.Until = q.Until.Add(time.Microsecond)
	}
}

func sinceExclusive(q *workflow.Query) {
	if !q.Since.IsZero() {
		q.Since = q.Since.Add(time.Microsecond)
	}
}

func newestWaits(q workflow.Query, all []run) []run {
	if q.Event != "" {
		slices.SortFunc(all, func(a, b run) int { return b.Started.Compare(a.Started) })
	}
	return all
}

func keysByStart(q workflow.Query, all []run) []run {
	if q.KeyPrefix != "" {
		slices.SortFunc(all, func(a, b run) int { return strings.Compare(b.ID, a.ID) })
	}
	return all
}

func onePageOfKeys(q workflow.Query, all []run) []run {
	if q.KeyPrefix != "" {
		all = all[:min(len(all), 64)]
	}
	return all
}

func noPayload(q *workflow.Query) {
	if q.Event != "" {
		q.Payload = json.RawMessage(`{"user":42}`)
	}
}

func withAny(q workflow.Query, all []run) []run {
	if q.Event == "e" {
		all = append(all, run{ID: "any", Event: workflow.AnyEvent})
	}
	return all
}

// holdsLock lets no other call in while a list yields.
func holdsLock(b *broken) {
	lock := make(chan struct{}, 1)
	runs, claim := b.runs, b.claim
	b.runs = func(ctx context.Context, q workflow.Query) iter.Seq2[run, error] {
		return func(yield func(run, error) bool) {
			select {
			case lock <- struct{}{}:
			case <-ctx.Done():
				yield(run{}, ctx.Err())
				return
			}
			defer func() { <-lock }()
			for r, err := range runs(ctx, q) {
				if !yield(r, err) {
					return
				}
			}
		}
	}
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		select {
		case lock <- struct{}{}:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		defer func() { <-lock }()
		return claim(ctx, q)
	}
}

func readsOnce(b *broken) {
	runs := b.runs
	b.runs = func(ctx context.Context, q workflow.Query) iter.Seq2[run, error] {
		var all []run
		for r, err := range runs(ctx, q) {
			if err != nil {
				return runs(ctx, q)
			}
			all = append(all, r)
		}
		return func(yield func(run, error) bool) {
			for _, r := range all {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func byName(all []row) []row {
	slices.SortStableFunc(all, func(a, b row) int {
		if a.Kind == workflow.KindSignal || b.Kind == workflow.KindSignal {
			return 0
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

func shortMailbox(all []row) []row {
	n := 0
	return slices.DeleteFunc(all, func(s row) bool {
		if s.Kind == workflow.KindSignal {
			n++
		}
		return n > 100
	})
}

func countsRunning(b *broken) {
	b.count = func(ctx context.Context, of ...workflow.Status) (map[string]map[workflow.Status]int, error) {
		all, err := b.Memory.Counts(ctx, of...)
		for _, of := range all {
			for status := range of {
				if status != workflow.Running {
					delete(of, status)
				}
			}
		}
		return all, err
	}
}

func countsAll(b *broken) {
	b.count = func(ctx context.Context, _ ...workflow.Status) (map[string]map[workflow.Status]int, error) {
		return b.Memory.Counts(ctx)
	}
}

func countsOne(b *broken) {
	b.count = func(ctx context.Context, of ...workflow.Status) (map[string]map[workflow.Status]int, error) {
		all, err := b.Memory.Counts(ctx, of...)
		for name := range all {
			if name != "flow" {
				delete(all, name)
			}
		}
		return all, err
	}
}

// sweeps hides the runs of a status after a Sweep.
func sweeps(status workflow.Status) fault {
	return func(b *broken) {
		var swept bool
		b.sweep = func(context.Context, int) (int, error) {
			swept = true
			return 0, nil
		}
		lists(func(_ workflow.Query, all []run) []run {
			return slices.DeleteFunc(all, func(r run) bool { return swept && r.Status == status })
		})(b)
	}
}
