// Package sqliteprocess keeps in an SQLite database which processes are alive. The stores of a database share it.
package sqliteprocess

import (
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

// Schema creates the table of a prefix.
const Schema = `CREATE TABLE IF NOT EXISTS {prefix}beats (
	process TEXT    NOT NULL PRIMARY KEY,
	beats   INTEGER NOT NULL,
	at      INTEGER NOT NULL -- µs
) STRICT, WITHOUT ROWID;
`

// Table is the table, for the layout of a store.
var Table = sqlitestore.Table{Name: "{prefix}beats", Columns: "process beats at"}

// Statements are what the layout of a store has to prepare.
var Statements = []string{beatSQL, silentSQL, lookSQL, restSQL}

// Processes implement [lock.Beater]. Each process watches: on SQLite a question would cost a commit.
type Processes struct {
	db   *sqlitestore.DB
	home pulse.Home
}

var _ lock.Beater = (*Processes)(nil)

// New returns the processes of a database. The layout of db has Table and Statements.
func New(db *sqlitestore.DB) *Processes { return &Processes{db: db} }

// Pulse returns the pulse of this process in the database, whatever store asks.
func (p *Processes) Pulse(lock.Beater) *pulse.Pulse { return p.home.Pulse(p) }
