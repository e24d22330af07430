// Package pgprocess keeps in PostgreSQL which processes are alive, and which of them watches. The stores of a database
// share it.
package pgprocess

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// Suffixes end the names of the tables.
var Suffixes = []string{"watches", "beats"}

// Schema creates the tables {watches} and {beats}.
const Schema = watchesSchema + beatsSchema

func fill(p sqlname.Prefix, text string) string {
	return strings.NewReplacer("{watches}", p.Table("watches"), "{beats}", p.Table("beats")).Replace(text)
}

// Processes implement [lock.Beater] and [lock.Watcher].
type Processes struct {
	db                      *pgstate.DB
	prefix                  sqlname.Prefix
	watch, beat, look, rest string
	home                    pulse.Home
}

var (
	_ lock.Beater  = (*Processes)(nil)
	_ lock.Watcher = (*Processes)(nil)
)

// New returns the processes of a database.
func New(db *pgstate.DB, p sqlname.Prefix) *Processes {
	return &Processes{
		db: db, prefix: p,
		watch: fill(p, watchSQL), beat: fill(p, beatSQL), look: fill(p, lookSQL), rest: fill(p, restSQL),
	}
}

// Pulse returns the pulse of this process in the database, whatever store asks.
func (p *Processes) Pulse(lock.Beater) *pulse.Pulse { return p.home.Pulse(p) }

// error adds the name of the operation that failed. If the driver only tells of a broken connection, error adds the end
// of ctx.
func (p *Processes) error(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case pgstate.Missing(err):
		return fmt.Errorf("pgprocess: %s: %w: %s or %s: run migrations.Up, or Schema for a prefix of your own"+
			"; if they are there, the role lacks USAGE on their schema: %w",
			op, store.ErrSchema, p.prefix.Plain("beats"), p.prefix.Plain("watches"), err)
	case pgstate.Refused(err):
		err = fmt.Errorf("%w: %s%w", store.ErrRefused, pgstate.Remedy(err), err)
	}
	return fmt.Errorf("pgprocess: %s: %w", op, pgstate.Ended(ctx, err))
}
