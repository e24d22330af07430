package pgturnlog

import "github.com/holdfast-go/holdfast/internal/postgres/pgstate"

// schemaSQL is idempotent. An entry is written once. The row of its run is updated by each entry. Neither last nor
// started nor settled is in an index, so the update is heap-only, except if it opens or closes the turn. The row leaves
// room on its page for its next version.
//
//   - The primary key of phases finds the entries of a run in their order.
//   - logged_first and logged_session list turns in the order of their first entries.
//   - logged_open lists the turns that are open. It has one entry for each of them.
//
// No index serves Prune: each turn would have to keep that index.
// CHECKs would cost more than a save, as in package pgcheckpoint.
var schemaSQL = `CREATE TABLE IF NOT EXISTS {phases} (
    run   text COLLATE "C" NOT NULL,
    at    timestamptz NOT NULL,
    phase text COLLATE "C" NOT NULL,
    state jsonb       NOT NULL,
    PRIMARY KEY (run, at, phase)
) WITH (toast_tuple_target = 4080);

CREATE TABLE IF NOT EXISTS {logged} (
    run          text COLLATE "C" NOT NULL PRIMARY KEY,
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    turn         integer     NOT NULL,
    first        timestamptz NOT NULL,
    last         timestamptz NOT NULL,
    started      timestamptz,
    settled      timestamptz,
    open         boolean     NOT NULL
) WITH (fillfactor = 80);

CREATE INDEX IF NOT EXISTS {logged_first} ON {logged} (first, run);

CREATE INDEX IF NOT EXISTS {logged_session} ON {logged} (session, first, run);

CREATE INDEX IF NOT EXISTS {logged_open} ON {logged} (first, run) WHERE open;
` + pgstate.LZ4("attrelid = '{phases}'::regclass AND attname = 'state'",
	"ALTER TABLE {phases} ALTER COLUMN state SET COMPRESSION lz4")

// Schema returns statements that may be run again, and that fail if they would hide tables which are there: see
// pgstate.Unhidden.
func (l *Log) Schema() string {
	return pgstate.Unhidden(l.db.Prefix, tables...) + pgstate.Unlocked(whole(l.db).Replace(schemaSQL))
}
