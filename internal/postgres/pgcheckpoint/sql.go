package pgcheckpoint

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgprocess"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
)

// admits says whether a claim with nonce $3 gets the session. $6 and $7 are the fence of ClaimRequest.From.
const admits = `(nonce = $3 OR
	CASE WHEN $7 = '' THEN lease_until <= clock_timestamp() ELSE epoch = $6::bigint AND nonce = $7 END)`

// granted holds the columns that a granted claim returns, and that readClaim scans.
const granted = `'granted'::text, epoch, nonce, owner, born, turn, summarized, coalesce(owed, turn + 1), failed`

// claimed is the level of synchronous_commit for a claim, by the head as it was before.
const claimed = `CASE WHEN nonce = '' AND owed IS NULL THEN 'off' ELSE ` + pgstate.Level + ` END`

// retried says whether a mark notes a failed delivery: a turn must still be owed.
const retried = `$8::bigint > 0 AND owed IS NOT NULL AND $6::integer <= turn`

const turnColumns = `t.turn, t.state, t.payload, t.route, t.signature, t.version, t.run_id, coalesce(t.request_id, ''), t.saved_at`

// queries holds the statements of one store, with its table names filled in.
type queries struct {
	claim, guard, create, headless, newest, answered, append, explain, mark, renew, raise string
	// settle is append with a place for a pgjoin.Part.
	settle string
	// relabel and settleRelabel are append and settle with new labels: see relabeled.
	relabel, settleRelabel string

	deleteGuard, deleteHead, deleteTurns, turns, sessions, owing, held, sweep string
	numbers, head, session, owes, bots                                        string
	labeled, labeledOnly, due, dueOnly, headed, headedAny                     string
}

var templates = queries{
	// The clock is read after a wait for the row. If the session was given back, the claim need not be durable: if it
	// is lost in a crash of the server, the session has no owner. If the claim takes the session from its owner, it
	// must be durable, or the crash would give the session back. If the claim finds a reply owed, it must be durable
	// too, because the reply may leave before another commit does. So the statement sets whether the commit waits for
	// the disk where it can see the old nonce.
	//
	// If the claim is refused, it returns the head as it was when the statement began. If that head admits the claim,
	// another claim or a Delete came first while this claim waited, and the claim is to be sent again. No row means
	// that there was no head.
	claim: `
		WITH c AS (
			UPDATE {sessions} SET
				epoch = CASE WHEN nonce = $3 THEN epoch ELSE greatest(epoch + 1, {clock}) END,
				nonce = $3,
				born = CASE WHEN $8::bigint > 0 AND turn < 0 THEN $8 ELSE born END,
				owner = CASE WHEN set_config('synchronous_commit', {claimed}, true) <> '' THEN $4 END,
				lease_until = clock_timestamp() + $5::bigint * interval '1 microsecond'
			WHERE orchestrator = $1 AND session = $2 AND {admits}
			RETURNING {granted}
		)
		SELECT * FROM c
		UNION ALL
		SELECT
			CASE WHEN {admits} THEN 'overtaken' WHEN lease_until > clock_timestamp() THEN 'held' ELSE 'free' END,
			epoch, nonce, owner, 0, 0, 0, 0, 0
		FROM {sessions}
		WHERE orchestrator = $1 AND session = $2 AND NOT EXISTS (SELECT FROM c)`,

	// An INSERT that waits for the row of a session that is being deleted goes on with the clock that it read before.
	// That clock may be behind epochs of the deleted session. So sessions are born, and deleted, under an advisory
	// lock.
	guard: `SELECT pg_advisory_xact_lock_shared(hashtextextended($1 || '/' || $2, 0))`,

	// Born is durable before the caller gets it. Otherwise a run that hashed Born would be another run after a crash.
	// No row means that another claim was first to create the session, or that its turns are kept without a head. So no
	// settled turn is hidden behind a new session.
	create: `
		INSERT INTO {sessions} AS h (orchestrator, session, epoch, nonce, owner, lease_until, born)
		SELECT $1, $2, c.us, $3, CASE WHEN {durable} <> '' THEN $4 END, clock_timestamp() + $5::bigint * interval '1 microsecond', c.us
		FROM (SELECT {clock} AS us) c
		WHERE NOT EXISTS (SELECT FROM {turns} WHERE orchestrator = $1 AND session = $2)
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			epoch = CASE WHEN h.nonce = excluded.nonce THEN h.epoch ELSE greatest(h.epoch + 1, {clock}) END,
			nonce = excluded.nonce,
			owner = excluded.owner,
			lease_until = clock_timestamp() + $5::bigint * interval '1 microsecond'
		WHERE h.lease_until <= clock_timestamp() OR h.nonce = excluded.nonce
		RETURNING {granted}`,

	// Heads and turns are created and deleted in one transaction, and one statement sees one state of both.
	headless: `
		SELECT EXISTS (SELECT FROM {turns} WHERE orchestrator = $1 AND session = $2)
			AND NOT EXISTS (SELECT FROM {sessions} WHERE orchestrator = $1 AND session = $2), {clock}`,

	// newest and answered are statements of their own, after the claim in its pipeline: the claim may have waited for a
	// settle that its own snapshot does not see. They compare the nonce, so that a refused claim loads nothing.
	//
	// The number of the turn comes from a query of its own, and not from a join, so that the planner must look the turn
	// up. Without statistics a planner may take a session to be so short that it reads all turns, and filters. OFFSET 0
	// serves the same end: it keeps the order of the turns out of the choice of an index.
	newest: `
		SELECT {columns}
		FROM {turns} t
		WHERE t.orchestrator = $1 AND t.session = $2 AND t.turn = (
			SELECT h.turn FROM {sessions} h WHERE h.orchestrator = $1 AND h.session = $2 AND h.nonce = $3)`,

	// An answer that is found makes the claim durable, and so itself: it is told as settled.
	answered: `
		SELECT {columns}
		FROM (
			SELECT *
			FROM (SELECT * FROM {turns} WHERE orchestrator = $1 AND session = $2 AND request_id = $4 OFFSET 0) t
			WHERE t.turn <= (SELECT h.turn FROM {sessions} h WHERE h.orchestrator = $1 AND h.session = $2 AND h.nonce = $3)
			ORDER BY t.turn DESC
			LIMIT 1
		) t
		WHERE {durableAgain} <> ''`,

	// The delete begins at the first turn that the settle before this one left. An open range would walk the dead index
	// entries of all turns ever pruned. RETURNING shows new values only, hence the column pruned.
	append: `
		WITH h AS (
			UPDATE {sessions} SET
				turn = $5::integer,
				pruned = first,
				first = greatest(first, least($5::integer - $13::integer + 1, coalesce(owed, $5::integer))),
				owed = coalesce(owed, CASE WHEN $14::boolean THEN $5::integer END),
				nonce = CASE WHEN $15::boolean THEN '' ELSE nonce END,
				lease_until = CASE WHEN $15::boolean THEN clock_timestamp() ELSE greatest(lease_until, clock_timestamp()) END
			WHERE orchestrator = $1 AND session = $2 AND epoch = $3 AND nonce = $4 AND turn = $5::integer - 1
			RETURNING pruned, first
		), i AS (
			INSERT INTO {turns} (orchestrator, session, turn, state, payload, route, signature, version, run_id, request_id)
			SELECT $1, $2, $5::integer, $6::jsonb, $7::jsonb, $8::text[], $9, $10, $11, nullif($12, '') FROM h
		), d AS (
			DELETE FROM {turns}
			WHERE orchestrator = $1 AND session = $2 AND turn >= (SELECT pruned FROM h) AND turn < (SELECT first FROM h)
		){and}
		SELECT {forgotten}, {durable} FROM h`,

	// The search for the run covers the turns where it can be, and some older ones: with an index of the runs every
	// settle would pay. An owner that knew the session up to the turn before $6 is refused because of a turn from $6
	// on.
	explain: `
		SELECT
			EXISTS (
				SELECT FROM {turns}
				WHERE orchestrator = $1 AND session = $2 AND run_id = $5 AND turn >= least($6::integer, (
					SELECT turn - {looked} + 1 FROM {sessions} WHERE orchestrator = $1 AND session = $2))
			) AND {firm},
			EXISTS (SELECT FROM {sessions} WHERE orchestrator = $1 AND session = $2 AND epoch = $3 AND nonce = $4)`,

	// A mark that is lost in a crash of the server is made again: a reply is delivered at least once. While no turn is
	// owed, failed is 0 and retry_at NULL, so that a settle need not touch them.
	mark: `
		UPDATE {sessions} SET
			summarized = greatest(summarized, least($5::integer, turn + 1)),
			owed = CASE WHEN $6::integer > turn THEN NULL WHEN owed IS NOT NULL THEN greatest(owed, $6::integer) END,
			failed = CASE WHEN $6::integer > owed THEN 0 ELSE failed END + CASE WHEN {retried} THEN 1 ELSE 0 END,
			retry_at = CASE
				WHEN {retried} THEN clock_timestamp() + $8::bigint * interval '1 microsecond'
				WHEN $6::integer > owed THEN NULL
				ELSE retry_at
			END,
			nonce = CASE WHEN $7::boolean THEN '' ELSE nonce END,
			lease_until = CASE WHEN $7::boolean AND nonce <> '' THEN clock_timestamp() ELSE greatest(lease_until, clock_timestamp()) END
		WHERE orchestrator = $1 AND session = $2 AND epoch = $3 AND nonce IN ($4, '')
		RETURNING set_config('synchronous_commit', 'off', true)`,

	// The rows are locked in key order. An UPDATE that joins locks rows in any order, and two such statements deadlock.
	renew: `
		WITH wanted AS (
			SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS w (orchestrator, session, epoch, nonce)
		), locked AS (
			SELECT h.orchestrator, h.session
			FROM {sessions} h JOIN wanted USING (orchestrator, session, epoch, nonce)
			ORDER BY h.orchestrator, h.session
			FOR NO KEY UPDATE OF h
		)
		UPDATE {sessions} h SET lease_until = clock_timestamp() + $5::bigint * interval '1 microsecond'
		FROM locked
		WHERE h.orchestrator = locked.orchestrator AND h.session = locked.session
		RETURNING h.orchestrator, h.session, h.epoch, h.nonce`,

	// A standby that is promoted may give a session back to a former owner. The statement cannot tell such an owner
	// from one that was never fenced off. A session without a nonce has no owner. Rows are locked in the order of
	// renew.
	raise: `
		WITH owned AS (
			SELECT orchestrator, session FROM {sessions} WHERE nonce <> '' ORDER BY 1, 2 FOR NO KEY UPDATE
		), raised AS (
			UPDATE {sessions} h SET
				epoch = greatest(epoch + 1, {clock}), nonce = '', lease_until = least(lease_until, clock_timestamp())
			FROM owned
			WHERE h.orchestrator = owned.orchestrator AND h.session = owned.session
			RETURNING 1
		)
		SELECT count(*) FROM raised HAVING {durable} <> ''`,

	// These are statements of one transaction. The head goes first: one statement would miss the row of an Append that
	// it waited for. If there is still a head, it has another fence, and its turns stay. The guard keeps claims from
	// creating a head in between. If a repeat finds nothing, it is as durable as the delete that it repeats.
	deleteGuard: `SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))`,
	deleteHead:  `DELETE FROM {sessions} WHERE orchestrator = $1 AND session = $2 AND epoch = $3 AND nonce = $4`,
	deleteTurns: `
		WITH h AS (
			SELECT FROM {sessions} WHERE orchestrator = $1 AND session = $2
		), d AS (
			DELETE FROM {turns} WHERE orchestrator = $1 AND session = $2 AND NOT EXISTS (SELECT FROM h)
		), l AS (
			DELETE FROM {labels} WHERE orchestrator = $1 AND session = $2 AND NOT EXISTS (SELECT FROM h)
		)
		SELECT CASE WHEN {firm} THEN EXISTS (SELECT FROM h) END`,

	turns: `
		SELECT {columns}
		FROM {turns} t
		WHERE orchestrator = $1 AND session = $2 AND turn <= $3
		ORDER BY turn DESC
		LIMIT $4`,

	// numbers finds the turns of a page, without the columns that may be out of line.
	numbers: `
		SELECT turn
		FROM {turns}
		WHERE orchestrator = $1 AND session = $2 AND turn <= $3
		ORDER BY turn DESC
		LIMIT $4`,

	sessions: `
		SELECT session
		FROM {sessions}
		WHERE orchestrator = $1 AND session >= $2 AND session > $3 AND turn >= 0
		ORDER BY session
		LIMIT $4`,

	owing: `
		SELECT session
		FROM {sessions}
		WHERE orchestrator = $1 AND session >= $2 AND session > $3 AND owed IS NOT NULL
			AND (NOT $5::boolean OR retry_at IS NULL OR retry_at <= clock_timestamp())
			AND ($6::bigint = 0 OR retry_at > clock_timestamp() + $6::bigint * interval '1 microsecond')
		ORDER BY session
		LIMIT $4`,

	labeled: labeledSQL,
	due:     dueSQL,
	headed:  headedSQL, headedAny: headedAnySQL,

	held: `
		SELECT session, owner
		FROM {sessions}
		WHERE orchestrator = $1 AND session = ANY($2::text[]) AND nonce <> '' AND lease_until > clock_timestamp()`,

	head: headSQL,
	bots: botsSQL,

	// One statement may retire sessions, because every settle moves lease_until. If a session settled while the
	// statement waited, the statement looks at it again, and the session is idle no more.
	sweep: `
		WITH slice AS MATERIALIZED (
			SELECT orchestrator, session, lease_until, owed, turn
			FROM {sessions}
			WHERE (orchestrator, session) > ($3, $4)
			ORDER BY orchestrator, session
			LIMIT $5
		), idle AS (
			SELECT locked.*
			FROM slice, LATERAL (
				SELECT orchestrator, session
				FROM {sessions} h
				WHERE h.orchestrator = slice.orchestrator AND h.session = slice.session
					AND h.owed IS NULL AND h.lease_until < statement_timestamp()
						- CASE WHEN h.turn < 0 THEN least($1::bigint, {unsettled}) ELSE $1::bigint END * interval '1 microsecond'
				FOR UPDATE SKIP LOCKED
			) AS locked
			WHERE slice.owed IS NULL AND slice.lease_until < statement_timestamp()
				- CASE WHEN slice.turn < 0 THEN least($1::bigint, {unsettled}) ELSE $1::bigint END * interval '1 microsecond'
			LIMIT $2
		), h AS (
			DELETE FROM {sessions} h USING idle
			WHERE h.orchestrator = idle.orchestrator AND h.session = idle.session
			RETURNING h.orchestrator, h.session, h.turn
		), t AS (
			DELETE FROM {turns} t USING h
			WHERE t.orchestrator = h.orchestrator AND t.session = h.session
		), l AS (
			DELETE FROM {labels} l USING h
			WHERE l.orchestrator = h.orchestrator AND l.session = h.session
		){said}
		SELECT (SELECT count(*) FROM h), (SELECT count(*) FROM slice), last.orchestrator, last.session
		FROM (VALUES (1)) AS one LEFT JOIN (
			SELECT orchestrator, session FROM slice ORDER BY orchestrator DESC, session DESC LIMIT 1
		) AS last ON true`,
}

// said deletes what was said in the sessions that are retired. The run of a session that has settled nothing is not
// dropped, and may name it. If an owner of before has appended while the statement waited, last is another, and all
// stays: the statement does not see the new entry.
const said = `, said AS MATERIALIZED (
			SELECT s.orchestrator, s.session, s.last
			FROM h CROSS JOIN LATERAL (
				SELECT s.orchestrator, s.session, s.last FROM {transcripts} s
				WHERE s.orchestrator = h.orchestrator AND s.session = h.session
				OFFSET 0
			) s WHERE h.turn >= 0
		), s AS (
			DELETE FROM {transcripts} s USING said
			WHERE s.orchestrator = said.orchestrator AND s.session = said.session AND s.last = said.last
			RETURNING s.orchestrator, s.session
		), m AS (
			DELETE FROM {messages} m USING s WHERE m.orchestrator = s.orchestrator AND m.session = s.session
		)`

// These follow the prefix in the names.
var (
	tables  = append([]string{"sessions", "turns", "labels", "sessions_sweep"}, pgprocess.Tables...)
	indexes = []string{"sessions_owed", "turns_request", "labels_session", "labels_due"}
)

// Fill replaces the placeholders in a statement by the names of the store's tables and functions.
func (s *Store) Fill(template string) string { return names(s.db).Replace(template) }

func names(d *pgstate.DB) *strings.Replacer {
	return strings.NewReplacer(append(append(d.Pairs(), pgstate.Placeholders(d.Prefix, functions)...),
		pgsweep.Table, d.Prefix.Table("sessions_sweep"),
		"{transcripts}", d.Prefix.Table("transcripts"), "{messages}", d.Prefix.Table("messages"),
		"{columns}", turnColumns, "{admits}", admits, "{granted}", granted, "{retried}", retried,
		"{looked}", strconv.Itoa(checkpoint.DefaultKeep), "{claimed}", claimed,
	)...)
}

func fillAll(names *strings.Replacer) queries {
	q := templates
	joined := strings.NewReplacer("{and}", ", {part}", "{forgotten}", "EXISTS (SELECT FROM forgotten)")
	q.settle = joined.Replace(q.append)
	only := strings.NewReplacer("session >= $2 AND session > $3", "session = $2 AND $3 = ''",
		"session || '' >= $2 AND session || '' > $3", "session = $2 AND $3 = ''")
	q.session, q.owes = only.Replace(q.sessions), only.Replace(q.owing)
	q.labeledOnly, q.dueOnly = only.Replace(q.labeled), only.Replace(q.due)
	q.append = strings.NewReplacer("{and}", "", "{forgotten}", "false").Replace(q.append)
	labels := strings.NewReplacer("\n\t\t), d AS (", "\n\t\t)"+relabelSQL+", d AS (")
	q.relabel, q.settleRelabel = labels.Replace(q.append), labels.Replace(q.settle)
	pgstate.Fill(names,
		&q.settle, &q.claim, &q.create, &q.headless, &q.newest, &q.answered, &q.append, &q.explain, &q.mark,
		&q.renew, &q.raise, &q.deleteHead, &q.deleteTurns, &q.turns, &q.sessions, &q.owing, &q.session, &q.owes,
		&q.labeled, &q.labeledOnly, &q.due, &q.dueOnly, &q.headed, &q.headedAny, &q.relabel, &q.settleRelabel,
		&q.held, &q.numbers, &q.head, &q.bots,
	)
	return q
}
