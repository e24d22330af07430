package sqliteworkflow

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/retention"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	startSQL = `
		INSERT INTO {prefix}workflow_runs (id, workflow, version, key, retention, started, since, due, owner, epoch, nonce)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10)
		ON CONFLICT DO NOTHING`

	childSQL = `
		INSERT INTO {prefix}workflow_runs (
			id, workflow, version, key, retention, started, since, due, owner, epoch, nonce, parent)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11)
		ON CONFLICT DO NOTHING`

	parentSQL = `SELECT status FROM {prefix}workflow_runs WHERE id = ?1`

	groupSQL = `INSERT INTO {prefix}workflow_groups (run, name) VALUES (?1, ?2)`

	inputSQL = `INSERT INTO {prefix}workflow_inputs (run, input) VALUES (?1, ?2)`

	knownSQL = `SELECT id, workflow, version, status FROM {prefix}workflow_runs WHERE id = ?1`
	keySQL   = `SELECT id, workflow, version, status FROM {prefix}workflow_runs WHERE workflow = ?1 AND key = ?2`

	// A debounced start looks for the run with its key, and moves it or takes its key.
	debouncedSQL = `
		SELECT id, version, status = 'running' AND nonce = '' FROM {prefix}workflow_runs WHERE workflow = ?1 AND key = ?2`
	moveSQL    = `UPDATE {prefix}workflow_runs SET due = iif(due = ` + neverText + `, due, ?2) WHERE id = ?1`
	replaceSQL = `UPDATE {prefix}workflow_inputs SET input = ?2 WHERE run = ?1`
	passSQL    = `UPDATE {prefix}workflow_runs SET key = NULL WHERE id = ?1`

	// versionSQL finds the greatest version that a living process has, and the greatest of a run that is kept.
	versionSQL = `
		SELECT (SELECT max(version) FROM {prefix}workflow_definitions WHERE workflow = ?1 AND at > ?2),
			(SELECT max(version) FROM {prefix}workflow_runs WHERE workflow = ?1)`
)

// Start implements [workflow.Front].
func (c front) Start(ctx context.Context, runs []workflow.NewRun) (started []workflow.Started, err error) {
	err = c.write(ctx, "start", workflow.ValidateStart(runs), func(do run) error {
		started = make([]workflow.Started, len(runs))
		for i := range runs {
			if started[i], err = do.start(ctx, &runs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(runs, func(n workflow.NewRun) bool { return n.Owner == "" }) {
		c.note(workflow.Note{})
	}
	return started, nil
}

func (do run) start(ctx context.Context, n *workflow.NewRun) (s workflow.Started, err error) {
	now := clock()
	s = workflow.Started{ID: n.ID, Version: n.Version, Status: workflow.Running}
	if n.Version == 0 {
		if s.Version, err = do.version(ctx, n.Workflow, now.Add(-workflow.LivingFor).UnixMicro()); err != nil {
			return s, err
		}
	}
	if n.Parent != "" || n.From != "" {
		if k, err := do.find(ctx, n); err != nil || k == nil {
			if err = cmp.Or(err, do.mayStart(ctx, n)); err != nil {
				return s, err
			}
		}
	}
	if n.Debounce {
		if moved, err := do.debounce(ctx, n, now.Add(n.Delay).UnixMicro()); err != nil || moved.ID != "" {
			return moved, err
		}
	}
	due := sql.NullInt64{Int64: now.Add(n.Delay).UnixMicro(), Valid: n.Owner == ""}
	text, args := startSQL, []any{
		n.ID, n.Workflow, s.Version, orNone(n.Key), retention.Days(n.RetentionDays, do.most), now.UnixMicro(), due,
		n.Owner, n.Fence.Epoch, n.Fence.Nonce,
	}
	switch {
	case n.Parent != "":
		text, args = childSQL, append(args, n.Parent)
	case n.From != "":
		args[8] = 1 // its first owner has to read the journal
	}
	s.New, err = do.Wrote(ctx, text, args...)
	switch {
	case err != nil:
		return s, err
	case s.New:
		if n.Group != "" {
			_, err = do.Exec(ctx, groupSQL, n.ID, n.Group)
		}
		if err == nil {
			_, err = do.Exec(ctx, inputSQL, n.ID, document(n.Input))
		}
		if err == nil && n.From != "" {
			_, err = do.Exec(ctx, copySQL, n.From, n.FromStep, n.ID)
		}
		return s, err
	}
	return do.known(ctx, n)
}

// debounce moves the run that has the key, and tells of it. If the run has begun or is over, it loses its key.
func (do run) debounce(ctx context.Context, n *workflow.NewRun, due int64) (s workflow.Started, err error) {
	same, err := sqlitestore.One(ctx, do.Runner, scanKnown, knownSQL, n.ID)
	if err != nil || same != nil { // it comes again
		return s, err
	}
	var moves bool
	k, err := sqlitestore.One(ctx, do.Runner, func(rows *sql.Rows) (k workflow.Started, err error) {
		err = rows.Scan(&k.ID, &k.Version, &moves)
		return k, err
	}, debouncedSQL, n.Workflow, n.Key)
	switch {
	case err != nil || k == nil:
		return s, err
	case !moves:
		_, err = do.Exec(ctx, passSQL, k.ID)
		return s, err
	}
	k.Status = workflow.Running
	_, err = do.Exec(ctx, moveSQL, k.ID, due)
	if err == nil {
		_, err = do.Exec(ctx, replaceSQL, k.ID, document(n.Input))
	}
	return *k, err
}

// mayStart refuses a run whose parent is not running, or that begins at a step which is not there.
func (do run) mayStart(ctx context.Context, n *workflow.NewRun) error {
	if n.From != "" {
		there, err := sqlitestore.One(ctx, do.Runner, scanOne, fromStepSQL, n.From, n.FromStep)
		if err == nil && there == nil {
			err = workflow.ErrNotFound
		}
		return err
	}
	status, err := sqlitestore.One(ctx, do.Runner, sqlitestore.ScanText, parentSQL, n.Parent)
	switch {
	case err != nil:
		return err
	case status == nil:
		return workflow.ErrNotFound
	case workflow.Status(*status) != workflow.Running:
		return workflow.ErrOver
	}
	return nil
}

// find returns the run that has the id or the key; nil if there is none.
func (do run) find(ctx context.Context, n *workflow.NewRun) (k *known, err error) {
	k, err = sqlitestore.One(ctx, do.Runner, scanKnown, knownSQL, n.ID)
	if err == nil && k == nil {
		k, err = sqlitestore.One(ctx, do.Runner, scanKnown, keySQL, n.Workflow, n.Key)
	}
	return k, err
}

// known tells of the run that has the id or the key.
func (do run) known(ctx context.Context, n *workflow.NewRun) (s workflow.Started, err error) {
	k, err := do.find(ctx, n)
	switch {
	case err != nil:
		return s, err
	case k == nil:
		return s, fmt.Errorf("run %q was not added, and is not known", n.ID)
	}
	if n.Debounce && k.workflow == n.Workflow { // its input may have been replaced
		return k.Started, nil
	}
	in, err := do.inputs(ctx, k.ID)
	switch {
	case sqlitestore.Corrupt(err):
		return s, workflow.Damaged(k.ID, err)
	case err != nil:
		return s, err
	case k.workflow != n.Workflow || !same(in[k.ID], n.Input):
		return s, workflow.ErrKeyReused
	}
	return k.Started, nil
}

// orNone returns a text as it is kept. "" is NULL.
func orNone(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

// A known is a run that was started before.
type known struct {
	workflow.Started

	workflow string
}

func scanKnown(rows *sql.Rows) (k known, err error) {
	err = rows.Scan(&k.ID, &k.workflow, &k.Version, (*string)(&k.Status))
	return k, err
}

// same reports whether two documents are equal as JSON values.
func same(a, b json.RawMessage) bool {
	x, err1 := jsonvalue.Canonical(a)
	y, err2 := jsonvalue.Canonical(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// version returns the version of a start that gives none.
func (do run) version(ctx context.Context, name string, livingSince int64) (int, error) {
	v, err := sqlitestore.One(ctx, do.Runner, scanVersions, versionSQL, name, livingSince)
	if err != nil {
		return 0, err
	}
	return int(cmp.Or(v[0].Int64, v[1].Int64, 1)), nil
}

func scanVersions(rows *sql.Rows) (v [2]sql.NullInt64, err error) {
	err = rows.Scan(&v[0], &v[1])
	return v, err
}

// document returns doc as it is kept. nil is null.
func document(doc json.RawMessage) string {
	if doc == nil {
		return "null"
	}
	return string(doc)
}
