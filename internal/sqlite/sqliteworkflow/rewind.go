package sqliteworkflow

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

// In these statements s is a row of the run ?1, and f the row of the step ?2.
const (
	fromStepSQL = `
		SELECT 1 FROM {prefix}workflow_runs r JOIN {prefix}workflow_steps s ON s.run = r.id
		WHERE r.id = ?1 AND s.name = ?2`

	// copySQL copies what has ended before the step. A wait of the copy was not ended by a signal to it.
	copySQL = `
		INSERT INTO {prefix}workflow_steps (run, name, idx, kind, outcome, attempts, until, signal, started, completed,
			error, output)
		SELECT ?3, s.name, s.idx, s.kind, s.outcome, s.attempts, s.until, '', s.started, s.completed, s.error, s.output
		FROM {prefix}workflow_steps f CROSS JOIN {prefix}workflow_steps s ON s.run = f.run
		WHERE f.run = ?1 AND f.name = ?2 AND ` + beforeSQL + `
			AND (s.outcome = 'done' OR s.outcome = 'timeout' OR s.outcome = 'failed')`

	untakeSQL = `
		UPDATE {prefix}workflow_signals SET taken = 0 WHERE run = ?1 AND taken <> 0 AND id IN (
			SELECT s.signal FROM {prefix}workflow_steps f CROSS JOIN {prefix}workflow_steps s ON s.run = f.run
			WHERE f.run = ?1 AND f.name = ?2 AND NOT ` + beforeSQL + `)`

	dropFromSQL = `
		DELETE FROM {prefix}workflow_steps WHERE run = ?1 AND name IN (
			SELECT s.name FROM {prefix}workflow_steps f CROSS JOIN {prefix}workflow_steps s ON s.run = f.run
			WHERE f.run = ?1 AND f.name = ?2 AND NOT ` + beforeSQL + `)`

	rewindSQL = `
		UPDATE {prefix}workflow_runs SET status = 'running', hold = '', error = '', output = NULL, completed = NULL,
			expires = NULL, due = ?2, owner = '', event = '', match = NULL, epoch = epoch + 1, crashes = 0, crashed = -1
		WHERE id = ?1`

	// forsakenSQL finds the children that no row knows.
	forsakenSQL = `
		SELECT id FROM {prefix}workflow_runs m INDEXED BY {prefix}workflow_runs_parent
		WHERE parent = ?1 AND NOT EXISTS (
			SELECT 1 FROM {prefix}workflow_steps
			WHERE run = ?1 AND kind = 'child' AND outcome = 'open' AND json_extract(output, '$') = m.id)`

	// beforeSQL is Step.Before.
	beforeSQL = `iif(rtrim(s.name, replace(s.name, '/', '')) = rtrim(f.name, replace(f.name, '/', '')),
			s.idx < f.idx, s.started < f.started)`
)

// rewind takes a run back to before a step. It returns the descendants that are cancelled.
func (do run) rewind(ctx context.Context, run, step string) (r workflow.Receipt, notes []workflow.Note, err error) {
	there, err := sqlitestore.One(ctx, do.Runner, scanOne, fromStepSQL, run, step)
	if err != nil || there == nil {
		return workflow.Unknown, nil, err
	}
	w, err := sqlitestore.One(ctx, do.Runner, scanWaiting, waitSQL, run)
	if err != nil || w.status == workflow.Completed || w.status == workflow.Cancelled {
		return workflow.Over, nil, err
	}
	for _, text := range []string{untakeSQL, dropFromSQL} {
		if _, err := do.Exec(ctx, text, run, step); err != nil {
			return "", nil, err
		}
	}
	if _, err := do.Exec(ctx, rewindSQL, run, clock().UnixMicro()); err != nil {
		return "", nil, err
	}
	rows, err := do.Query(ctx, forsakenSQL, run)
	children, err := sqlitestore.Collect(rows, err, sqlitestore.ScanText)
	for _, id := range children {
		var family []workflow.Note
		if err == nil {
			family, err = do.cancelOne(ctx, id)
		}
		notes = append(notes, family...)
	}
	return workflow.Applied, notes, err
}

// cancelOne cancels a run, if it is running, and its descendants.
func (do run) cancelOne(ctx context.Context, id string) (notes []workflow.Note, err error) {
	w, err := sqlitestore.One(ctx, do.Runner, scanWaiting, waitSQL, id)
	if err == nil && w.status == workflow.Running {
		_, err = do.Exec(ctx, cancelSQL, id, clock().UnixMicro())
		notes = append(notes, workflow.Note{Run: id})
	}
	if err != nil {
		return nil, err
	}
	family, err := do.cancelFamily(ctx, id)
	return append(notes, family...), err
}
