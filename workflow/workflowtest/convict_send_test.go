package workflowtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

type (
	message = workflow.Message
	receipt = workflow.Receipt
)

func TestSuiteConvictsSend(t *testing.T) {
	convict(t, map[string]mutant{
		"a kept signal is lost":         {"signal-kept", losesKept},
		"a payload is lost":             {"signal-kept", eachMessage(func(m *message) { m.Payload = nil })},
		"a kept signal wakes the run":   {"signal-kept", wakes(workflow.Kept)},
		"consumed is not told":          {"signal-consumed", eachReceipt(instead(workflow.Consumed, workflow.Kept))},
		"all signals are consumed":      {"signal-consumed", eachReceipt(instead(workflow.Kept, workflow.Consumed))},
		"a match is ignored":            {"signal-other", eachEntry(func(e *entry) { e.Match = nil })},
		"an event is ignored":           {"signal-other", eachEntry(func(e *entry) { anyEvent(e) })},
		"events have no case":           {"signal-other", eachMessage(func(m *message) { m.Event = strings.ToLower(m.Event) })},
		"two waits sleep on":            {"signal-any", eachEntry(func(e *entry) { onlyOneEvent(e) })},
		"a repeat counts twice":         {"signal-again", countsTwice},
		"a repeat is consumed again":    {"signal-again", consumesAgain},
		"ids are of all runs":           {"signal-again", globalSignals},
		"an unwanted signal is kept":    {"signal-wanted", eachMessage(func(m *message) { m.Wanted = false })},
		"an unwanted signal counts":     {"signal-wanted", wakes(workflow.Unwanted)},
		"over is kept":                  {"signal-nowhere", eachReceipt(instead(workflow.Over, workflow.Kept))},
		"nowhere is over":               {"signal-nowhere", eachReceipt(instead(workflow.Unknown, workflow.Over))},
		"a held run consumes":           {"signal-held", heldConsumes},
		"a mailbox is by id":            {"signal-order", journals(byID)},
		"receipts are in any order":     {"send-many", receiptsReversed},
		"at most 100 messages":          {"send-many", func(b *broken) { b.send = atMost(b.send) }},
		"a cancel is told twice":        {"cancel", eachReceipt(instead(workflow.Over, workflow.Applied))},
		"a cancel changes nothing":      {"cancel", skips(workflow.Cancel)},
		"a cancel fails the run":        {"cancel", eachRun(func(r *run) { cancelFails(r) })},
		"a pause changes nothing":       {"pause", skips(workflow.Pause)},
		"a pause leaves the owner":      {"pause", eachRun(func(r *run) { pausedOwned(r) })},
		"a resume wakes what sleeps":    {"resume", wakesAll},
		"a resume fences the owner off": {"resume", wakesAll},
	})
}

func instead(one, other receipt) func(*message, *receipt) {
	return func(m *message, r *receipt) {
		if *r == one {
			*r = other
		}
	}
}

func losesKept(b *broken) {
	eachMessage(func(m *message) {
		if m.Action == workflow.Signal {
			m.Wanted = true
		}
	})(b)
	eachReceipt(instead(workflow.Unwanted, workflow.Kept))(b)
}

// wakes pauses and resumes a run after a receipt.
func wakes(after receipt) fault {
	return func(b *broken) {
		eachReceipt(func(m *message, r *receipt) {
			if *r == after {
				_, _ = b.Memory.Send(context.Background(), []message{
					{Run: m.Run, Action: workflow.Pause}, {Run: m.Run, Action: workflow.Resume},
				})
			}
		})(b)
	}
}

func anyEvent(e *entry) {
	if e.Event != "" {
		e.Event = workflow.AnyEvent
	}
}

func onlyOneEvent(e *entry) {
	if e.Event == workflow.AnyEvent {
		e.Event = "all of them"
	}
}

func countsTwice(b *broken) {
	n := 0
	eachMessage(func(m *message) {
		n++
		m.ID += strings.Repeat("+", n)
	})(b)
}

func consumesAgain(b *broken) {
	consumed := make(map[string]bool)
	eachReceipt(func(m *message, r *receipt) {
		if key := m.Run + " " + m.ID; consumed[key] && *r == workflow.Kept {
			*r = workflow.Consumed
		} else {
			consumed[key] = *r == workflow.Consumed
		}
	})(b)
}

func globalSignals(b *broken) {
	of := make(map[string]string)
	b.send = before(b.send, func(m *message) {
		if of[m.ID] == "" {
			of[m.ID] = m.Run
		}
		if m.Action == workflow.Signal && of[m.ID] != m.Run && b.run(m.Run).Status == workflow.Running {
			m.Wanted, m.Event = true, "nobody waits for this"
		}
	})
}

func heldConsumes(b *broken) {
	eachReceipt(func(m *message, r *receipt) {
		if *r == workflow.Kept && b.run(m.Run).Hold != "" {
			*r = workflow.Consumed
		}
	})(b)
}

func byID(all []row) []row {
	slices.SortStableFunc(all, func(a, b row) int { return strings.Compare(a.Signal, b.Signal) })
	return all
}

func receiptsReversed(b *broken) {
	send := b.send
	b.send = func(ctx context.Context, messages []message) ([]receipt, error) {
		receipts, err := send(ctx, messages)
		slices.Reverse(receipts)
		return receipts, err
	}
}

func skips(a workflow.Action) fault {
	return func(b *broken) {
		send := b.send
		b.send = func(ctx context.Context, messages []message) ([]receipt, error) {
			if len(messages) == 1 && messages[0].Action == a {
				return []receipt{workflow.Applied}, nil
			}
			return send(ctx, messages)
		}
	}
}

func cancelFails(r *run) {
	if r.Status == workflow.Cancelled {
		r.Status = workflow.Failed
	}
}

func pausedOwned(r *run) {
	if r.Hold == workflow.Paused {
		r.Owner = "a"
	}
}

func wakesAll(b *broken) {
	send := b.send
	b.send = func(ctx context.Context, messages []message) ([]receipt, error) {
		if len(messages) == 1 && messages[0].Action == workflow.Resume {
			_, _ = send(ctx, []message{{Run: messages[0].Run, Action: workflow.Pause}})
		}
		return send(ctx, messages)
	}
}
