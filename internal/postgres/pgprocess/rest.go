package pgprocess

import (
	"context"

	"github.com/holdfast-go/holdfast/lock"
)

const restSQL = `DELETE FROM {beats} WHERE process = $1`

// Rest is one statement.
func (p *Processes) Rest(ctx context.Context, process string) error {
	if err := lock.ValidateRest(process); err != nil {
		return err
	}
	err := p.db.Answered(ctx, func() error {
		_, err := p.db.Exec(ctx, p.rest, process)
		return err
	})
	return p.error(ctx, "rest", err)
}
