package sqliteturnlog

import (
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// The table of phases has row ids. Otherwise the states would be in the tree that is searched, and a search would read
// the states beside the one that it looks for.
//
// An entry touches one page of phases and one of its key, and the row of its run. Of the indexes of logged it touches
// none, except if it is the first entry of a run, or opens or settles the turn. No index serves Prune: each turn would
// have to keep that index.
const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}phases (
	run   TEXT    NOT NULL CHECK (run <> ''),
	at    INTEGER NOT NULL CHECK (at >= 0), -- ms
	phase TEXT    NOT NULL CHECK (phase <> ''),
	state TEXT    NOT NULL, -- JSON, and the last: the others are found without reading it
	PRIMARY KEY (run, at, phase)
) STRICT;
CREATE TABLE IF NOT EXISTS {prefix}logged (
	run          TEXT    NOT NULL PRIMARY KEY CHECK (run <> ''),
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	turn         INTEGER NOT NULL CHECK (turn >= 0),
	first        INTEGER NOT NULL, -- ms
	last         INTEGER NOT NULL, -- ms
	started      INTEGER,          -- ms, of the last 'started'
	settled      INTEGER,          -- ms, of the last 'settled'
	open         INTEGER NOT NULL CHECK (open = 0 OR open = 1) -- 0 if settled is after started
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {prefix}logged_first ON {prefix}logged (first, run);
CREATE INDEX IF NOT EXISTS {prefix}logged_session ON {prefix}logged (session, first, run);
CREATE INDEX IF NOT EXISTS {prefix}logged_open ON {prefix}logged (first, run) WHERE open = 1;
`

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{
		{Name: "{prefix}phases", Columns: "run at phase state"},
		{Name: "{prefix}logged", Columns: "run orchestrator session turn first last started settled open"},
	},
	Statements: []string{
		addSQL, lineSQL, knownSQL, restoreSQL, restoreBriefSQL, listSQL, listOpenSQL, listSessionSQL, listBriefSQL,
		listOpenBriefSQL, listSessionBriefSQL, sliceSQL, forgetPhasesSQL, forgetSQL,
	},
}

// Schema implements migrations.Schemer.
func (l *Log) Schema() string { return l.db.Schema() }
