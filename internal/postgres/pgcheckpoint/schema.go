package pgcheckpoint

import (
	"github.com/holdfast-go/holdfast/internal/postgres/pgprocess"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
)

// schemaSQL is idempotent. The head row is narrow and leaves room on its page. A claim, a settle without a reply to
// deliver, and a failed delivery change no column of an index. So they are heap-only updates. A state of some KiB stays
// in its row: out of line it would cost two more writes. The tables check nothing that the store checks before.
// PostgreSQL parses and plans each CHECK anew for every statement, which was a tenth of its work for a turn.
var schemaSQL = `CREATE TABLE IF NOT EXISTS {sessions} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    epoch        bigint      NOT NULL,
    nonce        text        NOT NULL,
    owner        text        NOT NULL,
    lease_until  timestamptz NOT NULL,
    born         bigint      NOT NULL,
    turn         integer     NOT NULL DEFAULT -1,
    first        integer     NOT NULL DEFAULT 0,
    pruned       integer     NOT NULL DEFAULT 0,
    summarized   integer     NOT NULL DEFAULT 0,
    owed         integer,
    failed       integer     NOT NULL DEFAULT 0,
    retry_at     timestamptz,
    PRIMARY KEY (orchestrator, session)
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS {sessions_owed} ON {sessions} (orchestrator, session) WHERE owed IS NOT NULL;

CREATE TABLE IF NOT EXISTS {turns} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    turn         integer     NOT NULL,
    state        jsonb       NOT NULL,
    payload      jsonb,
    route        text[]      NOT NULL DEFAULT '{}',
    signature    text        NOT NULL,
    version      text        NOT NULL,
    run_id       text        NOT NULL,
    request_id   text,
    saved_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (orchestrator, session, turn)
) WITH (toast_tuple_target = 4080);

CREATE INDEX IF NOT EXISTS {turns_request} ON {turns} (orchestrator, session, request_id) WHERE request_id IS NOT NULL;
` + pgstate.LZ4("attrelid = '{turns}'::regclass AND attname IN ('state', 'payload')", `ALTER TABLE {turns}
                ALTER COLUMN state SET COMPRESSION lz4, ALTER COLUMN payload SET COMPRESSION lz4`) + `
-- By default a fifth of the table would be dead turns before they are removed. A setting that is there stays.
DO $$ DECLARE leaf regclass; BEGIN
    FOR leaf IN
        SELECT oid FROM pg_class
        WHERE relkind = 'r'
            AND oid IN (SELECT '{turns}'::regclass UNION ALL SELECT relid FROM pg_partition_tree('{turns}'))
            AND NOT EXISTS (SELECT FROM unnest(reloptions) AS o WHERE o LIKE 'autovacuum_vacuum_scale_factor=%')
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0.02)', leaf);
    END LOOP;
END $$;
` + labelsSQL + pgsweep.Schema + pgprocess.Schema

// labelsSQL makes the table of the labels. A settle writes to it only if the labels change, and touches no more of the
// head than any settle. The primary key serves the listings by label, and labels_due those by time, which is in
// milliseconds. labels_session finds the labels of one session. Its order is not that of ORDER BY, so that no listing
// walks all sessions by it.
const labelsSQL = `
CREATE TABLE IF NOT EXISTS {labels} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    label        text COLLATE "C" NOT NULL,
    due          bigint,
    PRIMARY KEY (orchestrator, label, session)
);

CREATE INDEX IF NOT EXISTS {labels_session} ON {labels} (orchestrator, session text_pattern_ops);

CREATE INDEX IF NOT EXISTS {labels_due} ON {labels} (orchestrator, label, due, session) WHERE due IS NOT NULL;
`

// Schema returns statements that may be run again, and that fail if they would hide tables which are there: see
// pgstate.Unhidden. With [Options].Functions they create the functions too.
func (s *Store) Schema() string {
	schema := pgstate.Unhidden(s.db.Prefix, "sessions", "turns", "labels") + pgstate.Unlocked(s.Fill(schemaSQL))
	if s.calls != nil {
		schema += s.Functions()
	}
	return schema
}
