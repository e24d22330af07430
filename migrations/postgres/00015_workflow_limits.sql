-- The place of a run, its index, and the table of the buckets of limits: see Limit of package workflow. A run without a
-- group, which no claim with a limit has got, has no place, and costs the index nothing. Programs of this version need
-- them. Programs of the version before heed no limit.

-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute
        WHERE attrelid = '"holdfast_workflow_runs"'::regclass AND attname = 'place' AND NOT attisdropped) THEN
        ALTER TABLE "holdfast_workflow_runs" ADD COLUMN IF NOT EXISTS place text COLLATE "C";
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '"holdfast_workflow_runs"'::regclass AND format('"%s"', relname) = '"holdfast_workflow_runs_place"') THEN
        CREATE INDEX IF NOT EXISTS "holdfast_workflow_runs_place" ON "holdfast_workflow_runs" (workflow, place, due) WHERE status = 'running' AND place IS NOT NULL;
    END IF;
END $$;
-- +goose StatementEnd

CREATE TABLE IF NOT EXISTS "holdfast_workflow_limits" (
    workflow text COLLATE "C" NOT NULL PRIMARY KEY,
    holder   bigint      NOT NULL DEFAULT 0,
    tokens   float8      NOT NULL DEFAULT 'Infinity',
    at       timestamptz NOT NULL
);

-- +goose Down
DROP TABLE IF EXISTS "holdfast_workflow_limits";
DROP INDEX IF EXISTS "holdfast_workflow_runs_place";
ALTER TABLE IF EXISTS "holdfast_workflow_runs" DROP COLUMN IF EXISTS place;
