package pginbox

import "github.com/holdfast-go/holdfast/internal/postgres/pgstate"

// schemaSQL is idempotent. The primary key makes the first item of an id the only one, and finds the items of a
// session. inbox_order lists the items of a kind in the order of the contract: of one session, and of all.
//
// CHECKs would cost more than a save, as in package pgcheckpoint.
var schemaSQL = `CREATE TABLE IF NOT EXISTS {inbox} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    posted_by    text COLLATE "C" NOT NULL,
    shown        text COLLATE "C" NOT NULL,
    at           timestamptz NOT NULL,
    data         jsonb       NOT NULL,
    PRIMARY KEY (orchestrator, session, kind, id)
) WITH (toast_tuple_target = 4080);

CREATE INDEX IF NOT EXISTS {inbox_order} ON {inbox} (orchestrator, kind, session, at, id);
` + pgstate.LZ4("attrelid = '{inbox}'::regclass AND attname = 'data'",
	"ALTER TABLE {inbox} ALTER COLUMN data SET COMPRESSION lz4")

// Schema returns statements that may be run again, and that fail if they would hide a table which is there: see
// pgstate.Unhidden.
func (s *Store) Schema() string {
	return pgstate.Unhidden(s.db.Prefix, tables...) + pgstate.Unlocked(names(s.db, "").Replace(schemaSQL))
}
