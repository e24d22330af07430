package sqlitesnapshot

import (
	"github.com/holdfast-go/holdfast/internal/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// In all SQL below {prefix} stands for Options.Prefix.
const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}runs (
	id           TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	request_id   TEXT    NOT NULL,
	turn         INTEGER NOT NULL CHECK (turn >= 0),
	attempt      INTEGER NOT NULL CHECK (attempt >= 0),
	base         TEXT    NOT NULL,
	status       TEXT    NOT NULL CHECK (status IN ('running', 'waiting', 'suspended', 'parked', 'ended')),
	seq          INTEGER NOT NULL CHECK (seq >= 0),
	epoch        INTEGER NOT NULL CHECK (epoch > 0),
	nonce        TEXT    NOT NULL CHECK (nonce <> ''),
	error        TEXT    NOT NULL,
	not_before   INTEGER,          -- µs
	started_at   INTEGER NOT NULL, -- µs
	saved_at     INTEGER NOT NULL, -- µs
	payload      TEXT,             -- JSON, and the last: the others are found without reading it
	UNIQUE (orchestrator, session) -- one in flight
) STRICT;
`

const columns = `orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, error, not_before, started_at, saved_at, payload`

func layout(prefix string) sqlitestore.Layout {
	return sqlitestore.Layout{
		Prefix: prefix,
		Tables: []sqlitestore.Table{
			{Name: "{prefix}runs", Columns: "id orchestrator session request_id turn attempt base status seq epoch nonce error not_before started_at saved_at payload"},
		},
		Statements: []string{beginSQL, inTheWaySQL, adoptSQL, saveSQL, deleteSQL, ownerSQL, runsSQL, sessionSQL},
		Verdicts:   []error{lock.ErrFenced, snapshot.ErrNotFound, snapshot.ErrParked, snapshot.ErrInvalid},
		Missing:    snapshot.ErrSchema,
	}
}

// Schema returns the statements that create what the store needs and is not there yet. They change nothing that is.
func (s *Store) Schema() string { return s.db.SQL(schemaSQL) }
