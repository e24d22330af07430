package sqliteworkflow

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const raiseSQL = `
	UPDATE {prefix}workflow_runs SET epoch = epoch + 1, owner = '', due = ?1
	WHERE status = 'running' AND owner <> ''`

// Raise implements lock.Raiser. It takes every run from its owner, and makes it due. The owner may have outcomes in mind
// that the journal has lost. It returns how many runs had an owner.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	err = s.write(ctx, "raise", nil, func(do run) error {
		n, err := sqlitestore.Affected(do.Exec(ctx, raiseSQL, clock().UnixMicro()))
		ended = int(n)
		return err
	})
	if err == nil && ended > 0 {
		s.Tell(workflow.Note{})
	}
	return ended, err
}
