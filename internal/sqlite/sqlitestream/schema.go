package sqlitestream

import (
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}streams (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	epoch        INTEGER NOT NULL CHECK (epoch > 0),
	status       TEXT    NOT NULL CHECK (status <> ''),
	run          TEXT    NOT NULL CHECK (run <> ''), -- the newest
	start        INTEGER NOT NULL, -- the first chunk of the newest run
	first        INTEGER NOT NULL, -- the first chunk that is kept
	last         INTEGER NOT NULL, -- the last chunk
	at           INTEGER NOT NULL, -- µs, of the last append
	life         INTEGER NOT NULL, -- differs after the session was forgotten and has begun anew
	PRIMARY KEY (orchestrator, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {prefix}chunks (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	first        INTEGER NOT NULL CHECK (first > 0),
	last         INTEGER NOT NULL CHECK (last >= first),
	run          TEXT    NOT NULL CHECK (run <> ''),
	data         TEXT    NOT NULL, -- a JSON array, and the last: the others are found without reading it
	PRIMARY KEY (orchestrator, session, last)
) STRICT;
`

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{
		{Name: "{prefix}streams", Columns: "orchestrator session epoch status run start first last at life"},
		{Name: "{prefix}chunks", Columns: "orchestrator session first last run data"},
	},
	Statements: []string{
		appendSQL, addSQL, trimSQL, headSQL, deleteSQL, deleteChunksSQL, pageSQL, startsSQL, askSQL,
		sliceSQL,
	},
}

// Schema implements migrations.Schemer.
func (s *Store) Schema() string { return s.db.Schema() }
