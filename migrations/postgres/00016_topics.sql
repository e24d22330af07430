-- The table of the subscriptions to topics: see package workflow. Programs of this version need it. Programs of the
-- version before do not know it.

-- +goose Up
-- +goose StatementBegin
DO $$ DECLARE elsewhere text; BEGIN
    SELECT relnamespace::regnamespace INTO elsewhere FROM pg_class
    WHERE oid IN (to_regclass('"holdfast_workflow_subscriptions"'))
        AND relnamespace::regnamespace <> quote_ident(current_schema())::regnamespace
    LIMIT 1;
    IF elsewhere IS NOT NULL THEN
        RAISE EXCEPTION 'tables holdfast_… are in schema %, and new ones in % would hide them',
            elsewhere, quote_ident(current_schema())
            USING HINT = 'Let the search path begin with their schema, or name the schema in Options.Prefix.';
    END IF;
END $$;
-- +goose StatementEnd

CREATE TABLE IF NOT EXISTS "holdfast_workflow_subscriptions" (
    id       text COLLATE "C" NOT NULL PRIMARY KEY,
    pattern  text NOT NULL,
    workflow text NOT NULL,
    url      text NOT NULL,
    session  text NOT NULL
);

-- +goose Down
DROP TABLE IF EXISTS "holdfast_workflow_subscriptions";
