-- The table of the subscriptions to topics: see package workflow. Programs of this version need it. Programs of the
-- version before do not know it.

-- +goose Up
CREATE TABLE IF NOT EXISTS holdfast_workflow_subscriptions (
	id       TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
	pattern  TEXT NOT NULL CHECK (pattern <> ''),
	workflow TEXT NOT NULL,
	url      TEXT NOT NULL,
	session  TEXT NOT NULL,
	CHECK ((workflow <> '') + (url <> '') + (session <> '') = 1)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE IF EXISTS holdfast_workflow_subscriptions;
