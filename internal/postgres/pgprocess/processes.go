// Package pgprocess keeps in PostgreSQL which processes are alive, and which of them watches. The stores of a database
// share it.
package pgprocess

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/lock"
)

// Tables end the names of the tables.
var Tables = []string{"watches", "beats"}

// Schema creates the tables {watches} and {beats}.
const Schema = watchesSchema + beatsSchema

// Processes implement [lock.Beater] and [lock.Watcher].
type Processes struct {
	db                      *pgstate.DB
	watch, beat, look, rest string
	home                    pulse.Home
}

var (
	_ lock.Beater  = (*Processes)(nil)
	_ lock.Watcher = (*Processes)(nil)
)

// New returns the processes of a database.
func New(db *pgstate.DB) *Processes {
	p := &Processes{db: db, watch: watchSQL, beat: beatSQL, look: lookSQL, rest: restSQL}
	names := strings.NewReplacer("{watches}", db.Prefix.Table("watches"), "{beats}", db.Prefix.Table("beats"))
	pgstate.Fill(names, &p.watch, &p.beat, &p.look, &p.rest)
	return p
}

// Pulse returns the pulse of this process in the database, whatever store asks.
func (p *Processes) Pulse(lock.Beater) *pulse.Pulse { return p.home.Pulse(p) }
