package pgworkflow

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/workflow"
)

// Counts implements [workflow.Front]. It reads an index from end to end. That of the runs that are running has no other
// ones.
func (f *front) Counts(
	ctx context.Context, of ...workflow.Status,
) (counts map[string]map[workflow.Status]int, err error) {
	if err := workflow.ValidateStatuses(of); err != nil {
		return nil, err
	}
	sql := f.sql.counts
	if len(of) > 0 && !slices.ContainsFunc(of, workflow.Status.Over) {
		sql = f.sql.running
	}
	var name, status string
	var n int
	read := each(func() {
		if len(of) > 0 && !slices.Contains(of, workflow.Status(status)) {
			return
		}
		if counts[name] == nil {
			counts[name] = make(map[workflow.Status]int)
		}
		counts[name][workflow.Status(status)] = n
	}, &name, &status, &n)
	err = f.db.Answered(ctx, func() error {
		counts = make(map[string]map[workflow.Status]int)
		return f.pipe(ctx, []call{{sql, nil, read}})
	})
	if err != nil {
		return nil, f.error(ctx, "counts", "", err)
	}
	return counts, nil
}
