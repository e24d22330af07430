package faulttest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// follow makes random calls, and fails at the first one that differs from the model, or if what is there at the end
// differs.
func follow(rt *rapid.T, call func(context.Context, *rapid.T) error, end func(context.Context) error) {
	check := func(rt *rapid.T, err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"":     func(*rapid.T) {},
		"call": func(rt *rapid.T) { check(rt, call(rt.Context(), rt)) },
	})
	check(rt, end(rt.Context()))
}

// sequential is the specification of calls that happen one after another, as step says. A call whose output is nil may
// happen at any time.
func sequential[C any, R, S comparable](step func(S, C) (R, S)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return *new(S) },
		Step: func(state, input, output any) (bool, any) {
			want, next := step(state.(S), input.(C))
			return output == nil || output == any(want), next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// A hand is a worker that acts at random.
type hand[R any] struct {
	*rand.Rand
	name    string // of the next call
	replies []R
}

// together lets five workers act at random, and returns their calls. The context of some ends before the reply, and a
// call that returns an error has no output: it may have happened, or may happen later.
func together[C, R any](
	ctx context.Context, seed uint64, draw func(*hand[R]) C, do func(context.Context, C) (R, error),
) []porcupine.Operation {
	var clock atomic.Int64
	var mu sync.Mutex
	var ops []porcupine.Operation
	var wg sync.WaitGroup
	start := make(chan struct{})
	for id := range workers {
		h := &hand[R]{Rand: rand.New(rand.NewPCG(seed, uint64(id)))}
		wg.Go(func() {
			<-start
			for n := range callsOfEach {
				h.name = fmt.Sprintf("%d.%d", id, n)
				op := porcupine.Operation{ClientId: id, Input: draw(h)}
				ctx, cancel := ctx, func() {}
				if h.IntN(20) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(1000))*time.Microsecond)
				}
				op.Call = clock.Add(1)
				out, err := do(ctx, op.Input.(C))
				op.Return = clock.Add(1)
				cancel()
				if err != nil {
					op.Return = math.MaxInt64
				} else {
					op.Output = out
					h.replies = append(h.replies, out)
				}
				mu.Lock()
				ops = append(ops, op)
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	return ops
}

// legal records n histories. If no order of the calls explains the replies, the test fails and prints the seed and the
// calls of the first such history. One that is undecided after a minute proves nothing. They prove nothing if no call
// met what it must meet: then it records more.
func legal[C, R any](
	t *testing.T, n int, spec porcupine.Model, record func(ctx context.Context, seed uint64) []porcupine.Operation,
	meets func(C, R) bool, never string,
) {
	t.Helper()
	seed := rand.Uint64()
	calls, met := 0, false
	for i := 0; i < n || !met && i < 100*n; i++ {
		h := record(t.Context(), seed+uint64(i))
		calls += len(h)
		met = met || slices.ContainsFunc(h, func(op porcupine.Operation) bool {
			return op.Output != nil && meets(op.Input.(C), op.Output.(R))
		})
		if porcupine.CheckOperationsTimeout(spec, h, time.Minute) == porcupine.Illegal {
			t.Fatalf("history of seed %d is illegal:\n%s", seed+uint64(i), listing(spec, h))
		}
	}
	if !met {
		t.Error(never)
	}
	t.Logf("%d histories of %d calls are legal", n, calls)
}

func listing(spec porcupine.Model, history []porcupine.Operation) string {
	var b strings.Builder
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range history {
		until := fmt.Sprint(op.Return)
		if op.Return == math.MaxInt64 {
			until = "?"
		}
		fmt.Fprintf(&b, "%d-%s worker %d: %s\n", op.Call, until, op.ClientId,
			spec.DescribeOperation(op.Input, op.Output))
	}
	return b.String()
}
