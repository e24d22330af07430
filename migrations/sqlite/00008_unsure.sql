-- The column that says that an attempt before the last one may have happened: see Effect.Unsure of package ledger. Of
-- what is open, nothing is known of the earlier attempts. If the Schema of sqliteledger has made the table with this
-- column, Up leaves these statements out, because SQLite knows no ADD COLUMN IF NOT EXISTS.

-- +goose Up
ALTER TABLE holdfast_effects ADD COLUMN unsure INTEGER NOT NULL DEFAULT 0;

UPDATE holdfast_effects SET unsure = 1 WHERE state <> 'completed' AND state <> 'failed' AND state <> 'skipped' AND attempts > 1;

-- +goose Down
ALTER TABLE holdfast_effects DROP COLUMN unsure;
