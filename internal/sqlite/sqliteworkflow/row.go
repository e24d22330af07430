package sqliteworkflow

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	readSQL = small + `error, (SELECT input FROM {prefix}workflow_inputs WHERE run = id), match, output,
		coalesce(parent, '')` + listed

	// briefSQL leaves out what may lie on pages of its own.
	briefSQL = small + `'', NULL, NULL, NULL, ''` + listed

	small = `
		SELECT id, workflow, version, status, hold, coalesce(key, ''), ` + groupText + `, retention, started, completed,
			due, owner, event, `

	// groupText is the group of a run.
	groupText = `coalesce((SELECT name FROM {prefix}workflow_groups WHERE run = id), '')`

	listed = `
		FROM {prefix}workflow_runs WHERE id IN (SELECT value FROM json_each(?1))`
)

// A finding is a run, and its damage if no store wrote it.
type finding struct {
	workflow.Run

	match  json.RawMessage
	damage error
}

// scan reads a run, and judges it. The error of scan is that of the database.
func scan(rows *sql.Rows) (f finding, err error) {
	r := &f.Run
	var started int64
	var completed, due sql.NullInt64
	err = rows.Scan(&r.ID, &r.Workflow, &r.Version, (*string)(&r.Status), (*string)(&r.Hold), &r.Key, &r.Group,
		&r.RetentionDays, &started, &completed, &due, &r.Owner, &r.Event, &r.Error, (*[]byte)(&r.Input),
		(*[]byte)(&f.match), (*[]byte)(&r.Output), &r.Parent)
	r.Started = time.UnixMicro(started).UTC()
	if r.Completed = at(completed); due.Int64 < never {
		r.Due = at(due)
	}
	if err == nil {
		f.damage = r.Intact()
	} else {
		f.damage = workflow.Damaged(r.ID, err)
	}
	return f, rows.Err()
}

// at returns a time as it is kept.
func at(micro sql.NullInt64) time.Time {
	if !micro.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micro.Int64).UTC()
}

// read returns runs by id. If SQLite cannot read them all, read reads them one by one. Of a run that cannot be read it
// returns what can.
func (do run) read(ctx context.Context, ids ...string) (map[string]finding, error) {
	all, err := do.readWith(ctx, readSQL, ids...)
	if !sqlitestore.Corrupt(err) {
		return all, err
	}
	if len(ids) == 1 {
		damage := workflow.Damaged(ids[0], err)
		all, err = do.readWith(ctx, briefSQL, ids...)
		for id, f := range all {
			f.damage = damage
			all[id] = f
		}
		return all, err
	}
	all = make(map[string]finding, len(ids))
	for _, id := range ids {
		alone, err := do.read(ctx, id)
		if err != nil {
			return nil, err
		}
		for id, f := range alone {
			all[id] = f
		}
	}
	return all, nil
}

func (do run) readWith(ctx context.Context, text string, ids ...string) (map[string]finding, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	rows, err := do.Query(ctx, text, string(list))
	found, err := sqlitestore.Collect(rows, err, scan)
	all := make(map[string]finding, len(found))
	for _, f := range found {
		all[f.ID] = f
	}
	return all, err
}

// damaged returns the error of a call that concerns a run. After it has met what it cannot read, SQLite commits
// nothing.
func damaged(run string, err error) error {
	if sqlitestore.Corrupt(err) {
		return workflow.Damaged(run, err)
	}
	return err
}
