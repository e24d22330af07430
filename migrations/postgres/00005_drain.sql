-- The index of the runs that wait for no person: see Query.Unattended of package snapshot. If the table is large, create
-- the index beforehand with CREATE INDEX CONCURRENTLY, because this migration keeps writers waiting. It is then found.

-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '"holdfast_runs"'::regclass AND format('"%s"', relname) = '"holdfast_runs_drain"') THEN
        CREATE INDEX IF NOT EXISTS "holdfast_runs_drain" ON "holdfast_runs" (orchestrator, session) WHERE deleted_at IS NULL AND status NOT IN ('suspended', 'parked');
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP INDEX IF EXISTS "holdfast_runs_drain";
