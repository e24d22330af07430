-- The column of the run that has started a run: see NewRun.Parent of package workflow. Programs of this version need it.
-- Programs of the version before start no children. If they cancel a run, its children go on. If the Schema of the store
-- has made the table with this column, Up leaves these statements out, because SQLite knows no ADD COLUMN IF NOT EXISTS.

-- +goose Up
ALTER TABLE holdfast_workflow_runs ADD COLUMN parent TEXT;

CREATE INDEX IF NOT EXISTS holdfast_workflow_runs_parent ON holdfast_workflow_runs (parent, started, id) WHERE parent IS NOT NULL;

-- +goose Down
DROP INDEX IF EXISTS holdfast_workflow_runs_parent;
ALTER TABLE holdfast_workflow_runs DROP COLUMN parent;
