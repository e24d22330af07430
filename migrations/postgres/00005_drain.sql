-- The indexes of the runs that wait for no person, and of the effects that a person has answered: see Query.Unattended of
-- package snapshot, and Query.AnsweredWithin of package ledger. If a table is large, create its index beforehand with
-- CREATE INDEX CONCURRENTLY, because this migration keeps writers waiting. It is then found.

-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '"holdfast_runs"'::regclass AND format('"%s"', relname) = '"holdfast_runs_drain"') THEN
        CREATE INDEX IF NOT EXISTS "holdfast_runs_drain" ON "holdfast_runs" (orchestrator, session) WHERE deleted_at IS NULL AND status NOT IN ('suspended', 'parked');
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '"holdfast_effects"'::regclass AND format('"%s"', relname) = '"holdfast_effects_answer"') THEN
        CREATE INDEX IF NOT EXISTS "holdfast_effects_answer" ON "holdfast_effects" (answered_at) WHERE answered_at IS NOT NULL;
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP INDEX IF EXISTS "holdfast_effects_answer";
DROP INDEX IF EXISTS "holdfast_runs_drain";
