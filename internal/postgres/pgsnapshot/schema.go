package pgsnapshot

import (
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
)

// schemaSQL is idempotent. A session has one row, which is updated in place. The payload stays in the row, and the row
// leaves room on its page for its next version. So a save touches one page and no index. The payload is the last
// column: if a save does not change it, only the columns before it go to the log.
//
// The indexes of the runs in flight make lists cheap, and make a Begin and a Delete touch the indexes too.
// runs_inflight has all of them. runs_drain has those that wait for no person, so that a drain does not walk past the
// others. A save that changes the status touches the indexes, because runs_drain depends on it.
//
// found is the highest epoch of a Begin that has found a run in flight. CHECKs would cost more than a save, as in
// package pgcheckpoint.
const schemaSQL = `CREATE TABLE IF NOT EXISTS {runs} (
    orchestrator    text COLLATE "C" NOT NULL,
    session         text COLLATE "C" NOT NULL,
    epoch           bigint      NOT NULL,
    nonce           text        NOT NULL,
    found           bigint      NOT NULL,
    id              text        NOT NULL,
    status          text        NOT NULL,
    seq             bigint      NOT NULL,
    turn            integer     NOT NULL,
    attempt         integer     NOT NULL,
    parts           boolean     NOT NULL,
    payload_version bigint      NOT NULL,
    not_before      timestamptz,
    started_at      timestamptz NOT NULL,
    saved_at        timestamptz NOT NULL,
    deleted_at      timestamptz,
    request_id      text        NOT NULL,
    base            text        NOT NULL,
    error           text        NOT NULL,
    payload         jsonb,
    PRIMARY KEY (orchestrator, session)
) WITH (toast_tuple_target = 4080, fillfactor = 50);

CREATE INDEX IF NOT EXISTS {runs_inflight} ON {runs} (orchestrator, session) WHERE deleted_at IS NULL;

CREATE INDEX IF NOT EXISTS {runs_drain} ON {runs} (orchestrator, session) WHERE deleted_at IS NULL AND {unattended};

CREATE TABLE IF NOT EXISTS {run_parts} (
    orchestrator    text COLLATE "C" NOT NULL,
    session         text COLLATE "C" NOT NULL,
    payload_version bigint      NOT NULL,
    name            text COLLATE "C" NOT NULL,
    doc             jsonb       NOT NULL,
    PRIMARY KEY (orchestrator, session, payload_version, name)
) WITH (toast_tuple_target = 4080);

-- Without lz4, and before PostgreSQL 14, the default compression serves.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        IF EXISTS (SELECT FROM pg_attribute
            WHERE attrelid IN ('{runs}'::regclass, '{run_parts}'::regclass) AND attname IN ('payload', 'doc')
                AND attcompression <> 'l') THEN
            EXECUTE 'ALTER TABLE {runs} ALTER COLUMN payload SET COMPRESSION lz4';
            EXECUTE 'ALTER TABLE {run_parts} ALTER COLUMN doc SET COMPRESSION lz4';
        END IF; -- else the tables would be locked for nothing
    END IF;
END $$;
` + pgsweep.Schema

// Schema returns statements that may be run again, and that fail if they would hide tables which are there: see
// pgstate.Unhidden. With [Options].Functions they create the functions too.
func (s *Store) Schema() string {
	schema := pgstate.Unhidden(s.db.Prefix, "runs", "run_parts") + pgstate.Unlocked(names(s.db).Replace(schemaSQL))
	if s.calls != nil {
		schema += s.Functions()
	}
	return schema
}
