package pgworkflow

import (
	"context"

	"github.com/holdfast-go/holdfast/workflow"
)

// Counts implements [workflow.Front]. It reads an index from end to end.
func (f *front) Counts(ctx context.Context) (counts map[string]map[workflow.Status]int, err error) {
	var name, status string
	var n int
	read := each(func() {
		if counts[name] == nil {
			counts[name] = make(map[workflow.Status]int)
		}
		counts[name][workflow.Status(status)] = n
	}, &name, &status, &n)
	err = f.db.Answered(ctx, func() error {
		counts = make(map[string]map[workflow.Status]int)
		return f.pipe(ctx, []call{{f.sql.counts, nil, read}})
	})
	if err != nil {
		return nil, f.error(ctx, "counts", "", err)
	}
	return counts, nil
}
