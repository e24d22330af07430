-- The groups of runs, and the buckets of limits: see Limit of package workflow. Programs of this version need them.
-- Programs of the version before heed no limit.

-- +goose Up
CREATE TABLE IF NOT EXISTS holdfast_workflow_groups (
	run  TEXT NOT NULL PRIMARY KEY,
	name TEXT NOT NULL CHECK (name <> '')
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS holdfast_workflow_limits (
	workflow TEXT    NOT NULL PRIMARY KEY,
	tokens   REAL    NOT NULL, -- what the bucket had
	at       INTEGER NOT NULL  -- µs: then
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE IF EXISTS holdfast_workflow_limits;
DROP TABLE IF EXISTS holdfast_workflow_groups;
