package sqliteinbox

import (
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// The table has row ids. Otherwise the data would be in the tree that is searched, and a search would read the data
// beside the item that it looks for.
const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}inbox (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	kind         TEXT    NOT NULL CHECK (kind <> ''),
	id           TEXT    NOT NULL CHECK (id <> ''),
	posted_by    TEXT    NOT NULL CHECK (posted_by <> ''),
	shown        TEXT    NOT NULL,
	at           INTEGER NOT NULL CHECK (at >= 0), -- µs
	data         TEXT    NOT NULL, -- JSON, and the last: the others are found without reading it
	PRIMARY KEY (orchestrator, session, kind, id)
) STRICT;
CREATE INDEX IF NOT EXISTS {prefix}inbox_order ON {prefix}inbox (orchestrator, kind, session, at, id);
`

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{{
		Name: "{prefix}inbox", Columns: "orchestrator session kind id posted_by shown at data",
		Indexes: "{prefix}inbox_order",
	}},
	Statements: []string{
		postSQL, postedSQL, listSQL, listBriefSQL, listAllSQL, listAllBriefSQL, aloneSQL, removeSQL, removeKindSQL,
		removeAllSQL,
	},
}

// Schema implements migrations.Schemer.
func (s *Store) Schema() string { return s.db.Schema() }
