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

	// familySQL finds the descendants of a run that are running.
	familySQL = `
		WITH RECURSIVE d (id) AS (
			SELECT id FROM {prefix}workflow_runs INDEXED BY {prefix}workflow_runs_parent WHERE parent = ?1
			UNION ALL
			SELECT m.id FROM d CROSS JOIN {prefix}workflow_runs m INDEXED BY {prefix}workflow_runs_parent ON m.parent = d.id
		)
		SELECT m.id FROM d CROSS JOIN {prefix}workflow_runs m ON m.id = d.id WHERE m.status = 'running'`

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
			r, family, err := do.send(ctx, &messages[i])
			if err != nil {
				return damaged(messages[i].Run, err)
			}
			receipts[i] = r
			for _, n := range append(notesOf(&messages[i], r), family...) {
				if !slices.Contains(notes, n) {
					notes = append(notes, n)
				}
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

// notesOf returns what the engines want to know of a message.
func notesOf(m *workflow.Message, r workflow.Receipt) []workflow.Note {
	switch {
	case r == workflow.Unknown, r == workflow.Over, r == workflow.Unwanted:
		return nil
	case m.Action == workflow.Cancel, m.Action == workflow.Pause:
		return []workflow.Note{{Run: m.Run}}
	case m.Action == workflow.Rewind:
		return []workflow.Note{{Run: m.Run}, {}}
	}
	return []workflow.Note{{}}
}

// send gives a message. It returns notes of the descendants that are cancelled.
func (do run) send(ctx context.Context, m *workflow.Message) (r workflow.Receipt, family []workflow.Note, err error) {
	if m.Action == workflow.Rewind {
		return do.rewind(ctx, m.Run, m.Event)
	}
	w, err := sqlitestore.One(ctx, do.Runner, scanWaiting, waitSQL, m.Run)
	switch {
	case err != nil:
		return "", nil, err
	case w == nil:
		return workflow.Unknown, nil, nil
	case w.status != workflow.Running:
		return workflow.Over, nil, nil
	case m.Action == workflow.Signal:
		r, err = do.signal(ctx, m, w)
		return r, nil, err
	}
	now := clock().UnixMicro()
	switch m.Action {
	case workflow.Cancel:
		if _, err = do.Exec(ctx, cancelSQL, m.Run, now); err == nil {
			family, err = do.cancelFamily(ctx, m.Run)
		}
	case workflow.Pause:
		_, err = do.Exec(ctx, pauseSQL, m.Run, int64(never))
	case workflow.Resume:
		_, err = do.Exec(ctx, resumeSQL, m.Run, now)
	}
	return workflow.Applied, family, err
}

// cancelFamily cancels the descendants of a run that are running.
func (do run) cancelFamily(ctx context.Context, run string) (notes []workflow.Note, err error) {
	rows, err := do.Query(ctx, familySQL, run)
	family, err := sqlitestore.Collect(rows, err, sqlitestore.ScanText)
	for _, id := range family {
		if err == nil {
			_, err = do.Exec(ctx, cancelSQL, id, clock().UnixMicro())
		}
		notes = append(notes, workflow.Note{Run: id})
	}
	return notes, err
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
