package workflowtest_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

func TestSuiteConvictsRace(t *testing.T) {
	convict(t, map[string]mutant{
		"a park compares no mail":       {"race-park", eachEntry(func(e *entry) { e.Mail = -1 })},
		"a timeout compares no mail":    {"race-timeout", eachEntry(func(e *entry) { e.Mail = -1 }).and(slowClaims)},
		"a signal looks, and tells":     {"race-end", looksFirst(workflow.Kept)},
		"a cancel looks, and tells":     {"race-cancel", looksFirst(workflow.Applied)},
		"each of many is consumed":      {"race-signals", eachReceipt(instead(workflow.Kept, workflow.Consumed))},
		"a repeat at once counts twice": {"race-signals", countsTwiceLocked()},
		"an old owner writes":           {"race-take", eachVerdict(forgive(workflow.ErrMail)).and(anyFence)},
		"rows are locked as they come":  {"race-groups", locksInOrder},
		"notes of starts only":          {"notes", func(b *broken) { b.hear = func(n workflow.Note) bool { return n.Run == "" } }},
		"notes of owners only":          {"notes", func(b *broken) { b.hear = func(n workflow.Note) bool { return n != workflow.Note{} } }},
	})
}

// and returns a fault that is both.
func (f fault) and(other fault) fault {
	return func(b *broken) {
		f(b)
		other(b)
	}
}

// slowClaims lets others come between a claim and what the new owner does.
func slowClaims(b *broken) {
	eachClaimed(func(*claimed) {
		for range 200 {
			runtime.Gosched()
		}
	})(b)
}

func looksFirst(tells receipt) fault {
	return func(b *broken) {
		send := b.send
		b.send = func(ctx context.Context, messages []message) ([]receipt, error) {
			running := b.run(messages[0].Run).Status == workflow.Running
			runtime.Gosched()
			receipts, err := send(ctx, messages)
			if err == nil && running && receipts[0] == workflow.Over {
				receipts[0] = tells
			}
			return receipts, err
		}
	}
}

func countsTwiceLocked() fault {
	var mu sync.Mutex
	n := 0
	return func(b *broken) {
		eachMessage(func(m *message) {
			mu.Lock()
			defer mu.Unlock()
			n++
			m.ID += strings.Repeat("+", n%20)
		})(b)
	}
}

func anyFence(b *broken) {
	fences(func(e *entry, f lock.Fence) { e.Fence = f })(b)
}

// locksInOrder locks the runs of a group one by one, in the order of the group.
func locksInOrder(b *broken) {
	locks := make(map[string]chan struct{})
	for i := range 8 {
		locks["r"+string(rune('0'+i))] = make(chan struct{}, 1)
	}
	write := b.write
	b.write = func(ctx context.Context, entries []entry) ([]error, error) {
		for _, e := range entries {
			select {
			case locks[e.Run] <- struct{}{}:
				defer func() { <-locks[e.Run] }()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			runtime.Gosched()
		}
		return write(ctx, entries)
	}
}
