package pgstream

import (
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
)

// schemaSQL is idempotent. Each Append updates the row of its session. No column of an index changes then, so the
// update is heap-only. The row leaves room on its page for its next versions. Rows of chunks are written once.
var schemaSQL = `CREATE TABLE IF NOT EXISTS {streams} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    epoch        bigint      NOT NULL,
    status       text        NOT NULL,
    run          text        NOT NULL,
    start        bigint      NOT NULL,
    first        bigint      NOT NULL,
    last         bigint      NOT NULL,
    at           timestamptz NOT NULL,
    life         uuid        NOT NULL,
    PRIMARY KEY (orchestrator, session)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS {chunks} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    first        bigint      NOT NULL,
    last         bigint      NOT NULL,
    run          text        NOT NULL,
    size         integer     NOT NULL,
    data         json        NOT NULL,
    PRIMARY KEY (orchestrator, session, last)
) WITH (toast_tuple_target = 4080);
` + pgsweep.Schema + pgstate.LZ4("attrelid = '{chunks}'::regclass AND attname = 'data'",
	"ALTER TABLE {chunks} ALTER COLUMN data SET COMPRESSION lz4")

// Schema returns statements that may be run again, and that fail if they would hide tables which are there: see
// pgstate.Unhidden.
func (s *Store) Schema() string {
	return pgstate.Unhidden(s.db.Prefix, tables...) + pgstate.Unlocked(names(s.db, s.ttl).Replace(schemaSQL))
}
