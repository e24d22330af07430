-- The table of the labels of sessions: see AppendOptions of package checkpoint. Programs of this version need it. Programs
-- of the version before do not know it. If they delete or retire a session, its labels stay until its name is used again.

-- +goose Up
-- +goose StatementBegin
DO $$ DECLARE elsewhere text; BEGIN
    SELECT relnamespace::regnamespace INTO elsewhere FROM pg_class
    WHERE oid IN (to_regclass('"holdfast_labels"'))
        AND relnamespace::regnamespace <> quote_ident(current_schema())::regnamespace
    LIMIT 1;
    IF elsewhere IS NOT NULL THEN
        RAISE EXCEPTION 'tables holdfast_… are in schema %, and new ones in % would hide them',
            elsewhere, quote_ident(current_schema())
            USING HINT = 'Let the search path begin with their schema, or name the schema in Options.Prefix.';
    END IF;
END $$;
-- +goose StatementEnd

CREATE TABLE IF NOT EXISTS "holdfast_labels" (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    label        text COLLATE "C" NOT NULL,
    due          bigint,
    PRIMARY KEY (orchestrator, label, session)
);

-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '"holdfast_labels"'::regclass AND format('"%s"', relname) = '"holdfast_labels_session"') THEN
        CREATE INDEX IF NOT EXISTS "holdfast_labels_session" ON "holdfast_labels" (orchestrator, session text_pattern_ops);
    END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '"holdfast_labels"'::regclass AND format('"%s"', relname) = '"holdfast_labels_due"') THEN
        CREATE INDEX IF NOT EXISTS "holdfast_labels_due" ON "holdfast_labels" (orchestrator, label, due, session) WHERE due IS NOT NULL;
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP INDEX IF EXISTS "holdfast_labels_due";
DROP INDEX IF EXISTS "holdfast_labels_session";
DROP TABLE IF EXISTS "holdfast_labels";
