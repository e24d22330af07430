package workflowtest_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

func TestSuiteConvictsLimit(t *testing.T) {
	convict(t, map[string]mutant{
		"no limit":                       {"limit-runs", eachRequest(func(q *request) { q.Limits = nil })},
		"one too many":                   {"limit-runs", eachLimit(func(l *workflow.Limit) { l.Runs++ })},
		"each version has its limit":     {"limit-runs", countsVersions},
		"each process has its limit":     {"limit-runs", countsOwn},
		"a limit always holds back":      {"limit-none", next(func(d duration) duration { return min(d, workflow.HeldBack) })},
		"what waits is not told":         {"limit-groups", next(func(duration) duration { return 0 })},
		"no groups":                      {"limit-groups", eachLimit(func(l *workflow.Limit) { l.EachGroup = 0 })},
		"a group is forgotten":           {"limit-groups", eachNew(func(n *newRun) { n.Group = "" })},
		"no group is one":                {"limit-groups", eachNew(func(n *newRun) { n.Group += "+" })},
		"a group is not told":            {"limit-groups", eachRun(func(r *run) { r.Group = "" })},
		"runs begin as they like":        {"limit-begins", eachLimit(func(l *workflow.Limit) { l.PerSecond = 0 })},
		"each process begins one":        {"limit-begins", beginsEach},
		"a wake takes a token":           {"limit-begins", wakesBegin},
		"the others come first":          {"limit-order", othersFirst},
		"the first of all blocks":        {"limit-backlog", firstBlocks},
		"a takeover needs a place":       {"limit-others", othersHeed},
		"the lowest limit is for all":    {"limit-each", lowest()},
		"a claim counts, and then takes": {"race-limit", countsFirst},
		"claims at once begin runs":      {"race-begins", beginsAtOnce},
	})
	for name, m := range map[string]mutant{
		"a bucket is never full again": {"limit-refill", neverFull()},
		"a bucket has no bottom":       {"limit-refill", noBottom},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found := workflowtest.AgingViolations(t.Context(), func() workflowtest.AgingStore {
					b := newBroken()
					m.fault(b)
					return b
				}, m.clause)
				if found[m.clause] == nil {
					t.Errorf("clause %s accepts it", m.clause)
				}
			})
		})
	}
}

func eachLimit(change func(l *workflow.Limit)) fault {
	return eachRequest(func(q *request) {
		q.Limits = maps.Clone(q.Limits)
		for name, l := range q.Limits {
			change(&l)
			q.Limits[name] = l
		}
	})
}

// allow lets a claim take as many more runs as others own that do not count.
func allow(other func(q *request, r workflow.Run) bool) fault {
	return func(b *broken) {
		eachRequest(func(q *request) {
			q.Limits = maps.Clone(q.Limits)
			for name, l := range q.Limits {
				for _, r := range b.all(workflow.Query{Workflow: name, Status: workflow.Running}) {
					if r.Owner != "" && l.Runs > 0 && other(q, r) {
						l.Runs++
					}
				}
				q.Limits[name] = l
			}
		})(b)
	}
}

func countsVersions(b *broken) {
	allow(func(q *request, r workflow.Run) bool {
		return !slices.Contains(q.Definitions, workflow.Definition{Workflow: r.Workflow, Version: r.Version})
	})(b)
}

func countsOwn(b *broken) {
	allow(func(q *request, r workflow.Run) bool { return r.Owner != q.Process })(b)
}

func beginsEach(b *broken) {
	var mu sync.Mutex
	seen := make(map[string]bool)
	eachRequest(func(q *request) {
		mu.Lock()
		defer mu.Unlock()
		if !seen[q.Process] {
			q.Limits = nil
		}
		seen[q.Process] = true
	})(b)
}

// wakesBegin gives back what wakes.
func wakesBegin(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		if q.Limits == nil {
			return all, next, err
		}
		all = slices.DeleteFunc(all, func(c claimed) bool {
			if c.Fence.Epoch == 1 || q.Limits[c.Workflow].PerSecond == 0 {
				return false
			}
			_, _ = b.Memory.Write(ctx, []entry{{Run: c.ID, Fence: c.Fence, Next: workflow.Park, After: 1, Mail: -1}})
			return true
		})
		return all, next, err
	}
}

// othersFirst claims the runs without a limit as long as there are some.
func othersFirst(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		if len(q.Limits) > 0 {
			others := q
			others.Definitions = slices.DeleteFunc(slices.Clone(q.Definitions), func(d workflow.Definition) bool {
				_, is := q.Limits[d.Workflow]
				return is
			})
			if all, next, err := claim(ctx, others); err != nil || len(all) > 0 {
				return all, next, err
			}
		}
		return claim(ctx, q)
	}
}

// firstBlocks claims nothing if the group of the oldest run has no room.
func firstBlocks(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		return all[:min(len(all), 2)], next, err
	}
}

func othersHeed(b *broken) {
	eachRequest(func(q *request) {
		if q.From != "" && len(q.Limits) > 0 {
			q.Limit = 0
		}
	})(b)
}

func lowest() fault {
	most := 1000
	return func(b *broken) {
		eachLimit(func(l *workflow.Limit) {
			most = min(most, l.Runs)
			l.Runs = most
		})(b)
	}
}

// countsFirst sees how many have an owner, and claims then.
func countsFirst(b *broken) {
	eachRequest(func(q *request) {
		for name, l := range q.Limits {
			owned := 0
			for _, r := range b.all(workflow.Query{Workflow: name, Status: workflow.Running}) {
				if r.Owner != "" {
					owned++
				}
			}
			if runtime.Gosched(); owned < l.Runs {
				q.Limits = nil
				q.Limit = min(q.Limit, l.Runs-owned)
			}
		}
	})(b)
}

// beginsAtOnce sees whether a run has begun, and claims then.
func beginsAtOnce(b *broken) {
	eachRequest(func(q *request) {
		for name := range q.Limits {
			all := b.all(workflow.Query{Workflow: name})
			begun := slices.ContainsFunc(all, func(r run) bool { return r.Owner != "" })
			if runtime.Gosched(); !begun {
				q.Limits, q.Limit = nil, 1
			}
		}
	})(b)
}

func neverFull() fault {
	claims := 0
	return eachLimit(func(l *workflow.Limit) {
		if claims++; claims > 1 {
			l.PerSecond = min(l.PerSecond, 1/workflow.MaxPerSecond)
		}
	})
}

func noBottom(b *broken) { eachLimit(func(l *workflow.Limit) { l.PerSecond *= 100 })(b) }
