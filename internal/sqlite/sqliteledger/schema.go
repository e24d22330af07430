package sqliteledger

import (
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// Each index costs each Issue a page, so there are few:
//
//   - open is of what is open, in the order of the listing. Its condition names the other states, so that it also holds
//     a damaged row with a state that no ledger wrote. Adopt cannot use it: what is open may be far more than a run.
//   - run serves Adopt, a query for a run, and Prune, which looks for runs without effects. It is of all effects of the
//     run, which are few. A partial one for Adopt would be one more to write at each Issue and each Finish.
//   - session serves a query for a session.
//   - answer serves Query.AnsweredWithin. Only an answer of a person makes an entry.
//
// A Finish writes in the index open only.
//
// unsure is 1 if an attempt before the last one may have happened. It counts while the effect is open. It stands where
// ALTER TABLE puts it in the text of an older table. SQLite keeps a 0 or a 1 in the head of a row, and so finds it
// without reading the documents before it.
const schemaSQL = `
CREATE TABLE IF NOT EXISTS {prefix}effects (
	number       INTEGER PRIMARY KEY, -- in the order of the first issue
	id           TEXT    NOT NULL UNIQUE CHECK (id <> ''),
	orchestrator TEXT    NOT NULL CHECK (orchestrator <> ''),
	session      TEXT    NOT NULL CHECK (session <> ''),
	run_id       TEXT    NOT NULL CHECK (run_id <> ''),
	iteration    INTEGER NOT NULL CHECK (iteration >= 0),
	intent       TEXT    NOT NULL,
	name         TEXT    NOT NULL CHECK (name <> ''),
	each         TEXT    NOT NULL,
	key          TEXT    NOT NULL, -- '' if the effect belongs to its place in the run
	class        INTEGER NOT NULL CHECK (class >= 0 AND class <= 3), -- ask, pure, idempotent, verifiable
	state        TEXT    NOT NULL, -- checked below, without IN, for which SQLite builds a table at each write
	attempts     INTEGER NOT NULL CHECK (attempts > 0),
	epoch        INTEGER NOT NULL CHECK (epoch > 0),
	nonce        TEXT    NOT NULL CHECK (nonce <> ''),
	args_sum     TEXT    NOT NULL,
	issued_at    INTEGER NOT NULL, -- µs, of the last attempt
	finished_at  INTEGER,          -- µs; NULL while it is issued
	answered_by  TEXT    NOT NULL,
	answered_at  INTEGER,          -- µs
	redacted     INTEGER NOT NULL DEFAULT 0, -- 1 if the result is not what the effect brought
	error        TEXT    NOT NULL,
	args         TEXT,             -- JSON
	result       TEXT, unsure INTEGER NOT NULL DEFAULT 0, -- JSON, and the last: the others are found without reading the documents
	CHECK (state = 'issued' OR state = 'completed' OR state = 'failed' OR state = 'unknown' OR state = 'skipped')
) STRICT;
CREATE INDEX IF NOT EXISTS {prefix}effects_open ON {prefix}effects (number) WHERE ` + open + `;
CREATE INDEX IF NOT EXISTS {prefix}effects_answer ON {prefix}effects (answered_at) WHERE answered_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS {prefix}effects_run ON {prefix}effects (run_id);
CREATE INDEX IF NOT EXISTS {prefix}effects_session ON {prefix}effects (session);
CREATE TABLE IF NOT EXISTS {prefix}effect_fences (
	run_id TEXT    NOT NULL PRIMARY KEY CHECK (run_id <> ''),
	epoch  INTEGER NOT NULL CHECK (epoch > 0),
	nonce  TEXT    NOT NULL CHECK (nonce <> ''),
	since  INTEGER NOT NULL -- µs
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {prefix}effect_raises (
	epoch INTEGER PRIMARY KEY, -- µs: when, and up to which epoch fences are refused
	lost  INTEGER,             -- µs
	until INTEGER NOT NULL,    -- µs
	why   TEXT    NOT NULL
) STRICT;
`

// open is the condition of the index, word for word. Otherwise SQLite does not use it.
const open = `state <> 'completed' AND state <> 'failed' AND state <> 'skipped'`

const columns = `number, id, orchestrator, session, run_id, iteration, intent, name, each, key, class, state, attempts, epoch, nonce, args_sum, issued_at, finished_at, answered_by, answered_at, redacted, unsure, error, args, result`

// brief takes the place of columns where the documents are not read. They come after all else.
const brief = `number, id, orchestrator, session, run_id, iteration, intent, name, each, key, class, state, attempts, epoch, nonce, args_sum, issued_at, finished_at, answered_by, answered_at, redacted, unsure, '', NULL, NULL`

var layout = sqlitestore.Layout{
	Schema: schemaSQL,
	Tables: []sqlitestore.Table{
		{
			Name: "{prefix}effects",
			Columns: "number id orchestrator session run_id iteration intent name each key class state attempts " +
				"epoch nonce args_sum issued_at finished_at answered_by answered_at redacted error args result " +
				"unsure",
			Indexes: "{prefix}effects_open {prefix}effects_answer {prefix}effects_run {prefix}effects_session",
		},
		{Name: "{prefix}effect_fences", Columns: "run_id epoch nonce since"},
		{Name: "{prefix}effect_raises", Columns: "epoch lost until why"},
	},
	Statements: []string{
		adoptSQL, fenceSQL, unknownSQL, insertSQL, metSQL, carriedSQL, effectSQL, reissueSQL, finishSQL,
		completeSQL, listSQL, listOpenSQL,
		listRunSQL, listSessionSQL, listIDSQL, listBriefSQL, listOpenBriefSQL, listRunBriefSQL,
		listSessionBriefSQL, listIDBriefSQL, listAnswersSQL, listAnswersBriefSQL,
		sliceSQL, forgetSQL, fenceSliceSQL, forgetFencesSQL, raiseSQL, aheadSQL, endSQL,
	},
}

// Schema implements migrations.Schemer.
func (l *Ledger) Schema() string { return l.db.Schema() }
