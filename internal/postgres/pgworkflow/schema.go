package pgworkflow

import (
	"github.com/holdfast-go/holdfast/internal/postgres/pgprocess"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// schemaSQL is idempotent. A run is one row, which is also its message. due is NULL while a process owns the run, and
// when the run is over. It is infinity while only a signal or a Resume can wake the run. crashed is how many rows the
// journal had when an owner last lost the run.
//
// Almost each update of a run changes a column of an index, so that it makes an entry in every other index. Therefore
// there are few:
//
//   - workflow_runs_due serves claims, takeovers and the next timer. Runs that are over cost them nothing.
//   - workflow_runs_key makes a start with a key the only one.
//   - workflow_runs_list has the runs of a workflow and a status in the order of the contract. A list of all goes
//     through the few pairs of these.
//   - workflow_runs_event has the runs of a workflow that wait for an event, the longest wait first.
//   - workflow_runs_parent has the children of a run in the order of the contract. Other runs are not in it.
//   - workflow_runs_over has the runs that Sweep deletes, by the end of their retention. Together with
//     workflow_runs_due it tells the greatest version that is kept.
//   - workflow_runs_place has the runs of a group, and those that have begun within a limit. Other runs are not in it.
//
// place is NULL, "=" and the group of a run, or "!" and the group, if any, once the run has begun within a limit.
//
// CHECKs would cost more than a save, as in package pgcheckpoint. parent comes last, where ALTER TABLE puts a column.
var schemaSQL = `CREATE TABLE IF NOT EXISTS {workflow_runs} (
    id        text COLLATE "C" NOT NULL PRIMARY KEY,
    workflow  text COLLATE "C" NOT NULL,
    version   integer     NOT NULL,
    status    text COLLATE "C" NOT NULL DEFAULT 'running',
    hold      text COLLATE "C" NOT NULL DEFAULT '',
    due       timestamptz,
    owner     text COLLATE "C" NOT NULL DEFAULT '',
    epoch     bigint      NOT NULL DEFAULT 0,
    nonce     text COLLATE "C" NOT NULL DEFAULT '',
    since     timestamptz NOT NULL,
    mail      bigint      NOT NULL DEFAULT 0,
    event     text COLLATE "C",
    match     jsonb,
    crashes   integer     NOT NULL DEFAULT 0,
    crashed   bigint      NOT NULL DEFAULT -1,
    key       text COLLATE "C",
    retention integer     NOT NULL,
    started   timestamptz NOT NULL,
    completed timestamptz,
    error     text        NOT NULL DEFAULT '',
    input     jsonb       NOT NULL,
    output    jsonb,
    parent    text COLLATE "C",
    place     text COLLATE "C"
) WITH (fillfactor = 70, toast_tuple_target = 4080, autovacuum_vacuum_scale_factor = 0.02);

-- The table of an earlier version.
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute
        WHERE attrelid = '{workflow_runs}'::regclass AND attname = 'parent' AND NOT attisdropped) THEN
        ALTER TABLE {workflow_runs} ADD COLUMN IF NOT EXISTS parent text COLLATE "C";
    END IF; -- else the table would be locked for nothing
END $$;

CREATE INDEX IF NOT EXISTS {workflow_runs_due} ON {workflow_runs} (workflow, version, due) WHERE status = 'running';

CREATE UNIQUE INDEX IF NOT EXISTS {workflow_runs_key} ON {workflow_runs} (workflow, key) WHERE key IS NOT NULL;

CREATE INDEX IF NOT EXISTS {workflow_runs_list} ON {workflow_runs} (workflow, status, started DESC, id DESC);

CREATE INDEX IF NOT EXISTS {workflow_runs_event} ON {workflow_runs} (event, workflow, since, id) WHERE event IS NOT NULL;

CREATE INDEX IF NOT EXISTS {workflow_runs_over} ON {workflow_runs} (workflow, version, ({expires})) WHERE status <> 'running';

CREATE INDEX IF NOT EXISTS {workflow_runs_parent} ON {workflow_runs} (parent, started DESC, id DESC) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS {workflow_runs_place} ON {workflow_runs} (workflow, place, due) WHERE status = 'running' AND place IS NOT NULL;

CREATE TABLE IF NOT EXISTS {workflow_steps} (
    run       text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    idx       integer     NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    outcome   text COLLATE "C" NOT NULL,
    attempts  integer     NOT NULL,
    until     timestamptz,
    signal    text COLLATE "C" NOT NULL,
    started   timestamptz NOT NULL,
    completed timestamptz NOT NULL,
    error     text        NOT NULL,
    output    jsonb,
    PRIMARY KEY (run, name)
) WITH (toast_tuple_target = 4080);

CREATE TABLE IF NOT EXISTS {workflow_signals} (
    run     text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    event   text COLLATE "C" NOT NULL,
    at      timestamptz NOT NULL,
    taken   text COLLATE "C" NOT NULL DEFAULT '',
    payload jsonb       NOT NULL,
    PRIMARY KEY (run, id)
) WITH (toast_tuple_target = 4080);

CREATE TABLE IF NOT EXISTS {workflow_definitions} (
    workflow text COLLATE "C" NOT NULL,
    version  integer     NOT NULL,
    process  text COLLATE "C" NOT NULL,
    at       timestamptz NOT NULL,
    PRIMARY KEY (workflow, version, process)
);

CREATE TABLE IF NOT EXISTS {workflow_limits} (
    workflow text COLLATE "C" NOT NULL PRIMARY KEY,
    holder   bigint      NOT NULL DEFAULT 0,
    tokens   float8      NOT NULL DEFAULT 'Infinity',
    at       timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS {workflow_subscriptions} (
    id       text COLLATE "C" NOT NULL PRIMARY KEY,
    pattern  text NOT NULL,
    workflow text NOT NULL,
    url      text NOT NULL,
    session  text NOT NULL
);
` + pgstate.LZ4(`attrelid IN ('{workflow_runs}'::regclass, '{workflow_steps}'::regclass, '{workflow_signals}'::regclass)
                AND attname IN ('input', 'output', 'payload')`,
	"ALTER TABLE {workflow_runs} ALTER COLUMN input SET COMPRESSION lz4, ALTER COLUMN output SET COMPRESSION lz4",
	"ALTER TABLE {workflow_steps} ALTER COLUMN output SET COMPRESSION lz4",
	"ALTER TABLE {workflow_signals} ALTER COLUMN payload SET COMPRESSION lz4")

// Schema returns statements that may be run again, and that fail if they would hide tables which are there: see
// pgstate.Unhidden. If the store has no Processes of others, the statements create their tables too.
func (s *Store) Schema() string {
	schema := schemaSQL
	if s.alone {
		schema += pgprocess.Schema
	}
	return pgstate.Unhidden(s.db.Prefix, tables...) + pgstate.Unlocked(names(s.db).Replace(schema))
}
