package pgworkflow

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgprocess"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// expires is when the retention of a run ends, in UTC. The expression of an index may not depend on the time zone.
	// A retention for ever ends in a hundred thousand years.
	expires = `(completed AT TIME ZONE 'UTC') + least(retention, 36500000) * interval '1 day'`

	// columns are what scan reads of a run, but for the documents.
	columns = `m.id, m.workflow, m.version, m.status, m.hold, m.error, coalesce(m.key, ''), m.retention, m.started,
		m.completed, nullif(m.due, 'infinity'), m.owner, coalesce(m.event, ''), coalesce(m.parent, ''), m.since`
	documents = `m.input, m.output`

	// group is that of a run. Only lists read it.
	group = `coalesce(substr(m.place, 2), '')`

	unread = `NULL::jsonb, NULL::jsonb`

	// runs says that the run of an id is not over, in words from which the planner does not conclude that
	// workflow_runs_due serves. If few runs were running when the statistics were gathered, the planner would take that
	// index for the cheaper one, and each statement would walk all runs that are running now.
	runs = `m.status || '' = 'running'`

	// owned is the fence. A run that is over has no owner. About status it says nothing, for the reason of runs.
	owned = `id = $1::text AND epoch = $2::bigint AND nonce = $3::text AND owner <> ''
				AND ($4::bigint < 0 OR mail = $4::bigint)`

	// addSteps adds outcomes. {rows} are their parameters. What is open, or will be tried again, keeps its beginning.
	addSteps = `, s AS (
			INSERT INTO {workflow_steps} AS o (
				run, name, idx, kind, outcome, output, error, attempts, until, signal, started, completed)
			SELECT r.id, v.name, v.idx, v.kind, v.outcome, v.output, v.error, v.attempts,
				coalesce(r.at + v.lasts * interval '1 microsecond', v.until), v.signal,
				r.at - v.took * interval '1 microsecond', r.at
			FROM r, (VALUES {rows}) AS v (name, idx, kind, outcome, output, error, attempts, lasts, until, signal, took)
			ON CONFLICT (run, name) DO UPDATE SET
				idx = excluded.idx, kind = excluded.kind, outcome = excluded.outcome, output = excluded.output,
				error = excluded.error, attempts = excluded.attempts, signal = excluded.signal,
				completed = excluded.completed,
				started = CASE WHEN o.outcome = 'late' THEN excluded.started ELSE o.started END,
				until = CASE WHEN o.outcome = 'late' THEN excluded.until ELSE coalesce(excluded.until, o.until) END
			WHERE (o.outcome = 'late' OR o.outcome IN ('open', 'retrying')
					AND (excluded.outcome <> o.outcome OR excluded.attempts > o.attempts))
				AND excluded.outcome <> 'late'
			{returning}
		)`

	// take notes which waits have taken signals.
	take = `, t AS (
			UPDATE {workflow_signals} g SET taken = s.name FROM s WHERE g.run = $1::text AND g.id = s.signal AND s.signal <> ''
		)`

	// leave is a statement by which an owner gives its run away. {next} says how the run goes on.
	leave = `
		WITH r AS (
			UPDATE {workflow_runs} m SET owner = '', {next}
			FROM (SELECT clock_timestamp() AS now) c
			WHERE {owned} RETURNING m.id, c.now AS at
		){steps}
		SELECT {wrote}, {durable} FROM r`

	// hit says that the run waits for this signal, and several that it has several waits, each of which has to look.
	parked  = `m.owner = '' AND m.hold = ''`
	hit     = `(m.event = $3::text AND ` + parked + ` AND (m.match IS NULL OR $4::jsonb @> m.match)) IS TRUE`
	several = `(m.event = '*' AND ` + parked + `) IS TRUE`

	// claimed are what scanClaimed reads. The clock is at since.
	claimed = `m.epoch, m.nonce, m.mail, m.since AS now, {columns}, {documents}`

	// ready makes a process the owner of runs that have no owner. {ready} says of which.
	ready = `
		WITH d AS (
			SELECT l.id, l.due FROM {definitions} CROSS JOIN LATERAL (
				SELECT m.id, m.due FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.workflow = k.workflow AND m.version = k.version AND {ready}
				ORDER BY m.due LIMIT $1::bigint FOR NO KEY UPDATE SKIP LOCKED
			) l ORDER BY l.due, l.id LIMIT $1::bigint
		), u AS (
			UPDATE {workflow_runs} m SET owner = $2::text, epoch = m.epoch + 1, nonce = $3::text, since = clock_timestamp(),
				due = NULL, hold = '', error = '', event = NULL, match = NULL
			FROM d WHERE m.id = d.id
			RETURNING d.due AS was, {claimed}
		)
		SELECT z.next, z.lazy, u.* FROM (SELECT {next} AS next, {lazy} AS lazy) z LEFT JOIN u ON true
		ORDER BY u.was`

	// lost makes a process the owner of runs that other processes have lost. {whose} says of which. $6 is since when
	// the process has claimed some, if the statement is sent once more. A run that made progress since it was lost
	// before counts its crashes anew.
	lost = `
		WITH {noted} d AS (
			SELECT l.id, l.crashes, l.crashed, (
				SELECT count(*) FROM {workflow_steps} s WHERE s.run = l.id AND s.outcome NOT IN ('retrying', 'late')
			) AS rows
			FROM {definitions} CROSS JOIN LATERAL (
				SELECT m.id, m.crashes, m.crashed FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.workflow = k.workflow AND m.version = k.version AND m.due IS NULL
					AND m.owner <> '' AND {whose} AND ($6::timestamptz IS NULL OR m.since < $6::timestamptz)
				LIMIT $1::bigint FOR NO KEY UPDATE SKIP LOCKED
			) l LIMIT $1::bigint
		), e AS (
			SELECT id, rows, crashes, crashes >= $4::integer AS held
			FROM (SELECT id, rows, CASE WHEN crashed = rows THEN crashes + 1 ELSE 1 END AS crashes FROM d) f
		), u AS (
			UPDATE {workflow_runs} m SET epoch = m.epoch + 1, crashes = e.crashes, crashed = e.rows,
				owner = CASE WHEN e.held THEN '' ELSE $2::text END,
				nonce = CASE WHEN e.held THEN m.nonce ELSE $3::text END,
				since = CASE WHEN e.held THEN m.since ELSE clock_timestamp() END,
				due = CASE WHEN e.held THEN timestamptz 'infinity' END,
				hold = CASE WHEN e.held THEN 'crashed' ELSE '' END,
				error = CASE WHEN e.held THEN {crashError} ELSE '' END
			FROM e WHERE m.id = e.id
			RETURNING m.due AS was, {claimed}
		)
		SELECT NULL::bigint, z.lazy, u.* FROM (SELECT {lazy} AS lazy) z LEFT JOIN u ON true`

	// newest is the version of a start without one. $3 is 0.
	newest = `coalesce(nullif($3::integer, 0), (
				SELECT max(version) FROM {workflow_definitions}
				WHERE workflow = $2::text AND at > now() - interval '5 minutes'
			), (
				SELECT max(version) FROM (
					(SELECT version FROM {workflow_runs} WHERE workflow = $2::text AND status = 'running'
						ORDER BY workflow DESC, version DESC LIMIT 1)
					UNION ALL
					(SELECT version FROM {workflow_runs} WHERE workflow = $2::text AND status <> 'running'
						ORDER BY workflow DESC, version DESC LIMIT 1)
				) v
			), 1)`

	// children are the runs that a run has started. OFFSET keeps the planner from a join that reads all runs.
	children = `LATERAL (SELECT m.id FROM {workflow_runs} m WHERE m.parent = {of} OFFSET 0) m`

	// family are the descendants of runs. {base} selects the children of the first generation.
	family = `
		WITH RECURSIVE d (id) AS (
			SELECT m.id FROM {base}
			UNION ALL
			SELECT m.id FROM d, {ofEach}
		)`

	// before says that a row s is before the row f of a step: see Step.Before.
	before = `CASE WHEN rtrim(s.name, replace(s.name, '/', '')) = rtrim(f.name, replace(f.name, '/', ''))
				THEN s.idx < f.idx ELSE s.started < f.started END`

	// forsaken is the base of a run that was rewound in this transaction, which is known by the nonce: its children
	// that no row knows any more.
	forsaken = `{workflow_runs} r, {ofRun} WHERE r.id = $1::text AND r.nonce = $2::text AND NOT EXISTS (
				SELECT FROM {workflow_steps} s
				WHERE s.run = $1::text AND s.kind = 'child' AND s.outcome = 'open' AND s.output = to_jsonb(m.id))`

	// cancelled is the base of a run that is cancelled. About status it says nothing to the planner, as in runs.
	cancelled = `{workflow_runs} r, {ofRun} WHERE r.id = $1::text AND r.status || '' = 'cancelled'`

	// follow cancels a family. It locks the runs in the order of Write.
	follow = family + `, l AS (
			SELECT m.id FROM (SELECT id FROM d ORDER BY id) d CROSS JOIN LATERAL (
				SELECT m.id FROM {workflow_runs} m WHERE m.id = d.id AND {runs} FOR NO KEY UPDATE
			) m
		), r AS (
			UPDATE {workflow_runs} m SET {cancel} WHERE m.id = ANY (ARRAY(SELECT id FROM l)) RETURNING m.id
		)
		SELECT id, {durable} FROM r`

	// left divides by zero if one of a family is running.
	left = family + `
		SELECT 1 / (count(*) = 0)::integer FROM d CROSS JOIN LATERAL (
			SELECT FROM {workflow_runs} m WHERE m.id = d.id AND {runs} OFFSET 0
		) m`

	// cancel ends a run.
	cancel = `status = 'cancelled', completed = clock_timestamp(), due = NULL, hold = '', owner = '',
				error = '', event = NULL, match = NULL, epoch = m.epoch + 1`

	// pairs are the workflows and versions of the runs that {which} selects. There are few, so it looks for each.
	pairs = `
		WITH RECURSIVE k (workflow, version) AS (
			(SELECT m.workflow, m.version FROM {workflow_runs} m WHERE {which} ORDER BY m.workflow, m.version LIMIT 1)
			UNION ALL
			SELECT n.* FROM k CROSS JOIN LATERAL (
				SELECT m.workflow, m.version FROM {workflow_runs} m
				WHERE {which} AND (m.workflow, m.version) > (k.workflow, k.version)
				ORDER BY m.workflow, m.version LIMIT 1
			) n
		)`
)

// queries holds the statements of one store, with its table names filled in. The statements of a claim have places
// left.
type queries struct {
	start, startNewest, child, childNewest, fork, forkNewest, known, judged, admitted string

	grouped, groupedNewest string // a start with a group

	// These are for a debounced start.
	pass, move, found, foundJudged string

	claim, again, from, lease, forget string

	// These are for workflows with a limit.
	look, limit, lock, admit string

	// These have places left for the outcomes.
	stay, park, end, stop, record string
	why                           string

	signal, cancel, cancelFamily, cancelLeft, pause, resume, notify, announce string

	lockRun, rewind, cancelForsaken, forsakenLeft string

	list, waiting, ofParent, keyed, one, steps, output, payload, input, counts, running string

	sweep, unknown, expire, raise string

	subscribe, unsubscribe, subscriptions string
}

var templates = queries{
	// {version} is the version that the caller gives. Without one, a run has the greatest of a living process, else the
	// greatest that is kept. That is another statement: if it were a condition in this one, PostgreSQL would plan it
	// anew in each execution.
	start: `
		INSERT INTO {workflow_runs} (id, workflow, version, input, key, retention, started, since, due, owner, epoch, nonce)
		SELECT $1::text, $2::text, {version},
			$4::jsonb, nullif($5::text, ''), $6::integer, c.now, c.now,
			CASE WHEN $8::text = '' THEN c.now + $7::bigint * interval '1 microsecond' END, $8::text, $9::bigint, $10::text
		FROM (SELECT clock_timestamp() AS now) c
		ON CONFLICT DO NOTHING
		RETURNING version, {durable}`,

	// A child locks its parent, so that the start does not pass beside a cancel of the parent.
	child: `
		WITH p AS (
			SELECT FROM {workflow_runs} m WHERE m.id = $11::text AND {runs} FOR SHARE
		)
		INSERT INTO {workflow_runs} (
			id, workflow, version, input, key, parent, retention, started, since, due, owner, epoch, nonce, place)
		SELECT $1::text, $2::text, {version},
			$4::jsonb, nullif($5::text, ''), $11::text, $6::integer, c.now, c.now,
			CASE WHEN $8::text = '' THEN c.now + $7::bigint * interval '1 microsecond' END, $8::text, $9::bigint, $10::text,
			'=' || nullif($12::text, '')
		FROM (SELECT clock_timestamp() AS now) c, p
		ON CONFLICT DO NOTHING
		RETURNING version, {durable}`,

	// A fork has an epoch, so that its first owner reads the journal. A wait of it was not ended by a signal to it.
	fork: `
		WITH f AS (
			SELECT s.* FROM {workflow_steps} s WHERE s.run = $11::text AND s.name = $12::text
				AND EXISTS (SELECT FROM {workflow_runs} m WHERE m.id = $11::text)
		), r AS (
			INSERT INTO {workflow_runs} (
				id, workflow, version, input, key, retention, started, since, due, owner, epoch, nonce, place)
			SELECT $1::text, $2::text, {version}, $4::jsonb, nullif($5::text, ''), $6::integer, c.now, c.now,
				c.now + $7::bigint * interval '1 microsecond', $8::text, 1 + 0 * $9::bigint, $10::text,
				'=' || nullif($13::text, '')
			FROM (SELECT clock_timestamp() AS now) c, f
			ON CONFLICT DO NOTHING
			RETURNING id, version
		), s AS (
			INSERT INTO {workflow_steps} (
				run, name, idx, kind, outcome, output, error, attempts, until, signal, started, completed)
			SELECT r.id, s.name, s.idx, s.kind, s.outcome, s.output, s.error, s.attempts, s.until, '', s.started, s.completed
			FROM r, f JOIN {workflow_steps} s ON s.run = $11::text AND s.outcome IN ('done', 'timeout', 'failed') AND {before}
		)
		SELECT version, {durable} FROM r`,

	// admitted fails unless the run was added, or is known: its parent is over, or is not there. Or it is the fork of a
	// step that is not there: then $4 is no run.
	admitted: `
		SELECT CASE
			WHEN n.known > 0 THEN 1 WHEN n.parents > 0 THEN ln(n.known::float8) ELSE sqrt(n.known - 1::float8) END
		FROM (SELECT
			(SELECT count(*) FROM {workflow_runs}
				WHERE id = $1::text OR workflow = $2::text AND key = nullif($3::text, '')) AS known,
			(SELECT count(*) FROM {workflow_runs} WHERE id = $4::text) AS parents
		) n`,

	known: `
		SELECT id, version, status, (workflow = $2::text AND input = $3::jsonb), {firm} FROM {workflow_runs}
		WHERE id = $1::text OR workflow = $2::text AND key = nullif($4::text, '')
		ORDER BY id <> $1::text LIMIT 1`,

	look: look, limit: limit, lock: lockLimit, admit: admit,

	// A debounced start is three statements: the key is taken from a run that has begun or is over, the run is added,
	// and if there is another with the key now, that one is moved. Each sees what others have done meanwhile. If the
	// third one finds that the run has begun since the first, all are sent again. If the id is known, they change
	// nothing.
	pass: `
		UPDATE {workflow_runs} SET key = NULL
		WHERE workflow = $2::text AND key = $3::text AND (status <> 'running' OR nonce <> '')
			AND NOT EXISTS (SELECT FROM {workflow_runs} WHERE id = $1::text)
		RETURNING {durable}`,
	move: `
		UPDATE {workflow_runs} SET input = $4::jsonb, due = CASE WHEN due = 'infinity' THEN due
			ELSE clock_timestamp() + $5::bigint * interval '1 microsecond' END
		WHERE workflow = $2::text AND key = $3::text AND status || '' = 'running' AND nonce = ''
			AND NOT EXISTS (SELECT FROM {workflow_runs} WHERE id = $1::text)
		RETURNING id, version, {durable}`,

	// A Lease counts as of the statement's begin: a condition with clock_timestamp() would be asked of every run.
	claim: ready, again: ready, from: lost, lease: lost,
	forget: `
		WITH u AS (
			UPDATE {workflow_definitions} SET at = clock_timestamp() - interval '5 minutes' WHERE process = $1::text
		)
		SELECT {lazy}`,

	stay: `
		WITH r AS (
			SELECT id, clock_timestamp() AS at FROM {workflow_runs} WHERE {owned} FOR NO KEY UPDATE
		){steps}
		SELECT {wrote}, {durable} FROM r`,
	park: strings.Replace(leave, "{next}", `since = c.now, event = nullif($7::text, ''), match = $8::jsonb,
				due = coalesce(least($5::timestamptz, c.now + $6::bigint * interval '1 microsecond'), 'infinity')`, 1),
	end: strings.Replace(leave, "{next}",
		`due = NULL, completed = c.now, status = $5::text, output = $6::jsonb, error = $7::text`, 1),
	stop: strings.Replace(leave, "{next}", `due = 'infinity', hold = $5::text, error = $6::text`, 1),

	// A late row needs no ownership. The lock only keeps Sweep away.
	record: `
		WITH r AS (
			SELECT id, clock_timestamp() AS at FROM {workflow_runs} WHERE id = $1::text FOR KEY SHARE
		){steps}
		SELECT {wrote}, {durable} FROM r`,
	why: `SELECT id, status, owner, epoch, nonce, mail, {firm} FROM {workflow_runs} WHERE id = ANY ($1::text[])`,

	// The run is locked first. Its row decides whether it takes the signal, and only the first signal of an id is
	// counted. If the statement waited for a run that another one has changed, its last part sees the run as it was
	// before: then it says again, unless what it says cannot change any more.
	signal: `
		WITH o AS (
			SELECT m.id, {hit} AS hit, {several} AS looks FROM {workflow_runs} m
			WHERE m.id = $1::text AND {runs}
				AND NOT EXISTS (SELECT FROM {workflow_signals} g WHERE g.run = $1::text AND g.id = $2::text)
			FOR NO KEY UPDATE
		), i AS (
			INSERT INTO {workflow_signals} (run, id, event, at, payload)
			SELECT o.id, $2::text, $3::text, clock_timestamp(), $4::jsonb FROM o WHERE o.hit OR NOT $5::boolean
			ON CONFLICT DO NOTHING
			RETURNING run
		), r AS (
			UPDATE {workflow_runs} m SET mail = m.mail + 1,
				due = CASE WHEN o.hit OR o.looks THEN least(m.due, clock_timestamp()) ELSE m.due END,
				event = CASE WHEN o.hit OR o.looks THEN NULL ELSE m.event END,
				match = CASE WHEN o.hit OR o.looks THEN NULL ELSE m.match END
			FROM o JOIN i ON i.run = o.id WHERE m.id = o.id
			RETURNING o.hit
		)
		SELECT CASE WHEN r.hit THEN 'consumed' ELSE 'kept' END, {durable} FROM r
		UNION ALL
		SELECT CASE
			WHEN m.status <> 'running' THEN 'over'
			WHEN EXISTS (SELECT FROM {workflow_signals} g WHERE g.run = $1::text AND g.id = $2::text) THEN 'kept'
			WHEN $5::boolean AND EXISTS (SELECT FROM o WHERE NOT o.hit) THEN 'unwanted'
			ELSE 'again' END, {firm}::text
		FROM {workflow_runs} m WHERE m.id = $1::text AND NOT EXISTS (SELECT FROM r)`,
	cancel: `
		WITH r AS (
			UPDATE {workflow_runs} m SET {cancel}
			WHERE m.id = $1::text AND {runs} RETURNING 1
		)
		SELECT 'applied', {durable} FROM r
		UNION ALL
		SELECT 'over', {firm}::text FROM {workflow_runs} WHERE id = $1::text AND NOT EXISTS (SELECT FROM r)`,

	// A child that was being started while cancel waited is not in its snapshot. So the descendants are found by
	// another statement of the same transaction: once the run is cancelled, it has no more children. A descendant may
	// have got one while cancelFamily waited. Then cancelLeft ends the transaction, and all comes again.
	cancelFamily: strings.Replace(follow, "{base}", cancelled, 1),
	cancelLeft:   strings.Replace(left, "{base}", cancelled, 1),

	// A rewind is four statements of one transaction. The first locks the run, so that the others see all rows that its
	// owner has written. $3 is a nonce that no other call has.
	lockRun: `SELECT 1 FROM {workflow_runs} WHERE id = $1::text FOR NO KEY UPDATE`,
	rewind: `
		WITH f AS (
			SELECT s.* FROM {workflow_steps} s WHERE s.run = $1::text AND s.name = $2::text
				AND EXISTS (SELECT FROM {workflow_runs} m WHERE m.id = $1::text AND m.status || '' IN ('running', 'failed'))
		), d AS (
			DELETE FROM {workflow_steps} s USING f WHERE s.run = $1::text AND NOT {before} RETURNING s.signal
		), g AS (
			UPDATE {workflow_signals} g SET taken = '' FROM d WHERE g.run = $1::text AND g.id = d.signal AND d.signal <> ''
		), r AS (
			UPDATE {workflow_runs} m SET status = 'running', hold = '', error = '', output = NULL, completed = NULL,
				due = clock_timestamp(), owner = '', event = NULL, match = NULL, epoch = m.epoch + 1, nonce = $3::text,
				crashes = 0, crashed = -1
			FROM f WHERE m.id = $1::text RETURNING 1
		)
		SELECT 'applied', {durable} FROM r
		UNION ALL
		SELECT CASE WHEN m.status || '' IN ('running', 'failed')
			OR NOT EXISTS (SELECT FROM {workflow_steps} s WHERE s.run = $1::text AND s.name = $2::text)
			THEN 'unknown' ELSE 'over' END, {firm}::text
		FROM {workflow_runs} m WHERE m.id = $1::text AND NOT EXISTS (SELECT FROM r)`,
	cancelForsaken: strings.Replace(follow, "{base}", forsaken, 1),
	forsakenLeft:   strings.Replace(left, "{base}", forsaken, 1),
	pause: `
		WITH r AS (
			UPDATE {workflow_runs} m SET hold = 'paused', due = 'infinity', owner = '', error = '', event = NULL,
				match = NULL, epoch = m.epoch + 1
			WHERE m.id = $1::text AND {runs} RETURNING 1
		)
		SELECT 'applied', {durable} FROM r
		UNION ALL
		SELECT 'over', {firm}::text FROM {workflow_runs} WHERE id = $1::text AND NOT EXISTS (SELECT FROM r)`,
	resume: `
		WITH r AS (
			UPDATE {workflow_runs} m SET hold = '', error = '', due = clock_timestamp(), crashes = 0
			WHERE m.id = $1::text AND {runs} AND m.hold <> '' RETURNING 1
		)
		SELECT 'applied', {durable} FROM r
		UNION ALL
		SELECT CASE WHEN status <> 'running' THEN 'over' WHEN hold = '' THEN 'applied' ELSE 'again' END, {firm}::text
		FROM {workflow_runs} WHERE id = $1::text AND NOT EXISTS (SELECT FROM r)`,

	// A NOTIFY writes, but nothing relies on it. announce is for a transaction of the caller, which is to be durable.
	notify:   `SELECT {lazy} FROM (SELECT pg_notify($1::text, n) FROM unnest($2::text[]) AS n) p`,
	announce: `SELECT pg_notify($1::text, n) FROM unnest($2::text[]) AS n`,

	// {selected} is the condition of a page. There are few pairs of a workflow and a status, and the first runs of each
	// are the first of an index. {of} says which pairs, and {next} which follow k. {status} is a condition on pairs: as
	// one on runs, it would make the planner take workflow_runs_due, and sort all runs that are running.
	list: `
		WITH RECURSIVE k (workflow, status) AS (
			(SELECT m.workflow, m.status FROM {workflow_runs} m WHERE {of} ORDER BY m.workflow, m.status LIMIT 1)
			UNION ALL
			SELECT n.* FROM k CROSS JOIN LATERAL (
				SELECT m.workflow, m.status FROM {workflow_runs} m
				WHERE {next} ORDER BY m.workflow, m.status LIMIT 1
			) n
		), p AS (
			SELECT l.id FROM k CROSS JOIN LATERAL (
				SELECT m.id, m.started FROM {workflow_runs} m
				WHERE m.workflow = k.workflow AND m.status = k.status AND {selected}
				ORDER BY m.started DESC, m.id DESC LIMIT {size}
			) l WHERE {status} ORDER BY l.started DESC, l.id DESC LIMIT {size}
		)
		SELECT {columns}, {documents}, {group} FROM p JOIN {workflow_runs} m ON m.id = p.id ORDER BY m.started DESC, m.id DESC`,
	// A run has an event only while it is parked. If the condition said more, the planner would take another index.
	waiting: `
		SELECT {columns}, {documents}, {group} FROM {workflow_runs} m
		WHERE m.hold = '' AND {selected}
		ORDER BY m.since, m.id LIMIT {size}`,
	// A run has few children. About the index of their order see workflow_runs_parent.
	ofParent: `
		SELECT {columns}, {documents}, {group} FROM {workflow_runs} m
		WHERE {selected}
		ORDER BY m.started DESC, m.id DESC LIMIT {size}`,

	// A status is a condition that takes no index: see runs.
	keyed: `
		SELECT {columns}, {documents}, {group} FROM {workflow_runs} m
		WHERE {selected}
		ORDER BY m.key DESC LIMIT {size}`,
	// The id comes first. Else the condition might read a document of another run, which may be damaged.
	one: `
		WITH m AS MATERIALIZED (
			SELECT * FROM {workflow_runs} WHERE id = $1::text
		)
		SELECT {columns}, {documents}, {group} FROM m WHERE {selected} LIMIT {size}`,
	steps: `
		SELECT * FROM (
			SELECT name, idx, kind, outcome, error, attempts, until, signal, started, completed, {output}
			FROM {workflow_steps} WHERE run = $1::text
			UNION ALL
			SELECT event, 0, 'signal', 'open', '', 0, NULL, id, at, at, {payload}
			FROM {workflow_signals} WHERE run = $1::text AND taken = ''
		) j ORDER BY kind = 'signal', started, idx, name`,
	output:  `SELECT output FROM {workflow_steps} WHERE run = $1::text AND name = $2::text`,
	payload: `SELECT payload FROM {workflow_signals} WHERE run = $1::text AND id = $2::text`,
	input:   `SELECT input FROM {workflow_runs} WHERE id = $1::text`,
	counts:  `SELECT workflow, status, count(*) FROM {workflow_runs} GROUP BY workflow, status`,
	running: `SELECT workflow, 'running', count(*) FROM {workflow_runs} WHERE status = 'running' GROUP BY workflow`,

	// A sweep need not be durable: if a crash undoes it, the next one repeats it.
	sweep: strings.ReplaceAll(pairs, "{which}", "m.status <> 'running'") + `, d AS (
			SELECT l.id FROM k CROSS JOIN LATERAL (
				SELECT m.id FROM {workflow_runs} m
				WHERE m.status <> 'running' AND m.workflow = k.workflow AND m.version = k.version
					AND {expires} < now() AT TIME ZONE 'UTC'
				ORDER BY {expires} LIMIT $1::bigint FOR UPDATE SKIP LOCKED
			) l LIMIT $1::bigint
		), s AS (
			DELETE FROM {workflow_steps} USING d WHERE run = d.id
		), g AS (
			DELETE FROM {workflow_signals} USING d WHERE run = d.id
		), r AS (
			DELETE FROM {workflow_runs} m USING d WHERE m.id = d.id RETURNING 1
		)
		SELECT count(*), {lazy} FROM r`,
	unknown: strings.ReplaceAll(pairs, "{which}", "m.status = 'running'") + `, d AS (
			SELECT l.id FROM (
				SELECT * FROM k WHERE NOT EXISTS (
					SELECT FROM {workflow_definitions} n
					WHERE n.workflow = k.workflow AND n.version = k.version AND n.at > now() - interval '1 day')
			) k CROSS JOIN LATERAL (
				SELECT m.id FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.workflow = k.workflow AND m.version = k.version
					AND m.due < now() - interval '1 day' AND m.hold = ''
				LIMIT $1::bigint FOR NO KEY UPDATE SKIP LOCKED
			) l LIMIT $1::bigint
		), u AS (
			UPDATE {workflow_runs} m SET error = {unknownError}, {unknown} FROM d WHERE m.id = d.id RETURNING 1
		)
		SELECT count(*), {lazy} FROM u`,
	expire: `
		WITH g AS (
			DELETE FROM {workflow_definitions} WHERE at < now() - interval '2 days'
		)
		SELECT {lazy}`,

	raise: `
		WITH u AS (
			UPDATE {workflow_runs} SET epoch = epoch + 1, owner = '', due = clock_timestamp()
			WHERE status = 'running' AND owner <> '' RETURNING 1
		)
		SELECT count(*), {durable} FROM u`,

	// Subscriptions are few, so counting them costs little.
	subscribe: `
		INSERT INTO {workflow_subscriptions} (id, pattern, workflow, url, session)
		SELECT $1::text, $2::text, $3::text, $4::text, $5::text
		WHERE (SELECT count(*) FROM {workflow_subscriptions}) < $6::bigint
		ON CONFLICT DO NOTHING
		RETURNING {durable}`,
	unsubscribe: `
		WITH d AS (
			DELETE FROM {workflow_subscriptions} WHERE id = $1::text
		)
		SELECT {durable}`,
	subscriptions: `SELECT id, pattern, workflow, url, session FROM {workflow_subscriptions} ORDER BY id`,
}

const (
	holdUnknown = `hold = 'unknown'`
	failUnknown = `status = 'failed', completed = clock_timestamp(), due = NULL, event = NULL, match = NULL, epoch = m.epoch + 1`
)

// These follow the prefix in the names.
var (
	tables = []string{
		"workflow_runs", "workflow_steps", "workflow_signals", "workflow_definitions", "workflow_limits",
		"workflow_subscriptions",
	}
	indexes = []string{
		"workflow_runs_due", "workflow_runs_key", "workflow_runs_list", "workflow_runs_event", "workflow_runs_over",
		"workflow_runs_parent", "workflow_runs_place",
	}
)

// The texts of errors, as expressions. Neither has a quote in it.
var (
	crashError   = "e.crashes || '" + strings.TrimPrefix(workflow.CrashError(0), "0") + "'"
	unknownError = "'" + strings.NewReplacer("W", "' || m.workflow || '", "0", "' || m.version || '").
			Replace(workflow.UnknownError("W", 0)) + "'"
)

// names replaces the placeholders, but for those of a page and of a claim.
func names(d *pgstate.DB) *strings.Replacer {
	pairs := d.Pairs()
	for _, t := range pgprocess.Tables {
		pairs = append(pairs, "{"+t+"}", d.Prefix.Table(t))
	}
	return strings.NewReplacer(append(pairs, "{expires}", expires, "{columns}", columns, "{owned}", owned)...)
}

func fillAll(d *pgstate.DB, fails bool) *queries {
	q := templates
	q.judged = strings.Replace(q.known, "(workflow = $2::text AND input = $3::jsonb)",
		"1 / (workflow = $2::text AND input = $3::jsonb)::integer = 1", 1)
	byID := strings.NewReplacer(
		"(workflow = $2::text AND input = $3::jsonb)", "(workflow = $2::text AND $3::jsonb IS NOT NULL)",
		"OR workflow = $2::text AND key = nullif($4::text, '')", "AND $4::text <> ''")
	q.found, q.foundJudged = byID.Replace(q.known), byID.Replace(q.judged)
	q.startNewest = strings.Replace(q.start, "{version}", newest, 1)
	q.start = strings.Replace(q.start, "{version}", "$3::integer", 1)
	q.childNewest = strings.Replace(q.child, "{version}", newest, 1)
	q.child = strings.Replace(q.child, "{version}", "$3::integer", 1)
	q.forkNewest = strings.Replace(q.fork, "{version}", newest, 1)
	q.fork = strings.Replace(q.fork, "{version}", "$3::integer", 1)
	withGroup := strings.NewReplacer("epoch, nonce)", "epoch, nonce, place)",
		"$10::text\n", "$10::text, '=' || $11::text\n")
	q.grouped, q.groupedNewest = withGroup.Replace(q.start), withGroup.Replace(q.startNewest)
	fillClaims(&q)
	how := holdUnknown
	if fails {
		how = failUnknown
	}
	of := strings.NewReplacer("{ofRun}", strings.Replace(children, "{of}", "r.id", 1),
		"{ofEach}", strings.Replace(children, "{of}", "d.id", 1), "{cancel}", cancel)
	pgstate.Fill(of, &q.cancel, &q.cancelFamily, &q.cancelLeft, &q.cancelForsaken, &q.forsakenLeft)
	first := strings.NewReplacer("{before}", before, "{hit}", hit, "{several}", several, "{runs}", runs,
		"{claimed}", claimed, "{group}", group, "{crashError}", crashError, "{unknownError}", unknownError,
		"{unknown}", how)
	all := []*string{
		&q.start, &q.startNewest, &q.child, &q.childNewest, &q.known, &q.judged, &q.admitted, &q.cancelFamily,
		&q.cancelLeft, &q.ofParent, &q.fork, &q.forkNewest, &q.lockRun, &q.rewind, &q.cancelForsaken, &q.forsakenLeft,
		&q.claim, &q.again, &q.from, &q.lease, &q.forget, &q.stay,
		&q.park, &q.end,
		&q.stop, &q.record, &q.why, &q.signal, &q.cancel, &q.pause,
		&q.resume, &q.notify, &q.list, &q.waiting, &q.keyed, &q.one, &q.steps, &q.output, &q.payload, &q.input,
		&q.counts,
		&q.running, &q.sweep, &q.unknown, &q.expire, &q.raise, &q.subscribe, &q.unsubscribe, &q.subscriptions,
		&q.grouped, &q.groupedNewest, &q.look, &q.limit, &q.lock, &q.admit, &q.pass, &q.move, &q.found, &q.foundJudged,
	}
	pgstate.Fill(first, all...)
	pgstate.Fill(names(d), all...)
	return &q
}

// following is in how many microseconds the next run is due.
const following = `(
			SELECT (extract(epoch FROM min(l.due) - clock_timestamp()) * 1e6)::bigint
			FROM {definitions} CROSS JOIN LATERAL (
				SELECT m.due FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.workflow = k.workflow AND m.version = k.version
					AND m.due > now() AND m.due < 'infinity'
				ORDER BY m.due LIMIT 1
			) l)`

// fillClaims says of each claim which runs it is for.
func fillClaims(q *queries) {
	q.claim = strings.NewReplacer("{ready}", "m.due <= now()", "{next}", following).Replace(q.claim)
	q.admit = strings.NewReplacer("{following}", following, "{places}", places).Replace(q.admit)
	q.again = strings.NewReplacer("{next}", "NULL::bigint", "{ready}",
		"m.due IS NULL AND m.owner = $2::text AND m.nonce = $4::text").Replace(q.again)
	q.from = strings.NewReplacer("{noted}", "", "{whose}", "m.owner = $5::text").Replace(q.from)
	q.lease = strings.NewReplacer("{noted}", `n AS (
			INSERT INTO {workflow_definitions} AS o (workflow, version, process, at)
			SELECT k.workflow, k.version, $2::text, clock_timestamp() FROM {definitions}
			ON CONFLICT (workflow, version, process) DO UPDATE SET at = excluded.at
			WHERE o.at < now() - interval '1 minute'
		),`, "{whose}", `m.since < now() - $5::bigint * interval '1 microsecond' AND NOT EXISTS (
						SELECT FROM {beats} b
						WHERE b.process = m.owner AND b.at >= now() - $5::bigint * interval '1 microsecond')`).Replace(q.lease)
}
