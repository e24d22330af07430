package pgledger

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

const (
	// plain are what scan reads, without the documents. The time of now tells the age.
	plain = `id, number, orchestrator, session, run_id, iteration, intent, name, each, key, class, epoch, nonce,
		args_sum, issued_at, attempts, state, finished_at, answered_by, answered_at, redacted, unsure,
		clock_timestamp(), error`

	// closed are the states that are not open.
	closed = `('completed', 'failed', 'skipped')`
	open   = "state NOT IN " + closed

	// undone are the states that a result changes. A damaged state is none of them: it may have been completed.
	undone = `('issued', 'unknown', 'failed', 'skipped')`

	// unraised says that no Raise came after the fence of epoch $3. The table has no row until the first Raise, and few
	// after. unconcerned says too that no Raise puts a new effect in doubt. $15 is what Effect.DoubtedAfter returns.
	unraised    = `NOT EXISTS (SELECT FROM {effect_raises} WHERE epoch >= $3::bigint)`
	unconcerned = `NOT EXISTS (SELECT FROM {effect_raises} WHERE epoch >= $3::bigint OR $15::bigint < epoch AND until > clock_timestamp())`

	// owned is the part of a statement that asks whether the fence ($3, $4) owns the run $2. The query owner has a row
	// if so. Until the commit the row of the fence is locked: Adopt waits for the commit, or the lock waits for Adopt
	// and judges the fence that Adopt has left. An EXISTS would judge the fence of a moment ago.
	//
	// The first effect of a run brings the fence with it. Of two at once, the second one waits for the first one.
	owned = `
		WITH held AS (
			SELECT 1 FROM {effect_fences}
			WHERE run_id = $2::text AND {unraised} AND epoch = $3::bigint AND nonce = $4::text FOR SHARE
		), first AS (
			INSERT INTO {effect_fences} AS f (run_id, epoch, nonce, since)
			SELECT $2::text, $3::bigint, $4::text, clock_timestamp() WHERE NOT EXISTS (SELECT FROM held) AND {unraised}
			ON CONFLICT (run_id) DO UPDATE SET since = f.since WHERE f.epoch = excluded.epoch AND f.nonce = excluded.nonce
			RETURNING 1
		), owner AS (
			SELECT 1 FROM held UNION ALL SELECT 1 FROM first
		)`

	// columns are those that a caller gives to a new effect, as given. unsure has a default. It is named so that no
	// effect is issued if the table lacks the column: Finish could not write the outcome.
	columns = `id, run_id, epoch, nonce, orchestrator, session, iteration, intent, name, each, key, class, args_sum, args,
		unsure`
	given = `$1::text, $2::text, $3::bigint, $4::text, $5::text, $6::text, $7::integer, $8::text, $9::text, $10::text,
		$11::text, $12::integer, $13::text, $14::jsonb, false`

	// orKnown ends a statement that writes an effect, and returns it as it stands. If the statement has not written,
	// known waits for other writers and returns what they have left. known does not find a row that was added after the
	// statement began. Then the statement returns no row.
	//
	// FOR SHARE is a write of its own. So the commit waits for the disk, and for a standby, and the answer is as
	// durable as the write that it tells of.
	orKnown = `, known AS (
			SELECT {plain}, {args}, {result} FROM {effects} e
			WHERE id = $1::text AND EXISTS (SELECT FROM owner) AND NOT EXISTS (SELECT FROM written)
			FOR SHARE
		)
		SELECT written.*, true, {durable} FROM written UNION ALL SELECT known.*, false, {durable} FROM known`
)

// queries holds the statements of one ledger, with its table names filled in.
type queries struct {
	adopt, unknown, issue, issueKnown, finish, found, record, recordKnown, prune, idle, lockIdle, forget string
	lockRaises, raise                                                                                    string

	// list begins each statement that reads effects, and listQuick one that leaves out the documents and the error.
	list, listQuick string

	// These are the statements of the same name without the documents. Of an effect whose documents the server cannot
	// read, the rest is read so.
	issueKnownBrief, finishBrief, foundBrief, recordKnownBrief, listBrief string
}

var templates = queries{
	// If the fence is too low, no row is returned.
	adopt: `
		INSERT INTO {effect_fences} AS f (run_id, epoch, nonce, since)
		SELECT $1::text, $2::bigint, $3::text, clock_timestamp()
		WHERE NOT EXISTS (SELECT FROM {effect_raises} WHERE epoch >= $2::bigint)
		ON CONFLICT (run_id) DO UPDATE SET
			epoch = excluded.epoch, nonce = excluded.nonce,
			since = CASE WHEN f.epoch < excluded.epoch THEN excluded.since ELSE f.since END
		WHERE f.epoch < excluded.epoch OR f.epoch = excluded.epoch AND f.nonce = excluded.nonce
		RETURNING current_setting('transaction_isolation'), {durable}`,

	// unknown is a statement of its own, after the adoption and in its transaction. The adoption may have waited for an
	// Issue whose effect its own snapshot does not show.
	unknown: `
		UPDATE {effects} SET state = 'unknown', finished_at = clock_timestamp()
		WHERE run_id = $1::text AND state = 'issued' AND (epoch, nonce) <> ($2::bigint, $3::text) AND EXISTS (
			SELECT FROM {effect_fences} WHERE run_id = $1::text AND epoch = $2::bigint AND nonce = $3::text)`,

	// Most effects are new. A statement that only adds takes two thirds of the time of one that looks for a known
	// effect too, and returns nothing that the caller knows. If it returns no row, issueKnown finds out why.
	issue: strings.ReplaceAll(owned, "{unraised}", unconcerned) + `
		INSERT INTO {effects} (` + columns + `, state, attempts, issued_at)
		SELECT ` + given + `, 'issued', 1, clock_timestamp() FROM owner
		ON CONFLICT (id) DO NOTHING
		RETURNING issued_at, {durable}`,

	// The condition judges the newest version of the effect, which is locked from then on. $15 is the attempt that the
	// new one follows; 0 if the caller knows of none. $16 says that none so far has happened. If a Raise puts a new
	// effect in doubt, it is Unknown. So is the attempt after one that had Failed before the Raise: it may be lost.
	// $17 is what Effect.DoubtedAfter returns.
	issueKnown: owned + `, written AS (
			INSERT INTO {effects} AS e (` + columns + `, state, attempts, issued_at, finished_at, error)
			SELECT ` + given + `, CASE WHEN why IS NULL THEN 'issued' ELSE 'unknown' END, 1, clock_timestamp(),
				CASE WHEN why IS NOT NULL THEN clock_timestamp() END, coalesce(why, '')
			FROM owner LEFT JOIN (
				SELECT why FROM {effect_raises} WHERE $17::bigint < epoch AND until > clock_timestamp() ORDER BY epoch DESC LIMIT 1
			) d ON true
			ON CONFLICT (id) DO UPDATE SET
				run_id = excluded.run_id, epoch = excluded.epoch, nonce = excluded.nonce, session = excluded.session,
				iteration = excluded.iteration, intent = excluded.intent, class = excluded.class,
				args_sum = excluded.args_sum, args = excluded.args, attempts = e.attempts + 1,
				answered_by = '', answered_at = NULL, unsure = e.state <> 'failed' AND NOT $16::boolean,
				(issued_at, state, finished_at, error) = (
					SELECT at, CASE WHEN lost THEN 'unknown' ELSE 'issued' END, CASE WHEN lost THEN at END,
						CASE WHEN lost THEN excluded.error ELSE '' END
					FROM (SELECT clock_timestamp() AS at, e.state = 'failed' AND NOT $16::boolean AND EXISTS (
						SELECT FROM {effect_raises} r
						WHERE $17::bigint < r.epoch AND r.until > clock_timestamp() AND r.raised > e.finished_at
					) AS lost) l)
			WHERE (e.class = 1 OR e.args_sum = excluded.args_sum
					OR split_part(e.args_sum, ':', 1) <> split_part(excluded.args_sum, ':', 1))
				AND e.attempts = $15::integer
				AND (e.state IN ('failed', 'unknown') OR e.state = 'issued' AND e.run_id = excluded.run_id)
			RETURNING {plain}, NULL::jsonb, {result}
		)` + orKnown,

	record: owned + `
		INSERT INTO {effects} (` + columns + `, result, redacted, state, attempts, issued_at, finished_at)
		SELECT ` + given + `, $15::jsonb, $16::boolean, 'completed', 1, c.now, c.now FROM owner, (SELECT clock_timestamp() AS now) c
		ON CONFLICT (id) DO NOTHING
		RETURNING issued_at, {durable}`,

	// What is Completed stays.
	recordKnown: owned + `, written AS (
			INSERT INTO {effects} AS e (` + columns + `, result, redacted, state, attempts, issued_at, finished_at)
			SELECT ` + given + `, $15::jsonb, $16::boolean, 'completed', 1, clock_timestamp(), clock_timestamp() FROM owner
			ON CONFLICT (id) DO UPDATE SET
				state = 'completed', result = excluded.result, redacted = excluded.redacted, error = '', finished_at = clock_timestamp()
			WHERE e.state IN {undone}
			RETURNING {plain}, {args}, NULL::jsonb
		)` + orKnown,

	// A Completed outcome is taken in each other state, and another outcome from the last attempt while the effect is
	// open. An answer is taken if the effect is in doubt. unsure stays: it counts while the effect is open.
	finish: `
		UPDATE {effects} SET
			state = CASE WHEN $3::text = 'failed' AND $6::text = '' AND unsure THEN 'unknown' ELSE $3::text END,
			result = $4::jsonb, redacted = $8::boolean, error = $5::text, finished_at = clock_timestamp(),
			answered_by = CASE WHEN $6::text <> '' THEN $6::text ELSE answered_by END,
			answered_at = CASE WHEN $6::text <> '' THEN clock_timestamp() ELSE answered_at END
		WHERE id = $1::text AND CASE
			WHEN $6::text <> '' THEN attempts = $2::integer AND (state = 'unknown' OR state = 'issued' AND $7::boolean)
			WHEN $3::text = 'completed' THEN state IN {undone}
			ELSE attempts = $2::integer AND state IN ('issued', 'unknown') END
		RETURNING {plain}, {args}, NULL::jsonb, true, {durable}`,

	// found tells what a Finish has left as it was. FOR SHARE is a write, as in orKnown.
	found: `SELECT {plain}, {args}, {result}, false, {durable} FROM {effects} WHERE id = $1 FOR SHARE`,

	list: `SELECT {plain}, {args}, {result}, false, '' FROM {effects} WHERE `,

	// If a row changed since the statement began, its newest version is judged. A row that is locked is in use.
	prune: `
		WITH slice AS MATERIALIZED (
			SELECT id, {over} AS over FROM {effects} WHERE id > $2 ORDER BY id LIMIT $3
		), over AS (
			SELECT locked.*
			FROM slice, LATERAL (
				SELECT id FROM {effects} e WHERE e.id = slice.id AND {over} FOR UPDATE SKIP LOCKED
			) AS locked
			WHERE slice.over
		), gone AS (
			DELETE FROM {effects} e USING over WHERE e.id = over.id RETURNING 1
		)
		SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM slice),
			coalesce((SELECT id FROM slice ORDER BY id DESC LIMIT 1), ''), {lazy}`,

	// idle reads the next fences, and says which of them belong to a run without effects. It tells the level too.
	idle: `
		SELECT current_setting('transaction_isolation'), run_id, since < $1 AND NOT EXISTS (SELECT FROM {effects} e WHERE e.run_id = f.run_id)
		FROM {effect_fences} f WHERE run_id > $2 ORDER BY run_id LIMIT $3`,

	// The first effect of a run holds the fence until its commit. lockIdle waits for it. forget is a statement of its
	// own, in the same transaction. At READ COMMITTED it sees this effect. The fence of a run that was adopted since is
	// younger than the transaction.
	lockIdle: `SELECT 1 FROM {effect_fences} WHERE run_id = ANY ($1::text[]) ORDER BY run_id FOR UPDATE`,
	forget: `
		WITH gone AS (
			DELETE FROM {effect_fences} f
			WHERE run_id = ANY ($1::text[]) AND since < least($2::timestamptz, transaction_timestamp())
				AND NOT EXISTS (SELECT FROM {effects} e WHERE e.run_id = f.run_id)
		)
		SELECT {lazy}`,

	// lockRaises waits for the transactions that issue effects, all of which read this table. Later ones see the row.
	// ahead are the fences of a clock that is ahead of this one. No caller has a fence without a nonce.
	lockRaises: `DO $$ BEGIN LOCK TABLE {effect_raises} IN ACCESS EXCLUSIVE MODE; END $$`, // LOCK alone wants a BEGIN
	raise: `
		WITH c AS MATERIALIZED (
			SELECT clock_timestamp() AS now
		), raised AS (
			INSERT INTO {effect_raises} (raised, lost, until, epoch, why)
			SELECT now, $1::timestamptz, now + $2::bigint * interval '1 microsecond', (extract(epoch FROM now) * 1e6)::bigint, $3::text
			FROM c
			RETURNING epoch
		), ahead AS (
			UPDATE {effect_fences} f SET nonce = '' FROM raised r WHERE f.epoch > r.epoch
		), ended AS (
			UPDATE {effects} SET state = 'unknown', finished_at = c.now FROM c WHERE state = 'issued' RETURNING 1
		)
		SELECT count(*), {durable} FROM ended`,
}

// These follow the prefix in the names.
var (
	tables  = []string{"effects", "effect_fences", "effect_raises"}
	indexes = []string{"effects_run", "effects_session", "effects_open", "effects_answer"}
)

func whole(d *pgstate.DB) *strings.Replacer { return names(d, "args", "result") }

// names replaces the placeholders. args and result are what is read of the documents.
func names(d *pgstate.DB, args, result string) *strings.Replacer {
	return strings.NewReplacer(append(d.Pairs(),
		"{plain}", plain, "{args}", args, "{result}", result, "{undone}", undone, "{open}", open,
		"{over}", "(key = '' AND state IN "+closed+" AND finished_at < $1)",
		"{unraised}", strings.ReplaceAll(unraised, "{effect_raises}", d.Prefix.Table("effect_raises")),
	)...)
}

func fillAll(d *pgstate.DB) queries {
	q := templates
	brief, whole := names(d, "NULL::jsonb", "NULL::jsonb"), whole(d)
	q.listQuick = brief.Replace(strings.ReplaceAll(q.list, "{plain}", strings.TrimSuffix(plain, "error")+"''"))
	for full, short := range map[*string]*string{
		&q.issueKnown: &q.issueKnownBrief, &q.recordKnown: &q.recordKnownBrief,
		&q.finish: &q.finishBrief, &q.found: &q.foundBrief, &q.list: &q.listBrief,
	} {
		*short = brief.Replace(*full)
		*full = whole.Replace(*full)
	}
	pgstate.Fill(whole,
		&q.adopt, &q.unknown, &q.issue, &q.record, &q.prune, &q.idle, &q.lockIdle, &q.forget, &q.lockRaises, &q.raise)
	return q
}
