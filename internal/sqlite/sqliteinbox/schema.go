package sqliteinbox

import (
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// In all SQL below {prefix} stands for Options.Prefix.
//
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

func layout(prefix string) sqlitestore.Layout {
	return sqlitestore.Layout{
		Prefix: prefix,
		Tables: []sqlitestore.Table{{
			Name: "{prefix}inbox", Columns: "orchestrator session kind id posted_by shown at data",
			Indexes: "{prefix}inbox_order",
		}},
		Statements: []string{
			postSQL, postedSQL, listSQL, listBriefSQL, listAllSQL, listAllBriefSQL, aloneSQL, removeSQL, removeKindSQL,
			removeAllSQL,
		},
		Verdicts: []error{inbox.ErrDamaged, inbox.ErrInvalid},
		Missing:  inbox.ErrSchema,
		Refused:  inbox.ErrRefused,
		Damaged:  inbox.ErrDamaged,
	}
}

// Schema returns the statements that create what the store needs and is not there yet. They change nothing that is.
func (s *Store) Schema() string { return s.db.SQL(schemaSQL) }
