-- The table of the calls of Raise on transcripts: see package transcript. Each Append reads it, so programs of this
-- version need it. Programs of the version before do not know it: after a Raise their numbers go on as ever.

-- +goose Up
CREATE TABLE IF NOT EXISTS holdfast_message_raises (
	number INTEGER PRIMARY KEY -- all sessions go on behind the highest
) STRICT;

-- +goose Down
DROP TABLE IF EXISTS holdfast_message_raises;
