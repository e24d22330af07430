package sqliteworkflow

import (
	"context"
	"database/sql"
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const countsSQL = `
		SELECT workflow, status, count(*) FROM {prefix}workflow_runs INDEXED BY {prefix}workflow_runs_list
		GROUP BY workflow, status`

const runningSQL = `
		SELECT workflow, 'running', count(*) FROM {prefix}workflow_runs INDEXED BY {prefix}workflow_runs_due
		WHERE status = 'running' GROUP BY workflow`

// Counts implements [workflow.Front]. It reads an index from end to end. That of the runs that are running has no other
// ones.
func (c front) Counts(ctx context.Context, of ...workflow.Status) (map[string]map[workflow.Status]int, error) {
	if err := workflow.ValidateStatuses(of); err != nil {
		return nil, err
	}
	read := countsSQL
	if len(of) > 0 && !slices.ContainsFunc(of, workflow.Status.Over) {
		read = runningSQL
	}
	do, err := c.reader(ctx, nil)
	counts := make(map[string]map[workflow.Status]int)
	if err == nil {
		rows, e := do.Query(ctx, read)
		_, err = sqlitestore.Collect(rows, e, func(rows *sql.Rows) (n int, err error) {
			var name, status string
			err = rows.Scan(&name, &status, &n)
			if len(of) > 0 && !slices.Contains(of, workflow.Status(status)) {
				return n, err
			}
			if counts[name] == nil {
				counts[name] = make(map[workflow.Status]int)
			}
			counts[name][workflow.Status(status)] = n
			return n, err
		})
	}
	if err != nil {
		return nil, c.explain(ctx, "counts", err)
	}
	return counts, nil
}
