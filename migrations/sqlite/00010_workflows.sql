-- The tables of the runs of workflows: see package workflow. The table of beats, which they share with the sessions, is
-- there since the file checkpoints.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE IF NOT EXISTS holdfast_workflow_runs (
	id        TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
	workflow  TEXT    NOT NULL CHECK (workflow <> ''),
	version   INTEGER NOT NULL CHECK (version > 0),
	status    TEXT    NOT NULL DEFAULT 'running', -- checked below, without IN, for which SQLite builds a table at each write
	hold      TEXT    NOT NULL DEFAULT '',
	due       INTEGER,                    -- µs; 2^62 if only a signal wakes it, NULL while it is owned and once it is over
	owner     TEXT    NOT NULL DEFAULT '',
	since     INTEGER NOT NULL,           -- µs: when its owner got it, or since when it waits
	epoch     INTEGER NOT NULL,
	nonce     TEXT    NOT NULL,           -- '' before its first owner
	mail      INTEGER NOT NULL DEFAULT 0, -- signals that have come
	event     TEXT    NOT NULL DEFAULT '',
	crashes   INTEGER NOT NULL DEFAULT 0, -- of owners in a row, without progress
	crashed   INTEGER NOT NULL DEFAULT -1, -- rows of the journal at the last one
	key       TEXT             CHECK (key <> ''),
	retention INTEGER NOT NULL,           -- days
	started   INTEGER NOT NULL,           -- µs
	completed INTEGER,                    -- µs
	expires   INTEGER,                    -- µs: when it may be swept; NULL while it runs
	error     TEXT    NOT NULL DEFAULT '',
	match     TEXT,                       -- JSON
	output    TEXT,                       -- JSON, and the last: the others are found without reading it
	CHECK (status = 'running' OR status = 'completed' OR status = 'failed' OR status = 'cancelled'),
	CHECK ((status = 'running') = (completed IS NULL)),
	CHECK ((owner <> '') = (status = 'running' AND due IS NULL))
) STRICT;
-- +goose StatementEnd

CREATE UNIQUE INDEX IF NOT EXISTS holdfast_workflow_runs_key ON holdfast_workflow_runs (workflow, key) WHERE key IS NOT NULL;

CREATE INDEX IF NOT EXISTS holdfast_workflow_runs_due ON holdfast_workflow_runs (workflow, version, status, due, id);

CREATE INDEX IF NOT EXISTS holdfast_workflow_runs_list ON holdfast_workflow_runs (workflow, status, started, id);

CREATE INDEX IF NOT EXISTS holdfast_workflow_runs_status ON holdfast_workflow_runs (status, started, id);

CREATE INDEX IF NOT EXISTS holdfast_workflow_runs_event ON holdfast_workflow_runs (event, since, id, workflow) WHERE event <> '';

CREATE INDEX IF NOT EXISTS holdfast_workflow_runs_over ON holdfast_workflow_runs (expires) WHERE expires IS NOT NULL;

CREATE TABLE IF NOT EXISTS holdfast_workflow_inputs (
	run   TEXT NOT NULL PRIMARY KEY,
	input TEXT NOT NULL -- JSON
) STRICT;

CREATE TABLE IF NOT EXISTS holdfast_workflow_steps (
	run       TEXT    NOT NULL,
	name      TEXT    NOT NULL CHECK (name <> ''),
	idx       INTEGER NOT NULL CHECK (idx >= 0),
	kind      TEXT    NOT NULL,
	outcome   TEXT    NOT NULL,
	attempts  INTEGER NOT NULL CHECK (attempts >= 0),
	until     INTEGER,          -- µs
	signal    TEXT    NOT NULL, -- that ended it
	started   INTEGER NOT NULL, -- µs
	completed INTEGER NOT NULL, -- µs
	error     TEXT    NOT NULL,
	output    TEXT,             -- JSON, and the last
	PRIMARY KEY (run, name)
) STRICT;

CREATE TABLE IF NOT EXISTS holdfast_workflow_signals (
	run     TEXT    NOT NULL,
	id      TEXT    NOT NULL CHECK (id <> ''),
	event   TEXT    NOT NULL CHECK (event <> ''),
	at      INTEGER NOT NULL,           -- µs
	taken   INTEGER NOT NULL DEFAULT 0, -- whether a wait has taken it
	payload TEXT    NOT NULL,           -- JSON, and the last
	PRIMARY KEY (run, id) -- a signal counts once
) STRICT;

CREATE TABLE IF NOT EXISTS holdfast_workflow_definitions (
	workflow TEXT    NOT NULL,
	version  INTEGER NOT NULL,
	process  TEXT    NOT NULL,
	at       INTEGER NOT NULL, -- µs: when the process has said that it has the definition
	PRIMARY KEY (workflow, version, process)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE IF EXISTS holdfast_workflow_definitions;
DROP TABLE IF EXISTS holdfast_workflow_signals;
DROP TABLE IF EXISTS holdfast_workflow_steps;
DROP TABLE IF EXISTS holdfast_workflow_inputs;
DROP INDEX IF EXISTS holdfast_workflow_runs_over;
DROP INDEX IF EXISTS holdfast_workflow_runs_event;
DROP INDEX IF EXISTS holdfast_workflow_runs_status;
DROP INDEX IF EXISTS holdfast_workflow_runs_list;
DROP INDEX IF EXISTS holdfast_workflow_runs_due;
DROP INDEX IF EXISTS holdfast_workflow_runs_key;
DROP TABLE IF EXISTS holdfast_workflow_runs;
