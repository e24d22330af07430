-- The table of the calls of Raise: see package ledger. Each Issue reads it, so programs of this version need it. Programs
-- of the version before do not know it: after a Raise they issue as ever.

-- +goose Up
CREATE TABLE IF NOT EXISTS holdfast_effect_raises (
	epoch INTEGER PRIMARY KEY, -- µs: when, and up to which epoch fences are refused
	lost  INTEGER,             -- µs
	until INTEGER NOT NULL,    -- µs
	why   TEXT    NOT NULL
) STRICT;

-- +goose Down
DROP TABLE IF EXISTS holdfast_effect_raises;
