package sqliteworkflow

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const countsSQL = `
		SELECT workflow, status, count(*) FROM {prefix}workflow_runs INDEXED BY {prefix}workflow_runs_list
		GROUP BY workflow, status`

// Counts implements [workflow.Front]. It reads an index from end to end.
func (c front) Counts(ctx context.Context) (map[string]map[workflow.Status]int, error) {
	do, err := c.reader(ctx, nil)
	counts := make(map[string]map[workflow.Status]int)
	if err == nil {
		rows, e := do.Query(ctx, countsSQL)
		_, err = sqlitestore.Collect(rows, e, func(rows *sql.Rows) (n int, err error) {
			var name, status string
			err = rows.Scan(&name, &status, &n)
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
