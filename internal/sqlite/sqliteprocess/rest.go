package sqliteprocess

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
)

const restSQL = `DELETE FROM {prefix}beats WHERE process = ?1`

// Rest is one statement.
func (p *Processes) Rest(ctx context.Context, process string) error {
	st, err := p.db.Start(ctx, lock.ValidateRest(process))
	var leave func()
	if err == nil {
		leave, err = p.db.Enter(ctx)
	}
	if err == nil {
		defer leave()
		_, err = st[restSQL].ExecContext(ctx, process)
	}
	if err != nil {
		return fmt.Errorf("sqliteprocess: rest: %w", p.db.Explain(ctx, err))
	}
	return nil
}
