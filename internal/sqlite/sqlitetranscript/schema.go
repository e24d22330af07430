package sqlitetranscript

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// The table has row ids. Otherwise the bodies would be in the tree that is searched, and a search would read the bodies
// beside the entry that it looks for.
const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}messages (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	first        INTEGER NOT NULL CHECK (first > 0), -- number of a message
	last         INTEGER NOT NULL CHECK (last >= first),
	id           TEXT             CHECK (id <> ''), -- NULL if the entry was copied
	at           INTEGER NOT NULL, -- µs
	body         TEXT    NOT NULL, -- JSON, and the last: the others are found without reading it
	PRIMARY KEY (orchestrator, session, first)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}messages_id ON {prefix}messages (orchestrator, session, id)
	WHERE id IS NOT NULL;

CREATE TABLE IF NOT EXISTS {prefix}message_raises (
	number INTEGER PRIMARY KEY -- all sessions go on behind the highest
) STRICT;
`

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{
		{
			Name: "{prefix}messages", Columns: "orchestrator session first last id at body",
			Indexes: "{prefix}messages_id",
		},
		{Name: "{prefix}message_raises", Columns: "number"},
	},
	Statements: []string{
		appendSQL, knownSQL, pageSQL, briefSQL, bodySQL, copySQL, takenSQL, trimSQL, trimAllSQL, raiseSQL,
	},
}

// within returns the condition of the entries of a table that have a number of from to through. Entries have no number
// in common. So the first of them is the last one that begins at from or before, if there is one.
func within(table, orchestrator, session, from, through string) string {
	return strings.NewReplacer(
		"m.", table+".", "{o}", orchestrator, "{s}", session, "{from}", from, "{through}", through,
	).Replace(`m.orchestrator = {o} AND m.session = {s}
			AND m.first >= coalesce((
				SELECT max(b.first) FROM {prefix}messages b
				WHERE b.orchestrator = {o} AND b.session = {s} AND b.first <= {from}
			), {from})
			AND m.first <= {through} AND m.last >= {from}`)
}

// Schema implements migrations.Schemer.
func (s *Store) Schema() string { return s.db.Schema() }
