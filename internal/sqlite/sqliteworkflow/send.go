package sqliteworkflow

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	waitSQL = `
		SELECT status, due IS NOT NULL AND hold = '', event, match FROM {prefix}workflow_runs WHERE id = ?1`

	signalSQL = `
		INSERT INTO {prefix}workflow_signals (run, id, event, at, payload)
		VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (run, id) DO NOTHING`

	signalledSQL = `SELECT 1 FROM {prefix}workflow_signals WHERE run = ?1 AND id = ?2`

	mailSQL = `UPDATE {prefix}workflow_runs SET mail = mail + 1 WHERE id = ?1`

	wakeSQL = `
		UPDATE {prefix}workflow_runs SET mail = mail + 1, due = min(due, ?2), event = '', match = NULL
		WHERE id = ?1`

	cancelSQL = `
		UPDATE {prefix}workflow_runs SET status = 'cancelled', completed = ?2, expires = ?2 + retention * ` + dayText + `,
			hold = '', error = '', due = NULL, owner = '', event = '', match = NULL, epoch = epoch + 1
		WHERE id = ?1`

	pauseSQL = `
		UPDATE {prefix}workflow_runs SET hold = 'paused', error = '', due = ?2, owner = '', event = '', match = NULL,
			epoch = epoch + 1
		WHERE id = ?1`

	resumeSQL = `
		UPDATE {prefix}workflow_runs SET hold = '', error = '', due = ?2, crashes = 0
		WHERE id = ?1 AND hold <> ''`

	dayText = `86400000000` // µs
)

// Send implements [workflow.Front]. The messages are one transaction.
func (c front) Send(
	ctx context.Context, messages []workflow.Message,
) (receipts []workflow.Receipt, err error) {
	var notes []workflow.Note
	err = c.write(ctx, "send", workflow.ValidateSend(messages), func(do run) error {
		receipts, notes = make([]workflow.Receipt, len(messages)), nil
		for i := range messages {
			if receipts[i], err = do.send(ctx, &messages[i]); err != nil {
				return damaged(messages[i].Run, err)
			}
			if n, ok := noteOf(&messages[i], receipts[i]); ok && !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.note(notes...)
	return receipts, nil
}

// noteOf returns what the engines want to know of a message.
func noteOf(m *workflow.Message, r workflow.Receipt) (n workflow.Note, ok bool) {
	switch {
	case r == workflow.Unknown, r == workflow.Over, r == workflow.Unwanted:
		return n, false
	case m.Action == workflow.Cancel, m.Action == workflow.Pause:
		return workflow.Note{Run: m.Run}, true
	}
	return n, true
}

func (do run) send(ctx context.Context, m *workflow.Message) (workflow.Receipt, error) {
	w, err := sqlitestore.One(ctx, do.Runner, scanWaiting, waitSQL, m.Run)
	switch {
	case err != nil:
		return "", err
	case w == nil:
		return workflow.Unknown, nil
	case w.status != workflow.Running:
		return workflow.Over, nil
	case m.Action == workflow.Signal:
		return do.signal(ctx, m, w)
	}
	now := clock().UnixMicro()
	switch m.Action {
	case workflow.Cancel:
		_, err = do.Exec(ctx, cancelSQL, m.Run, now)
	case workflow.Pause:
		_, err = do.Exec(ctx, pauseSQL, m.Run, int64(never))
	case workflow.Resume:
		_, err = do.Exec(ctx, resumeSQL, m.Run, now)
	}
	return workflow.Applied, err
}

// A waiting is a run as a message finds it.
type waiting struct {
	status workflow.Status
	idle   bool // no process owns it, and it is not held
	event  string
	match  json.RawMessage
}

func scanWaiting(rows *sql.Rows) (w waiting, err error) {
	err = rows.Scan((*string)(&w.status), &w.idle, &w.event, (*[]byte)(&w.match))
	return w, err
}

// signal gives a signal to a run that is not over.
func (do run) signal(ctx context.Context, m *workflow.Message, w *waiting) (workflow.Receipt, error) {
	payload := document(m.Payload)
	hit := w.idle && w.event == m.Event && workflow.Contains(json.RawMessage(payload), w.match)
	if m.Wanted && !hit {
		known, err := sqlitestore.One(ctx, do.Runner, scanOne, signalledSQL, m.Run, m.ID)
		if err != nil || known != nil {
			return workflow.Kept, err
		}
		return workflow.Unwanted, nil
	}
	now := clock().UnixMicro()
	isNew, err := do.Wrote(ctx, signalSQL, m.Run, m.ID, m.Event, now, payload)
	if err != nil || !isNew {
		return workflow.Kept, err
	}
	if hit || w.idle && w.event == workflow.AnyEvent {
		_, err = do.Exec(ctx, wakeSQL, m.Run, now)
	} else {
		_, err = do.Exec(ctx, mailSQL, m.Run)
	}
	if hit {
		return workflow.Consumed, err
	}
	return workflow.Kept, err
}

func scanOne(rows *sql.Rows) (n int64, err error) {
	err = rows.Scan(&n)
	return n, err
}
