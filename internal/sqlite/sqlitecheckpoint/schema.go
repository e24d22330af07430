package sqlitecheckpoint

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteprocess"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}sessions (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	epoch        INTEGER NOT NULL,
	nonce        TEXT    NOT NULL, -- '' once released
	owner        TEXT    NOT NULL,
	lease_until  INTEGER NOT NULL, -- µs
	born         INTEGER NOT NULL CHECK (born > 0),
	turn         INTEGER NOT NULL DEFAULT -1, -- the last settled
	first        INTEGER NOT NULL DEFAULT 0,  -- the oldest kept
	pruned       INTEGER NOT NULL DEFAULT 0,  -- first, as the last settle found it
	summarized   INTEGER NOT NULL DEFAULT 0,
	owed         INTEGER,                     -- the oldest not delivered
	failed       INTEGER NOT NULL DEFAULT 0,  -- deliveries of owed
	retry_at     INTEGER NOT NULL DEFAULT 0,  -- µs, from when on owed is due
	PRIMARY KEY (orchestrator, session),
	CHECK (epoch >= born),
	CHECK (0 <= pruned AND pruned <= first AND first <= turn + 1),
	CHECK (summarized BETWEEN 0 AND turn + 1),
	CHECK (owed BETWEEN first AND turn),
	CHECK (failed > 0 AND owed IS NOT NULL AND retry_at > 0 OR failed = 0 AND retry_at = 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {prefix}sessions_owed ON {prefix}sessions (orchestrator, session, retry_at) WHERE owed IS NOT NULL;
CREATE TABLE IF NOT EXISTS {prefix}turns (
	orchestrator TEXT    NOT NULL,
	session      TEXT    NOT NULL,
	turn         INTEGER NOT NULL CHECK (turn >= 0),
	state        TEXT    NOT NULL, -- JSON
	payload      TEXT,             -- JSON
	route        TEXT    NOT NULL, -- JSON array
	signature    TEXT    NOT NULL,
	version      TEXT    NOT NULL,
	run_id       TEXT    NOT NULL CHECK (run_id <> ''),
	request_id   TEXT             CHECK (request_id <> ''),
	saved_at     INTEGER NOT NULL, -- µs
	PRIMARY KEY (orchestrator, session, turn) -- a turn settles once
) STRICT;
CREATE INDEX IF NOT EXISTS {prefix}turns_request ON {prefix}turns (orchestrator, session, request_id, turn) WHERE request_id IS NOT NULL;
CREATE TABLE IF NOT EXISTS {prefix}labels (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	label        TEXT    NOT NULL CHECK (label <> ''),
	due          INTEGER, -- ms
	PRIMARY KEY (orchestrator, session, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {prefix}labels_name ON {prefix}labels (orchestrator, label, session);
CREATE INDEX IF NOT EXISTS {prefix}labels_due ON {prefix}labels (orchestrator, label, due) WHERE due IS NOT NULL;
` + sqliteprocess.Schema

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{
		{Name: "{prefix}sessions", Columns: "orchestrator session epoch nonce owner lease_until born turn " +
			"first pruned summarized owed failed retry_at"},
		{Name: "{prefix}turns", Columns: "orchestrator session turn state payload route signature version " +
			"run_id request_id saved_at"},
		{
			Name: "{prefix}labels", Columns: "orchestrator session label due",
			Indexes: "{prefix}labels_name {prefix}labels_due",
		},
		sqliteprocess.Table,
	},
	Statements: slices.Concat(sqliteprocess.Statements, []string{
		takeSQL, bearSQL, waitSQL, createSQL, headlessSQL, renewSQL, heldSQL, headSQL, botsSQL, ownerSQL, settleSQL,
		insertSQL, pruneSQL, refusalSQL, markSQL,
		deleteHeadSQL, deleteTurnsSQL, unlabelSQL, labelSQL, labeledSQL, labeledBySQL,
		turnsSQL, numbersSQL, answeredSQL, sessionsSQL, owingSQL,
		sliceSQL, idleSQL, retireSQL, raiseSQL,
	}),
}

// Schema implements migrations.Schemer.
func (s *Store) Schema() string { return s.db.Schema() }
