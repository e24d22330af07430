-- The column of the run that has started a run: see NewRun.Parent of package workflow. Programs of this version need it.
-- Programs of the version before start no children. If they cancel a run, its children go on.

-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute
        WHERE attrelid = '"holdfast_workflow_runs"'::regclass AND attname = 'parent' AND NOT attisdropped) THEN
        ALTER TABLE "holdfast_workflow_runs" ADD COLUMN IF NOT EXISTS parent text COLLATE "C";
    END IF; -- else the table would be locked for nothing
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '"holdfast_workflow_runs"'::regclass AND format('"%s"', relname) = '"holdfast_workflow_runs_parent"') THEN
        CREATE INDEX IF NOT EXISTS "holdfast_workflow_runs_parent" ON "holdfast_workflow_runs" (parent, started DESC, id DESC) WHERE parent IS NOT NULL;
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP INDEX IF EXISTS "holdfast_workflow_runs_parent";
ALTER TABLE IF EXISTS "holdfast_workflow_runs" DROP COLUMN IF EXISTS parent;
