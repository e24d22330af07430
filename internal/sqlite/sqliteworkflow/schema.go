package sqliteworkflow

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteprocess"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// never is the due of a run that only a signal or a Resume wakes.
const never = 1 << 62

// Tables of documents have row ids. Otherwise the documents would be in the tree that is searched, and a search would
// read the documents beside the one that it looks for. parent stands where ALTER TABLE has put it: only runs that are
// over have an output before it.
const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}workflow_runs (
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
	output    TEXT, parent TEXT,                       -- JSON, and the last: the others are found without reading it
	CHECK (status = 'running' OR status = 'completed' OR status = 'failed' OR status = 'cancelled'),
	CHECK ((status = 'running') = (completed IS NULL)),
	CHECK ((owner <> '') = (status = 'running' AND due IS NULL))
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS {prefix}workflow_runs_key ON {prefix}workflow_runs (workflow, key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}workflow_runs_due ON {prefix}workflow_runs (workflow, version, status, due, id);
CREATE INDEX IF NOT EXISTS {prefix}workflow_runs_list ON {prefix}workflow_runs (workflow, status, started, id);
CREATE INDEX IF NOT EXISTS {prefix}workflow_runs_status ON {prefix}workflow_runs (status, started, id);
CREATE INDEX IF NOT EXISTS {prefix}workflow_runs_event ON {prefix}workflow_runs (event, since, id, workflow) WHERE event <> '';
CREATE INDEX IF NOT EXISTS {prefix}workflow_runs_over ON {prefix}workflow_runs (expires) WHERE expires IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}workflow_runs_parent ON {prefix}workflow_runs (parent, started, id) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS {prefix}workflow_inputs (
	run   TEXT NOT NULL PRIMARY KEY,
	input TEXT NOT NULL -- JSON
) STRICT;
CREATE TABLE IF NOT EXISTS {prefix}workflow_steps (
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
CREATE TABLE IF NOT EXISTS {prefix}workflow_signals (
	run     TEXT    NOT NULL,
	id      TEXT    NOT NULL CHECK (id <> ''),
	event   TEXT    NOT NULL CHECK (event <> ''),
	at      INTEGER NOT NULL,           -- µs
	taken   INTEGER NOT NULL DEFAULT 0, -- whether a wait has taken it
	payload TEXT    NOT NULL,           -- JSON, and the last
	PRIMARY KEY (run, id) -- a signal counts once
) STRICT;
CREATE TABLE IF NOT EXISTS {prefix}workflow_definitions (
	workflow TEXT    NOT NULL,
	version  INTEGER NOT NULL,
	process  TEXT    NOT NULL,
	at       INTEGER NOT NULL, -- µs: when the process has said that it has the definition
	PRIMARY KEY (workflow, version, process)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {prefix}workflow_groups (
	run  TEXT NOT NULL PRIMARY KEY,
	name TEXT NOT NULL CHECK (name <> '')
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {prefix}workflow_limits (
	workflow TEXT    NOT NULL PRIMARY KEY,
	tokens   REAL    NOT NULL, -- what the bucket had
	at       INTEGER NOT NULL  -- µs: then
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {prefix}workflow_subscriptions (
	id       TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
	pattern  TEXT NOT NULL CHECK (pattern <> ''),
	workflow TEXT NOT NULL,
	url      TEXT NOT NULL,
	session  TEXT NOT NULL,
	CHECK ((workflow <> '') + (url <> '') + (session <> '') = 1)
) STRICT, WITHOUT ROWID;
` + sqliteprocess.Schema

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{
		{
			Name: "{prefix}workflow_runs",
			Columns: "id workflow version status hold due owner since epoch nonce mail event crashes crashed key " +
				"retention started completed expires error match output parent",
			Indexes: "{prefix}workflow_runs_event {prefix}workflow_runs_list {prefix}workflow_runs_parent",
		},
		{Name: "{prefix}workflow_inputs", Columns: "run input"},
		{
			Name: "{prefix}workflow_steps", Columns: "run name idx kind outcome attempts until signal started " +
				"completed error output",
		},
		{Name: "{prefix}workflow_signals", Columns: "run id event at taken payload"},
		{Name: "{prefix}workflow_definitions", Columns: "workflow version process at"},
		{Name: "{prefix}workflow_groups", Columns: "run name"},
		{Name: "{prefix}workflow_limits", Columns: "workflow tokens at"},
		{Name: "{prefix}workflow_subscriptions", Columns: "id pattern workflow url session"},
		sqliteprocess.Table,
	},
	Statements: slices.Concat(sqliteprocess.Statements, []string{
		childSQL, parentSQL, familySQL, ofParentSQL, copySQL, fromStepSQL, untakeSQL, dropFromSQL, rewindSQL,
		forsakenSQL,
		lockSQL, startSQL, inputSQL, knownSQL, keySQL, versionSQL, waitSQL, signalSQL, signalledSQL, mailSQL,
		wakeSQL, cancelSQL, pauseSQL, resumeSQL, nextSQL, dueSQL, claimSQL, inputsSQL, fromSQL, againSQL, leaseSQL,
		progressSQL, crashSQL, holdCrashedSQL, noteSQL, leaveSQL, standingSQL, stepSQL, takenSQL, parkSQL, endSQL,
		stopSQL, readSQL, briefSQL, allSQL, statusSQL, workflowSQL, bothSQL, eventSQL, keyedSQL, stepsSQL,
		stepsBriefSQL,
		stepAloneSQL, signalAloneSQL, countsSQL, runningSQL, expiredSQL, retireSQL, dropInputSQL, dropStepsSQL,
		dropSignalsSQL,
		followingSQL, livingSQL, strandedSQL, holdUnknownSQL, failUnknownSQL, oldNoteSQL, forgetSQL,
		raiseSQL, subscribeSQL, unsubscribeSQL, subscriptionsSQL, groupSQL, dropGroupSQL, admittedSQL, ownersSQL,
		tokensSQL, spendSQL, debouncedSQL, moveSQL, replaceSQL, passSQL,
	}),
}

// Schema implements migrations.Schemer.
func (s *Store) Schema() string { return s.db.Schema() }
