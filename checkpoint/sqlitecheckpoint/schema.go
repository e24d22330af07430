package sqlitecheckpoint

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/sqlname"
)

// In all SQL below {prefix} stands for Options.Prefix.
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
	PRIMARY KEY (orchestrator, session),
	CHECK (epoch >= born),
	CHECK (0 <= pruned AND pruned <= first AND first <= turn + 1),
	CHECK (summarized BETWEEN 0 AND turn + 1),
	CHECK (owed BETWEEN first AND turn)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {prefix}sessions_owed ON {prefix}sessions (orchestrator, session) WHERE owed IS NOT NULL;
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
`

// What this version of the package reads and writes.
var tables = []struct{ name, columns string }{
	{"{prefix}sessions", "orchestrator session epoch nonce owner lease_until born turn first pruned summarized owed"},
	{"{prefix}turns", "orchestrator session turn state payload route signature version run_id request_id saved_at"},
}

// parsePrefix returns the prefix that an option means.
func parsePrefix(option string) (string, error) {
	p, err := sqlname.Parse(option, "sessions", "turns", "sessions_owed", "turns_request")
	switch {
	case err != nil:
		return "", err
	case p.Qualified():
		return "", fmt.Errorf("table prefix %q: SQLite has no schemas", option)
	case strings.HasPrefix(strings.ToLower(option), "sqlite_"):
		return "", fmt.Errorf("table prefix %q is reserved by SQLite", option)
	}
	return p.Plain(""), nil
}

// Schema returns the statements that create what the store needs and is not there yet. They change nothing that is.
func (s *Store) Schema() string { return s.sql(schemaSQL) }

func (s *Store) sql(template string) string {
	return strings.ReplaceAll(template, "{prefix}", s.prefix)
}
