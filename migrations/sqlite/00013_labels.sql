-- The table of the labels of sessions: see AppendOptions of package checkpoint. Programs of this version need it. Programs
-- of the version before do not know it. If they delete or retire a session, its labels stay until its name is used again.

-- +goose Up
CREATE TABLE IF NOT EXISTS holdfast_labels (
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	label        TEXT    NOT NULL CHECK (label <> ''),
	due          INTEGER, -- ms
	PRIMARY KEY (orchestrator, session, label)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS holdfast_labels_name ON holdfast_labels (orchestrator, label, session);
CREATE INDEX IF NOT EXISTS holdfast_labels_due ON holdfast_labels (orchestrator, label, due) WHERE due IS NOT NULL;

-- +goose Down
DROP INDEX IF EXISTS holdfast_labels_due;
DROP INDEX IF EXISTS holdfast_labels_name;
DROP TABLE IF EXISTS holdfast_labels;
