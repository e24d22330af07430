package pgtranscript

import "github.com/holdfast-go/holdfast/internal/postgres/pgstate"

// schemaSQL is idempotent. Each Append updates the row of its session. No column of an index changes then, so the
// update is heap-only. The row leaves room on its page for its next versions. Rows of messages are written once.
//
//   - The primary key of messages finds the entries of a span in their order.
//   - messages_id finds the entry of a step that is repeated. What was copied has no id.
//
// A target of 8160 would leave bodies of 4 to 8 kB as they are: 8.4 kB a row for 6 kB of prose, and 5.0 kB with 4080.
//
// CHECKs would cost more than a save, as in package pgcheckpoint.
var schemaSQL = `CREATE TABLE IF NOT EXISTS {transcripts} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    last         bigint NOT NULL,
    PRIMARY KEY (orchestrator, session)
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS {messages} (
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    first        bigint      NOT NULL,
    last         bigint      NOT NULL,
    id           text COLLATE "C",
    at           timestamptz NOT NULL,
    body         text COLLATE "C" NOT NULL,
    PRIMARY KEY (orchestrator, session, first)
) WITH (toast_tuple_target = 4080);

CREATE UNIQUE INDEX IF NOT EXISTS {messages_id} ON {messages} (orchestrator, session, id) WHERE id IS NOT NULL;
` + pgstate.LZ4("attrelid = '{messages}'::regclass AND attname = 'body'",
	"ALTER TABLE {messages} ALTER COLUMN body SET COMPRESSION lz4")

// Schema returns statements that may be run again, and that fail if they would hide tables which are there: see
// pgstate.Unhidden.
func (s *Store) Schema() string {
	return pgstate.Unhidden(s.db.Prefix, tables...) + pgstate.Unlocked(names(s.db, "").Replace(schemaSQL))
}
