package pgworkflow

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// Raise implements lock.Raiser. It takes every run from its owner, and makes it due. The owner may have outcomes in
// mind that the journal has lost. It returns how many runs had an owner.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	ended, err = pgstate.One(ctx, s.db, scanCount, s.sql.raise)
	if err == nil && ended > 0 {
		s.tell(workflow.Note{})
	}
	return ended, s.error(ctx, "raise", "", err)
}
