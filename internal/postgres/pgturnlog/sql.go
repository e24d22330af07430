package pgturnlog

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

const (
	// durable is pgstate.Durable that leaves alone what is durable already: to set a parameter takes longer than to
	// read it.
	durable = `CASE WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply') THEN ''
		ELSE set_config('synchronous_commit', 'on', true) END`
)

// queries holds the statements of one log, with its table names filled in.
type queries struct {
	record, end, fresh, entries, known, alone, restore, list, idle, lock, forget string

	// restoreBrief and listBrief are the statements of the same name without the states. Of an entry whose state the
	// server cannot read, the rest is read so.
	restoreBrief, listBrief string
}

var templates = queries{
	// If the entry is known, no row is written. Both tables are written in one statement, so that the list of turns and
	// their entries are never seen apart. greatest and least ignore NULL.
	//
	// A turn is open unless its last settled is after its last started.
	record: `
		WITH added AS (
			INSERT INTO {phases} (run, at, phase, state) VALUES ($1::text, $2::timestamptz, $3::text, $4::jsonb)
			ON CONFLICT (run, at, phase) DO NOTHING
			RETURNING CASE WHEN phase = 'started' THEN at END AS started, CASE WHEN phase = 'settled' THEN at END AS settled
		)
		INSERT INTO {logged} AS l (run, orchestrator, session, turn, first, last, started, settled, open)
		SELECT $1::text, $5::text, $6::text, $7::integer, $2::timestamptz, $2::timestamptz, started, settled, settled IS NULL
		FROM added
		{merge}
		RETURNING {kept}`,

	// end is record of a Settled as a pgjoin.Part: it has the parameters of the statement that it joins.
	end: `
		ended AS (
			INSERT INTO {phases} (run, at, phase, state)
			SELECT $11::text, ` + pgjoin.EndAt + `::timestamptz, 'settled', ` + pgjoin.EndState + `::jsonb
			WHERE EXISTS (SELECT FROM h)
			ON CONFLICT (run, at, phase) DO NOTHING
			RETURNING at
		), listed AS (
			INSERT INTO {logged} AS l (run, orchestrator, session, turn, first, last, settled, open)
			SELECT $11::text, $1::text, $2::text, $5::integer, at, at, at, false
			FROM ended
			{merge}
		)`,

	// fresh says that no entry is known, and entries records all of them, as parts of a pgjoin.Cargo. None of them is a
	// Started or a Settled.
	fresh: `
		NOT EXISTS (
			SELECT FROM {phases} p, unnest(` + pgjoin.EntryTimes + `, ` + pgjoin.EntryPhases + `) AS n (at, phase)
			WHERE p.run = $3::text AND p.at = n.at AND p.phase = n.phase)`,
	entries: `
		noted AS (
			INSERT INTO {phases} (run, at, phase, state)
			SELECT $3::text, n.at, n.phase, n.state::jsonb FROM r,
				unnest(` + pgjoin.EntryTimes + `, ` + pgjoin.EntryPhases + `, ` + pgjoin.EntryStates + `) AS n (at, phase, state)
			ON CONFLICT (run, at, phase) DO NOTHING
			RETURNING at
		), listed AS (
			INSERT INTO {logged} AS l (run, orchestrator, session, turn, first, last, open)
			SELECT $3::text, $1::text, $2::text, ` + pgjoin.EntryTurn + `, min(at), max(at), true
			FROM noted
			HAVING count(*) > 0
			{merge}
		)`,

	// FOR SHARE is a write of its own. So the commit waits for the disk, and for a standby, and the answer is as
	// durable as the entry.
	known: `
		SELECT state, {kept} FROM {phases} WHERE run = $1 AND at = $2::timestamptz AND phase = $3
		FOR SHARE`,

	alone: `SELECT state, NULL FROM {phases} WHERE run = $1 AND at = $2::timestamptz AND phase = $3`,

	// An entry without the row of its run is damaged.
	restore: `
		SELECT p.at, p.phase, {p.state}, l.orchestrator, l.session, l.turn
		FROM {phases} p LEFT JOIN {logged} l ON l.run = p.run
		WHERE p.run = $1
		ORDER BY p.at, p.phase`,

	// {selected} is the condition of a query, and its limit.
	list: `
		SELECT l.run, l.orchestrator, l.session, l.turn, l.first, a.at, a.phase, {a.state}, z.at, z.phase, {z.state}
		FROM (SELECT run, orchestrator, session, turn, first FROM {logged} WHERE {selected}) l
		LEFT JOIN LATERAL (
			SELECT at, phase, state FROM {phases} p WHERE p.run = l.run ORDER BY at, phase LIMIT 1
		) a ON true
		LEFT JOIN LATERAL (
			SELECT at, phase, state FROM {phases} p WHERE p.run = l.run ORDER BY at DESC, phase DESC LIMIT 1
		) z ON true
		ORDER BY l.first, l.run`,

	// idle reads the next runs, and says which of them can be forgotten. It tells the level of isolation too.
	idle: `
		SELECT current_setting('transaction_isolation'), run, {over}
		FROM {logged} WHERE run > $2 ORDER BY run LIMIT $3`,

	// lock waits for entries that are being recorded. forget is a statement of its own, in the same transaction. At
	// READ COMMITTED it sees these entries, and removes them too.
	lock: `SELECT 1 FROM {logged} WHERE run = ANY ($1::text[]) ORDER BY run FOR UPDATE`,
	forget: `
		WITH gone AS (
			DELETE FROM {logged} WHERE run = ANY ($2::text[]) AND {over} RETURNING run
		), entries AS (
			DELETE FROM {phases} p USING gone WHERE p.run = gone.run
		)
		SELECT count(*), {lazy} FROM gone`,
}

// merge adds an entry to the row of its run.
const merge = `ON CONFLICT (run) DO UPDATE SET
			turn = greatest(l.turn, excluded.turn),
			first = least(l.first, excluded.first), last = greatest(l.last, excluded.last),
			started = greatest(l.started, excluded.started), settled = greatest(l.settled, excluded.settled),
			open = coalesce(greatest(l.settled, excluded.settled) <= greatest(l.started, excluded.started),
				l.settled IS NULL AND excluded.settled IS NULL)`

// These follow the prefix in the names.
var (
	tables  = []string{"phases", "logged"}
	indexes = []string{"phases_pkey", "logged_first", "logged_session", "logged_open"}
)

func whole(d *pgstate.DB) *strings.Replacer { return names(d, "p.state", "a.state", "z.state") }

// names replaces the placeholders. The others are what is read of the states.
func names(d *pgstate.DB, entry, first, last string) *strings.Replacer {
	return strings.NewReplacer(append(d.Pairs(),
		"{p.state}", entry, "{a.state}", first, "{z.state}", last,
		"{over}", "(NOT open AND settled < $1::timestamptz)",
		"{kept}", durable, "{merge}", merge,
	)...)
}

func fillAll(d *pgstate.DB) queries {
	q := templates
	const none = "NULL::jsonb"
	brief := names(d, none, none, none)
	q.restoreBrief, q.listBrief = brief.Replace(q.restore), brief.Replace(q.list)
	pgstate.Fill(whole(d), &q.record, &q.end, &q.fresh, &q.entries, &q.known, &q.alone, &q.restore, &q.list, &q.idle,
		&q.lock, &q.forget)
	return q
}
