CREATE TABLE IF NOT EXISTS holdfast_sessions (
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

CREATE INDEX IF NOT EXISTS holdfast_sessions_owed ON holdfast_sessions (orchestrator, session) WHERE owed IS NOT NULL;

CREATE TABLE IF NOT EXISTS holdfast_turns (
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

CREATE INDEX IF NOT EXISTS holdfast_turns_request ON holdfast_turns (orchestrator, session, request_id, turn) WHERE request_id IS NOT NULL;
