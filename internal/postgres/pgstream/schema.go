package pgstream

import (
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
)

// schemaSQL is idempotent. Each Append updates the row of its session. No column of an index changes then, so the
// update is heap-only. The row leaves room on its page for its next versions. Rows of chunks are written once.
const schemaSQL = `CREATE TABLE IF NOT EXISTS {streams} (
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
` + pgsweep.Schema + `
-- Without lz4, and before PostgreSQL 14, the default compression serves.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        IF EXISTS (SELECT FROM pg_attribute
            WHERE attrelid = '{chunks}'::regclass AND attname = 'data' AND attcompression <> 'l') THEN
            EXECUTE 'ALTER TABLE {chunks} ALTER COLUMN data SET COMPRESSION lz4';
        END IF; -- else the table would be locked for nothing
    END IF;
END $$;
`

// Schema returns statements that may be run again, and that fail if they would hide tables which are there: see
// pgstate.Unhidden.
func (s *Store) Schema() string {
	return pgstate.Unhidden(s.db.Prefix, tables...) + pgstate.Unlocked(names(s.db, s.ttl).Replace(schemaSQL))
}
