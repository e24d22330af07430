package pgworkflow

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// again is the receipt of a message whose run has changed while the statement waited for it.
const again workflow.Receipt = "again"

// Send implements [workflow.Front]. A message is one statement, a Cancel three and a Rewind four. All are one
// transaction in one round trip. A message whose run changes meanwhile is sent again.
func (f *front) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	if err := workflow.ValidateSend(messages); err != nil || len(messages) == 0 {
		return nil, err
	}
	receipts := make([]workflow.Receipt, len(messages))
	order := sorted(messages, func(a, b *workflow.Message) int { return cmp.Compare(a.Run, b.Run) })
	family, err := f.sendAll(ctx, messages, order, receipts)
	if err == nil {
		err = f.note(ctx, append(news(messages, receipts), family...)...)
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
			if a == workflow.Rewind {
				notes = append(notes, workflow.Note{})
			}
		case r == workflow.Applied, r == workflow.Consumed, r == workflow.Kept:
			notes = append(notes, workflow.Note{})
		}
	}
	return notes
}

// sendAll gives messages in an order. It returns notes of the descendants that are cancelled.
func (f *front) sendAll(
	ctx context.Context, messages []workflow.Message, order []int, receipts []workflow.Receipt,
) (family []workflow.Note, err error) {
	for range tries {
		var found []workflow.Note
		err := f.db.Answered(ctx, func() error {
			found = nil
			calls := make([]call, 0, len(order))
			for _, i := range order {
				receipts[i] = workflow.Unknown
				calls = append(calls, f.sends(&messages[i], &receipts[i], &found)...)
			}
			return f.pipe(ctx, calls)
		})
		switch {
		case pgstate.Of(err) != pgstate.DivisionByZero:
		case f.conn == nil: // see cancelLeft
			continue
		default:
			err = fmt.Errorf("%w: children were started meanwhile: repeat the transaction: %w", workflow.ErrRefused,
				err)
		}
		if err != nil {
			return nil, err
		}
		family = append(family, found...)
		var left []int
		for _, i := range order {
			if receipts[i] == again {
				left = append(left, i)
			}
		}
		if order = left; len(order) == 0 {
			return family, nil
		}
	}
	return nil, changing("run")
}

// sends gives a message. If its run is there, it sets the receipt. It notes the descendants that are cancelled.
func (f *front) sends(m *workflow.Message, to *workflow.Receipt, found *[]workflow.Note) []call {
	sql, args := f.sql.signal, []any{m.Run}
	set := each(func() {}, (*string)(to), nil)
	switch m.Action {
	case workflow.Cancel:
		return append([]call{{f.sql.cancel, args, set}}, cancels(f.sql.cancelFamily, f.sql.cancelLeft, args, found)...)
	case workflow.Rewind:
		nonce := rand.Text()
		lock := call{f.sql.lockRun, args, each(func() {}, nil)}
		calls := []call{lock, {f.sql.rewind, []any{m.Run, m.Event, nonce}, set}}
		forsaken := cancels(f.sql.cancelForsaken, f.sql.forsakenLeft, []any{m.Run, nonce}, found)
		return append(calls, forsaken...)
	case workflow.Pause:
		sql = f.sql.pause
	case workflow.Resume:
		sql = f.sql.resume
	default:
		args = append(args, m.ID, m.Event, orNull(m.Payload), m.Wanted)
	}
	return []call{{sql, args, set}}
}

// cancels cancels descendants, and notes them.
func cancels(family, left string, args []any, found *[]workflow.Note) []call {
	var id string
	return []call{
		{family, args, each(func() { *found = append(*found, workflow.Note{Run: id}) }, &id, nil)},
		{left, args, each(func() {}, nil)},
	}
}
