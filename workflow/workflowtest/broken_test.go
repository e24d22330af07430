package workflowtest_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

// A broken store is a Memory whose methods can be replaced.
type broken struct {
	*workflow.Memory
	start func(context.Context, []workflow.NewRun) ([]workflow.Started, error)
	send  func(context.Context, []workflow.Message) ([]workflow.Receipt, error)
	claim func(context.Context, workflow.ClaimRequest) ([]workflow.Claimed, time.Duration, error)
	write func(context.Context, []workflow.Entry) ([]error, error)
	sweep func(context.Context, int) (int, error)
	count func(context.Context, ...workflow.Status) (map[string]map[workflow.Status]int, error)
	runs  func(context.Context, workflow.Query) iter.Seq2[workflow.Run, error]
	steps func(context.Context, string) iter.Seq2[workflow.Step, error]
	hear  func(workflow.Note) bool // whether a note is heard

	subscribe     func(context.Context, workflow.Subscription) error
	unsubscribe   func(context.Context, string) error
	subscriptions func(context.Context) ([]workflow.Subscription, error)
}

func newBroken() *broken {
	m := new(workflow.Memory)
	return &broken{
		Memory: m, start: m.Start, send: m.Send, claim: m.Claim, write: m.Write, sweep: m.Sweep, count: m.Counts,
		runs: m.Runs, steps: m.Steps, hear: func(workflow.Note) bool { return true },
		subscribe: m.Subscribe, unsubscribe: m.Unsubscribe, subscriptions: m.Subscriptions,
	}
}

func (b *broken) Start(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
	return b.start(ctx, runs)
}

func (b *broken) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	return b.send(ctx, messages)
}

func (b *broken) Claim(
	ctx context.Context, q workflow.ClaimRequest,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	return b.claim(ctx, q)
}

func (b *broken) Write(ctx context.Context, entries []workflow.Entry) ([]error, error) {
	return b.write(ctx, entries)
}

func (b *broken) Sweep(ctx context.Context, limit int) (int, error) { return b.sweep(ctx, limit) }

func (b *broken) Counts(ctx context.Context, of ...workflow.Status) (map[string]map[workflow.Status]int, error) {
	return b.count(ctx, of...)
}

func (b *broken) Runs(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
	return b.runs(ctx, q)
}

func (b *broken) Steps(ctx context.Context, run string) iter.Seq2[workflow.Step, error] {
	return b.steps(ctx, run)
}

func (b *broken) Subscribe(ctx context.Context, s workflow.Subscription) error {
	return b.subscribe(ctx, s)
}

func (b *broken) Unsubscribe(ctx context.Context, id string) error { return b.unsubscribe(ctx, id) }

func (b *broken) Subscriptions(ctx context.Context) ([]workflow.Subscription, error) {
	return b.subscriptions(ctx)
}

func (b *broken) Listen(ctx context.Context, hear func(workflow.Note)) {
	b.Memory.Listen(ctx, func(n workflow.Note) {
		if b.hear(n) {
			hear(n)
		}
	})
}

// Age lets time pass in a bubble.
func (b *broken) Age(_ context.Context, d time.Duration) error {
	time.Sleep(d)
	return nil
}

// run returns a run as it is.
func (b *broken) run(id string) workflow.Run {
	r, _ := workflow.NewClient(b.Memory).Get(context.Background(), id)
	return r
}

// all returns runs as they are.
func (b *broken) all(q workflow.Query) (runs []workflow.Run) {
	for r, err := range b.Memory.Runs(context.Background(), q) {
		if err != nil {
			return nil
		}
		runs = append(runs, r)
	}
	return runs
}

// A fault makes a store break the contract.
type fault func(b *broken)

// before changes each element of an argument before the call. It leaves the caller's alone.
func before[T, R any](
	call func(context.Context, []T) ([]R, error), change func(*T),
) func(context.Context, []T) ([]R, error) {
	return func(ctx context.Context, all []T) ([]R, error) {
		all = slices.Clone(all)
		for i := range all {
			change(&all[i])
		}
		return call(ctx, all)
	}
}

// after changes each element of a result.
func after[T, R any](
	call func(context.Context, []T) ([]R, error), change func(*T, *R),
) func(context.Context, []T) ([]R, error) {
	return func(ctx context.Context, all []T) ([]R, error) {
		results, err := call(ctx, all)
		for i := range results {
			change(&all[i], &results[i])
		}
		return results, err
	}
}

func eachNew(change func(*workflow.NewRun)) fault {
	return func(b *broken) { b.start = before(b.start, change) }
}

func eachMessage(change func(*workflow.Message)) fault {
	return func(b *broken) { b.send = before(b.send, change) }
}

func eachReceipt(change func(*workflow.Message, *workflow.Receipt)) fault {
	return func(b *broken) { b.send = after(b.send, change) }
}

func eachEntry(change func(*workflow.Entry)) fault {
	return func(b *broken) {
		b.write = before(b.write, func(e *workflow.Entry) {
			e.Steps = slices.Clone(e.Steps)
			change(e)
		})
	}
}

func eachRow(change func(*workflow.Step)) fault {
	return eachEntry(func(e *workflow.Entry) {
		for i := range e.Steps {
			change(&e.Steps[i])
		}
	})
}

func eachVerdict(change func(*workflow.Entry, *error)) fault {
	return func(b *broken) { b.write = after(b.write, change) }
}

func eachRequest(change func(*workflow.ClaimRequest)) fault {
	return func(b *broken) {
		claim := b.claim
		b.claim = func(ctx context.Context, q workflow.ClaimRequest) ([]workflow.Claimed, time.Duration, error) {
			change(&q)
			return claim(ctx, q)
		}
	}
}

func eachClaimed(change func(*workflow.Claimed)) fault {
	return func(b *broken) {
		claim := b.claim
		b.claim = func(ctx context.Context, q workflow.ClaimRequest) ([]workflow.Claimed, time.Duration, error) {
			all, next, err := claim(ctx, q)
			for i := range all {
				change(&all[i])
			}
			return all, next, err
		}
	}
}

// listing changes what a list yields.
func listing[Q, T any](
	list func(context.Context, Q) iter.Seq2[T, error], change func(Q, []T) []T,
) func(context.Context, Q) iter.Seq2[T, error] {
	return func(ctx context.Context, q Q) iter.Seq2[T, error] {
		return func(yield func(T, error) bool) {
			var all []T
			for v, err := range list(ctx, q) {
				if err != nil {
					yield(v, err)
					return
				}
				all = append(all, v)
			}
			for _, v := range change(q, all) {
				if !yield(v, nil) {
					return
				}
			}
		}
	}
}

func lists(change func(workflow.Query, []workflow.Run) []workflow.Run) fault {
	return func(b *broken) { b.runs = listing(b.runs, change) }
}

func eachRun(change func(*workflow.Run)) fault {
	return lists(func(_ workflow.Query, all []workflow.Run) []workflow.Run {
		for i := range all {
			change(&all[i])
		}
		return all
	})
}

func eachQuery(change func(*workflow.Query)) fault {
	return func(b *broken) {
		runs := b.runs
		b.runs = func(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
			change(&q)
			return runs(ctx, q)
		}
	}
}

func journals(change func(all []workflow.Step) []workflow.Step) fault {
	return func(b *broken) {
		b.steps = listing(b.steps, func(_ string, all []workflow.Step) []workflow.Step { return change(all) })
	}
}

func eachStep(change func(*workflow.Step)) fault {
	return journals(func(all []workflow.Step) []workflow.Step {
		for i := range all {
			change(&all[i])
		}
		return all
	})
}

// A mutant has a fault that a clause must find.
type mutant struct {
	clause string
	fault  fault
}

func convict(t *testing.T, mutants map[string]mutant) {
	t.Helper()
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[workflow.Store]{
				Violations: workflowtest.Violations, Tries: 10,
				Blocking: []string{"claim-lease", "notes", "race-groups", "runs-loop"},
			}
			trial.Convict(t, m.clause, func() workflow.Store {
				b := newBroken()
				m.fault(b)
				return b
			})
		})
	}
}

// A Memory with no fault passes, as the mutants are made of it.
func TestUnbroken(t *testing.T) {
	workflowtest.Run(t, func(*testing.T) workflow.Store { return newBroken() })
}
