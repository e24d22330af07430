-- The column that says that an attempt before the last one may have happened: see Effect.Unsure of package ledger. Of
-- what is open, nothing is known of the earlier attempts. The table is locked while this migration runs: for as long as
-- it takes to read what is open.

-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute
        WHERE attrelid = '"holdfast_effects"'::regclass AND attname = 'unsure' AND NOT attisdropped) THEN
        ALTER TABLE "holdfast_effects" ADD COLUMN IF NOT EXISTS unsure boolean NOT NULL DEFAULT false;
        UPDATE "holdfast_effects" SET unsure = true WHERE state NOT IN ('completed', 'failed', 'skipped') AND attempts > 1;
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
ALTER TABLE IF EXISTS "holdfast_effects" DROP COLUMN IF EXISTS unsure;
