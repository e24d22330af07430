package sqlitecheckpoint

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
)

const restSQL = `DELETE FROM {prefix}beats WHERE process = ?1`

// Rest is one statement.
func (s *Store) Rest(ctx context.Context, process string) error {
	st, err := s.db.Start(ctx, checkpoint.ValidateRest(process))
	var leave func()
	if err == nil {
		leave, err = s.db.Enter(ctx)
	}
	if err == nil {
		defer leave()
		_, err = st[restSQL].ExecContext(ctx, process)
	}
	if err != nil {
		return fmt.Errorf("sqlitecheckpoint: rest: %w", s.db.Explain(ctx, err))
	}
	return nil
}
