package pgsnapshot

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
)

const (
	// left is how long a run still waits, in microseconds. A hand may have written an infinite time. The server cannot
	// subtract from that, and the statement would fail for all its runs.
	left = `CASE WHEN isfinite(not_before)
		THEN (extract(epoch FROM not_before - clock_timestamp()) * 1e6)::bigint ELSE 0 END`

	// age is how long ago the run began, in microseconds.
	age = `CASE WHEN isfinite(started_at)
		THEN (extract(epoch FROM clock_timestamp() - started_at) * 1e6)::bigint ELSE 0 END`

	// columns are the columns that scan reads.
	columns = `orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, payload, error,
		not_before, started_at, saved_at, ` + left + `,
		deleted_at IS NULL, parts`

	// brief takes the place of columns if the documents are not read. brief leaves out the error too, which may be as
	// large as a document.
	brief = `orchestrator, session, id, '', turn, attempt, '', status, seq, epoch, nonce, NULL::jsonb, '',
		not_before, started_at, saved_at, ` + left + `,
		deleted_at IS NULL, parts`

	// bare takes the place of payload in a list of all sessions.
	bare = `CASE WHEN ` + unattended + ` THEN payload END`

	// unattended is the condition of the index runs_drain, word for word.
	unattended = `status NOT IN ('suspended', 'parked')`

	// parted is the version of the payload if the run has parts, or had some. Otherwise it is 0.
	parted = `CASE WHEN parts THEN payload_version ELSE 0 END`

	// later is when the pause $14, in microseconds, is over.
	later = `CASE WHEN $14::bigint > 0 THEN clock_timestamp() + $14::bigint * interval '1 microsecond' END`

	// counts says whether an adoption is an attempt. It is none if the caller owns the run already, or if the run will
	// not be run.
	counts = `($5::integer > 0 AND (r.epoch, r.nonce) <> ($3, $4) AND r.status NOT IN ('parked', 'ended', 'deleted'))`
)

// queries holds the statements of one store, with its table names filled in.
type queries struct {
	begin, beginParts, create, createParts, find, spent, save, saveParts, saveEffects, saved, adopt, parts, delete,
	joined, clean, peek, session, listed, runs, unattended, sweep, raise string

	// These are the statements of the same name for a brief Query. They leave out the fields that Query.Brief names.
	findBrief, adoptBrief, sessionBrief, runsBrief, unattendedBrief string
}

var templates = queries{
	// The UPDATE locks the session's row and judges its newest version. The UPDATE comes first because most sessions
	// have a row. An INSERT with ON CONFLICT DO UPDATE would lock the row, and log the lock, before it updates the row.
	begin: `
		UPDATE {runs} SET
			id = $3, request_id = $4, turn = $5, attempt = $6, base = $7, status = $8, seq = $9, epoch = $10, nonce = $11,
			payload = $12::jsonb, payload_version = payload_version + 1, parts = {parts}, error = $13, not_before = {later},
			started_at = clock_timestamp(), saved_at = clock_timestamp(), deleted_at = NULL
		WHERE orchestrator = $1 AND session = $2 AND deleted_at IS NOT NULL AND epoch < $10 AND found < $10`,

	// If neither statement writes, a third finds out why. A SELECT in the same statement would not see the row that the
	// INSERT waited for.
	create: `
		INSERT INTO {runs} (orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce,
			found, payload, payload_version, parts, error, not_before, started_at, saved_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
			0, $12::jsonb, {clock}, {parts}, $13, {later}, clock_timestamp(), clock_timestamp())
		ON CONFLICT (orchestrator, session) DO NOTHING`,

	// The run in flight belongs to another owner, which continues. But no run begins later under the fence of this
	// Begin.
	find: `
		UPDATE {runs} SET found = greatest(found, $3)
		WHERE orchestrator = $1 AND session = $2 AND deleted_at IS NULL
		RETURNING {columns}, {durable}`,

	// If a run is in flight, it may have begun since. So only sessions without a run count.
	spent: `
		SELECT EXISTS (
			SELECT FROM {runs}
			WHERE orchestrator = $1 AND session = $2 AND deleted_at IS NOT NULL AND (epoch >= $3 OR found >= $3)) AND {firm}`,

	// If no payload is given, the new version of the row shares the values that the old version has out of line. A part
	// belongs to one version of the payload. Parts of earlier versions are not read, and are removed later.
	save: `
		UPDATE {runs} SET
			request_id = $6, turn = $7, attempt = $8, base = $9, status = $10, seq = $11,
			payload = coalesce($12::jsonb, payload),
			payload_version = payload_version + CASE WHEN $12::jsonb IS NULL THEN 0 ELSE 1 END,
			parts = parts OR {parts}, error = $13, not_before = {later}, saved_at = clock_timestamp()
		WHERE orchestrator = $1 AND session = $2 AND id = $3 AND epoch = $4 AND nonce = $5 AND seq < $11
			AND status <> 'ended' AND deleted_at IS NULL`,

	// saveEffects is saveParts with a pgjoin.Cargo or two. If an effect or an entry changes after the condition was
	// judged, the whole statement fails with notPlain.
	saveEffects: `
		WITH ready AS (
			SELECT 1 WHERE {batch_ready}
		), r AS ({save} AND EXISTS (SELECT FROM ready) RETURNING parts, payload_version
		), p AS ({put_parts}
		), {batch_write}
		SELECT {parted}, {durable}, (CASE WHEN {batch_done} THEN '1' ELSE ` + "'" + notPlain + "'" + ` END)::integer FROM r`,

	// saved says whether the stored Seq is not below that of a Save. If so, the stored save is durable.
	saved: `
		SELECT EXISTS (
			SELECT FROM {runs}
			WHERE orchestrator = $1 AND session = $2 AND id = $3 AND epoch = $4 AND nonce = $5 AND seq >= $6
				AND deleted_at IS NULL) AND {firm}`,

	// A session without a run in flight keeps the fence too. So adopt inserts a row for a session that has none. If the
	// fence is too low, no row is returned.
	adopt: `
		INSERT INTO {runs} AS r (orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, found, error,
			parts, payload_version, started_at, saved_at, deleted_at)
		VALUES ($1, $2, '', '', 0, 0, '', 'deleted', 0, $3, $4, 0, '',
			false, {clock}, clock_timestamp(), clock_timestamp(), clock_timestamp())
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			attempt = r.attempt + CASE WHEN {counts} AND r.attempt < $5::integer THEN 1 ELSE 0 END,
			status = CASE WHEN {counts} AND r.attempt >= $5::integer THEN 'parked' ELSE r.status END,
			deleted_at = CASE WHEN r.deleted_at IS NOT NULL THEN clock_timestamp() END,
			epoch = excluded.epoch,
			nonce = excluded.nonce
		WHERE r.epoch < excluded.epoch OR r.epoch = excluded.epoch AND r.nonce = excluded.nonce
		RETURNING {columns}, {durable}`,

	// parts is a statement of its own, after the adoption and in its transaction. The adoption may have waited for
	// parts that its own snapshot does not show. Until the commit it holds the row that a Save of parts has to update.
	parts: `
		SELECT name, doc
		FROM {run_parts}
		WHERE orchestrator = $1 AND session = $2 AND payload_version = (
			SELECT payload_version FROM {runs} WHERE orchestrator = $1 AND session = $2 AND epoch = $3 AND nonce = $4)`,

	// The row stays, for its fence.
	delete: `
		UPDATE {runs} SET
			deleted_at = clock_timestamp(), status = 'deleted',
			request_id = '', base = '', error = '', payload = NULL, not_before = NULL
		WHERE orchestrator = $1 AND session = $2 AND (id = $3 OR id = '') AND epoch = $4 AND nonce = $5
			AND deleted_at IS NULL
		RETURNING {parted}, {lazy}`,

	// joined does the work of delete and clean as a pgjoin.Part. It has the parameters of the statement that it
	// joins.
	joined: `
		forgotten AS (
			UPDATE {runs} SET
				deleted_at = clock_timestamp(), status = 'deleted',
				request_id = '', base = '', error = '', payload = NULL, not_before = NULL
			WHERE EXISTS (SELECT FROM h) AND orchestrator = $1 AND session = $2 AND (id = $11 OR id = '')
				AND epoch = $3 AND nonce = $4 AND deleted_at IS NULL
			RETURNING {parted} AS parted
		), cleaned AS (
			DELETE FROM {run_parts}
			WHERE orchestrator = $1 AND session = $2 AND payload_version <= (SELECT parted FROM forgotten WHERE parted > 0)
		)`,

	// Versions grow over the whole life of a session, so a clean may arrive at any time.
	clean: `
		WITH d AS (DELETE FROM {run_parts} WHERE orchestrator = $1 AND session = $2 AND payload_version < $3)
		SELECT {lazy}`,

	peek: `SELECT id, epoch, nonce, deleted_at IS NULL FROM {runs} WHERE orchestrator = $1 AND session = $2`,

	session: `SELECT {columns}, {age} FROM {runs} WHERE orchestrator = $1 AND session = $2`,

	// listed reads one run as a list has it.
	listed: `SELECT {bare}, {age} FROM {runs} WHERE orchestrator = $1 AND session = $2`,

	runs: `
		SELECT {bare}, {age}
		FROM {runs}
		WHERE orchestrator = $1 AND session > $2 AND deleted_at IS NULL{only}
			AND ($3 = '' OR status = $3 OR status NOT IN ('running', 'waiting', 'suspended', 'parked', 'ended'))
		ORDER BY session
		LIMIT $4`,

	// If a row changed since the statement began, its newest version is judged. The same statement may remove the
	// parts: a Save of parts updates the row, and then the session is not over.
	sweep: `
		WITH slice AS MATERIALIZED (
			SELECT orchestrator, session, deleted_at
			FROM {runs}
			WHERE (orchestrator, session) > ($3, $4)
			ORDER BY orchestrator, session
			LIMIT $5
		), over AS (
			SELECT locked.*
			FROM slice, LATERAL (
				SELECT orchestrator, session
				FROM {runs} r
				WHERE r.orchestrator = slice.orchestrator AND r.session = slice.session
					AND r.deleted_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
				FOR UPDATE SKIP LOCKED
			) AS locked
			WHERE slice.deleted_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
			LIMIT $2
		), r AS (
			DELETE FROM {runs} r USING over
			WHERE r.orchestrator = over.orchestrator AND r.session = over.session
			RETURNING r.orchestrator, r.session
		), p AS (
			DELETE FROM {run_parts} p USING r
			WHERE p.orchestrator = r.orchestrator AND p.session = r.session
		)
		SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM slice), last.orchestrator, last.session
		FROM (VALUES (1)) AS one LEFT JOIN (
			SELECT orchestrator, session FROM slice ORDER BY orchestrator DESC, session DESC LIMIT 1
		) AS last ON true`,

	// No caller has this nonce, because nonces are random. So each fence up to now is refused, and the run stays whole:
	// without a nonce it would be damaged. The next claim of a session has a higher epoch.
	raise: `
		WITH known AS (
			SELECT orchestrator, session FROM {runs} WHERE nonce <> 'raised' ORDER BY 1, 2 FOR NO KEY UPDATE
		), raised AS (
			UPDATE {runs} r SET epoch = greatest(epoch, {clock}), nonce = 'raised'
			FROM known
			WHERE r.orchestrator = known.orchestrator AND r.session = known.session
			RETURNING 1
		)
		SELECT count(*) FROM raised HAVING {durable} <> ''`,
}

// notPlain is in the log of the server if an effect has changed while a run was saved with it.
const notPlain = "holdfast: an effect has changed, and the run is saved without it"

// putParts inserts the parts $15 and $16.
const putParts = `
			INSERT INTO {run_parts} (orchestrator, session, payload_version, name, doc)
			SELECT $1, $2, r.payload_version, n.name, n.doc::jsonb FROM r, unnest($15::text[], $16::text[]) AS n (name, doc)
			ON CONFLICT (orchestrator, session, payload_version, name) DO UPDATE SET doc = excluded.doc`

// andParts returns statement, which writes a run, with an INSERT of the parts $15 and $16.
func andParts(statement, columns string) string {
	return `
		WITH r AS (` + statement + ` RETURNING parts, payload_version), p AS (` + putParts + `
		)
		SELECT ` + columns + ` FROM r`
}

// These follow the prefix in the names.
var (
	tables  = []string{"runs", "run_parts", "runs_sweep"}
	indexes = []string{"runs_inflight", "runs_drain"}
)

func names(d *pgstate.DB) *strings.Replacer {
	return strings.NewReplacer(append(append(d.Pairs(), pgstate.Placeholders(d.Prefix, functions)...),
		pgsweep.Table, d.Prefix.Table("runs_sweep"), "{columns_of_run}", columnsOfRun,
		"{run_as_it_is}", runAsItIs, "{run_counts}", runCounts, "{unattended}", unattended,
		"{columns}", columns, "{brief}", brief, "{bare}", strings.Replace(columns, "payload", bare, 1),
		"{age}", age, "{later}", later, "{counts}", counts, "{parted}", parted,
	)...)
}

func fillAll(names *strings.Replacer) queries {
	q := templates
	q.saveEffects = strings.NewReplacer(
		`{save}`, strings.ReplaceAll(q.save, `{parts}`, `$15::text[] IS NOT NULL`), `{put_parts}`, putParts,
	).Replace(q.saveEffects)
	for _, w := range []struct {
		plain, parts *string
		columns      string
	}{
		{&q.begin, &q.beginParts, `{durable}`},
		{&q.create, &q.createParts, `{durable}`},
		{&q.save, &q.saveParts, `{parted}, {durable}`},
	} {
		statement := *w.plain
		*w.plain = strings.ReplaceAll(statement+` RETURNING `+w.columns, `{parts}`, `false`)
		*w.parts = strings.ReplaceAll(andParts(statement, w.columns), `{parts}`, `true`)
	}
	q.unattended = strings.ReplaceAll(q.runs, `{only}`, ` AND {unattended}`)
	q.runs = strings.ReplaceAll(q.runs, `{only}`, ``)
	toBrief := strings.NewReplacer(`{columns}`, `{brief}`, `{bare}`, `{brief}`)
	for full, short := range map[*string]*string{
		&q.find: &q.findBrief, &q.adopt: &q.adoptBrief, &q.session: &q.sessionBrief, &q.runs: &q.runsBrief,
		&q.unattended: &q.unattendedBrief,
	} {
		*short = toBrief.Replace(*full)
	}
	pgstate.Fill(names,
		&q.findBrief, &q.adoptBrief, &q.sessionBrief, &q.runsBrief, &q.unattendedBrief,
		&q.begin, &q.beginParts, &q.create, &q.createParts, &q.find, &q.spent, &q.save, &q.saveParts, &q.saveEffects,
		&q.saved, &q.adopt, &q.parts, &q.delete, &q.joined, &q.clean, &q.peek,
		&q.session, &q.listed, &q.runs, &q.unattended, &q.raise,
	)
	return q
}
