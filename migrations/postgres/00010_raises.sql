-- The table of the calls of Raise: see package ledger. Each Issue reads it, so programs of this version need it. Programs
-- of the version before do not know it: after a Raise they issue as ever.

-- +goose Up
CREATE TABLE IF NOT EXISTS "holdfast_effect_raises" (
    raised timestamptz NOT NULL,
    lost   timestamptz,
    until  timestamptz NOT NULL,
    epoch  bigint      NOT NULL,
    why    text        NOT NULL
);

-- +goose Down
DROP TABLE IF EXISTS "holdfast_effect_raises";
