package sqlitesnapshot

import (
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}runs (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	id           TEXT    NOT NULL,
	request_id   TEXT    NOT NULL,
	turn         INTEGER NOT NULL CHECK (turn >= 0),
	attempt      INTEGER NOT NULL CHECK (attempt >= 0),
	base         TEXT    NOT NULL,
	status       TEXT    NOT NULL, -- checked below, without IN, for which SQLite builds a table at each write
	seq          INTEGER NOT NULL CHECK (seq >= 0),
	epoch        INTEGER NOT NULL CHECK (epoch > 0),
	nonce        TEXT    NOT NULL CHECK (nonce <> ''),
	found        INTEGER NOT NULL, -- the highest epoch of a Begin that has found a run in flight
	error        TEXT    NOT NULL,
	not_before   INTEGER,          -- µs
	started_at   INTEGER NOT NULL, -- µs
	saved_at     INTEGER NOT NULL, -- µs
	deleted_at   INTEGER,          -- µs; NULL while the run is in flight
	parts        INTEGER NOT NULL, -- whether run_parts has any
	payload      TEXT,             -- JSON, and the last: the others are found without reading it
	PRIMARY KEY (orchestrator, session), -- one in flight
	CHECK (id <> '' OR deleted_at IS NOT NULL),
	CHECK (status = 'running' OR status = 'waiting' OR status = 'suspended' OR status = 'parked' OR status = 'ended'),
	CHECK (parts = 0 OR parts = 1 AND deleted_at IS NULL),
	CHECK (deleted_at IS NULL OR payload IS NULL)
) STRICT;
CREATE INDEX IF NOT EXISTS {prefix}runs_inflight ON {prefix}runs (orchestrator, session) WHERE deleted_at IS NULL;
CREATE INDEX IF NOT EXISTS {prefix}runs_drain ON {prefix}runs (orchestrator, session) WHERE deleted_at IS NULL AND ` + unattended + `;
CREATE TABLE IF NOT EXISTS {prefix}run_parts (
	orchestrator TEXT    NOT NULL,
	session      TEXT    NOT NULL,
	name         TEXT    NOT NULL CHECK (name <> ''),
	doc          TEXT    NOT NULL, -- JSON
	PRIMARY KEY (orchestrator, session, name)
) STRICT;
`

// unattended is the condition of the index runs_drain, word for word. Otherwise SQLite does not use it.
const unattended = `status IS NOT 'suspended' AND status IS NOT 'parked'`

const (
	columns = others + `payload`
	others  = `orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, error, not_before, started_at, saved_at, `

	// bare takes the place of columns in a list of all sessions.
	bare = others + `CASE WHEN ` + unattended + ` THEN payload END`
)

// brief takes the place of columns where the documents are not read: the payload comes after all else.
const brief = `orchestrator, session, id, '', turn, attempt, '', status, seq, epoch, nonce, '', not_before, started_at, saved_at, NULL`

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{
		{
			Name: "{prefix}runs",
			Columns: "orchestrator session id request_id turn attempt base status seq epoch nonce found error " +
				"not_before started_at saved_at deleted_at parts payload",
			Indexes: "{prefix}runs_inflight {prefix}runs_drain",
		},
		{Name: "{prefix}run_parts", Columns: "orchestrator session name doc"},
	},
	Statements: []string{
		beginSQL, findSQL, spentSQL, adoptSQL, fenceSQL, keepSQL, replaceSQL, addSQL, deleteSQL, ownerSQL,
		partsSQL, clearSQL, dropPartsSQL, putPartSQL, flagSQL, runsSQL, runsBriefSQL, sessionSQL, sessionBriefSQL,
		listedSQL, unattendedSQL, unattendedBriefSQL,
		sliceSQL, oldSQL, forgetSQL, raiseSQL,
	},
}

// Schema implements migrations.Schemer.
func (s *Store) Schema() string { return s.db.Schema() }
