CREATE TABLE IF NOT EXISTS "holdfast_sessions" (
    orchestrator text COLLATE "C" NOT NULL CHECK (orchestrator <> ''),
    session      text COLLATE "C" NOT NULL CHECK (session <> ''),
    epoch        bigint      NOT NULL CHECK (epoch > 0),
    nonce        text        NOT NULL,
    owner        text        NOT NULL,
    lease_until  timestamptz NOT NULL,
    born         bigint      NOT NULL CHECK (born > 0 AND born <= epoch),
    turn         integer     NOT NULL DEFAULT -1 CHECK (turn >= -1),
    first        integer     NOT NULL DEFAULT 0 CHECK (first >= 0),
    pruned       integer     NOT NULL DEFAULT 0 CHECK (pruned >= 0 AND pruned <= first),
    summarized   integer     NOT NULL DEFAULT 0 CHECK (summarized >= 0),
    owed         integer     CHECK (owed >= 0 AND owed <= turn),
    PRIMARY KEY (orchestrator, session)
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS "holdfast_sessions_owed" ON "holdfast_sessions" (orchestrator, session) WHERE owed IS NOT NULL;

CREATE TABLE IF NOT EXISTS "holdfast_turns" (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    turn         integer     NOT NULL CHECK (turn >= 0),
    state        jsonb       NOT NULL,
    payload      jsonb,
    route        text[]      NOT NULL DEFAULT '{}',
    signature    text        NOT NULL,
    version      text        NOT NULL,
    run_id       text        NOT NULL CHECK (run_id <> ''),
    request_id   text        CHECK (request_id <> ''),
    saved_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (orchestrator, session, turn)
) WITH (toast_tuple_target = 8160);

CREATE INDEX IF NOT EXISTS "holdfast_turns_request" ON "holdfast_turns" (orchestrator, session, request_id) WHERE request_id IS NOT NULL;

-- +goose StatementBegin
DO $$ BEGIN
    ALTER TABLE "holdfast_turns" ALTER COLUMN state SET COMPRESSION lz4, ALTER COLUMN payload SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN
    NULL; -- the server is older than 14 or was built without lz4: the default compression serves
END $$;
-- +goose StatementEnd
