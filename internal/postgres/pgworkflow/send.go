package pgworkflow

import (
	"cmp"
	"context"

	"github.com/holdfast-go/holdfast/workflow"
)

// again is the receipt of a message whose run has changed while the statement waited for it.
const again workflow.Receipt = "again"

// Send implements [workflow.Front]. A message is one statement, and all are one transaction in one round trip. A
// message whose run changes meanwhile is sent again.
func (f *front) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	if err := workflow.ValidateSend(messages); err != nil || len(messages) == 0 {
		return nil, err
	}
	receipts := make([]workflow.Receipt, len(messages))
	order := sorted(messages, func(a, b *workflow.Message) int { return cmp.Compare(a.Run, b.Run) })
	err := f.sendAll(ctx, messages, order, receipts)
	if err == nil {
		err = f.note(ctx, news(messages, receipts)...)
	}
	if err != nil {
		return nil, f.error(ctx, "send", "", err)
	}
	return receipts, nil
}

// news tells what the messages have changed.
func news(messages []workflow.Message, receipts []workflow.Receipt) (notes []workflow.Note) {
	for i, r := range receipts {
		switch a := messages[i].Action; {
		case r == workflow.Applied && a != workflow.Resume:
			notes = append(notes, workflow.Note{Run: messages[i].Run})
		case r == workflow.Applied, r == workflow.Consumed, r == workflow.Kept:
			notes = append(notes, workflow.Note{})
		}
	}
	return notes
}

func (f *front) sendAll(
	ctx context.Context, messages []workflow.Message, order []int, receipts []workflow.Receipt,
) error {
	for range tries {
		err := f.db.Answered(ctx, func() error {
			calls := make([]call, 0, len(order))
			for _, i := range order {
				receipts[i] = workflow.Unknown
				calls = append(calls, f.sends(&messages[i], &receipts[i]))
			}
			return f.pipe(ctx, calls)
		})
		if err != nil {
			return err
		}
		var left []int
		for _, i := range order {
			if receipts[i] == again {
				left = append(left, i)
			}
		}
		if order = left; len(order) == 0 {
			return nil
		}
	}
	return changing("run")
}

// sends gives a message. If its run is there, it sets the receipt.
func (f *front) sends(m *workflow.Message, to *workflow.Receipt) call {
	sql, args := f.sql.signal, []any{m.Run}
	switch m.Action {
	case workflow.Cancel:
		sql = f.sql.cancel
	case workflow.Pause:
		sql = f.sql.pause
	case workflow.Resume:
		sql = f.sql.resume
	default:
		args = append(args, m.ID, m.Event, orNull(m.Payload), m.Wanted)
	}
	return call{sql, args, each(func() {}, (*string)(to), nil)}
}
