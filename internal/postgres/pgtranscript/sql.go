package pgtranscript

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// within is the condition of the entries of {of} that have a number of {from} to {through}. Entries have no number in
// common. So the first of them is the last one that begins at {from} or before, if there is one.
const within = `m.orchestrator = {orchestrator} AND m.session = {session}
				AND m.first >= coalesce((
					SELECT b.first FROM {messages} b
					WHERE b.orchestrator = {orchestrator} AND b.session = {session} AND b.first <= {from}
					ORDER BY b.first DESC LIMIT 1
				), {from})
				AND m.first <= {through} AND m.last >= {from}`

func withins(orchestrator, session, from, through string) string {
	return strings.NewReplacer(
		"{orchestrator}", orchestrator, "{session}", session, "{from}", from, "{through}", through,
	).Replace(within)
}

// queries holds the statements of one store, with its table names filled in.
type queries struct {
	append, page, lock, copy, trim, trimAll, release, raise string

	// brief is page without the bodies. If the server cannot read a body, the rest is read so.
	brief string
}

var templates = queries{
	// Of two calls that append at once, the second one waits at the row of the session, and takes the next numbers. It
	// does not see an entry that the first one has added with the same id. Then the id is there twice, the statement
	// fails, and is sent again.
	//
	// The row of no session says behind which number all sessions go on.
	//
	// An entry that is known is told of after {firm}: the commit waits until what the statement sees is durable.
	append: `
		WITH head AS (
			INSERT INTO {transcripts} AS t (orchestrator, session, last)
			SELECT $1::text, $2::text, $4::bigint + coalesce((
				SELECT r.last FROM {transcripts} r WHERE r.orchestrator = '' AND r.session = ''
			), 0)
			WHERE NOT EXISTS (
				SELECT FROM {messages} WHERE orchestrator = $1::text AND session = $2::text AND id = $3::text
			)
			ON CONFLICT (orchestrator, session) DO UPDATE SET last = greatest(t.last + $4::bigint, excluded.last)
			RETURNING last
		), added AS (
			INSERT INTO {messages} (orchestrator, session, first, last, id, at, body)
			SELECT $1::text, $2::text, last - $4::bigint + 1, last, $3::text, clock_timestamp(), $5::text FROM head
			RETURNING first, last, {durable}
		)
		SELECT added.* FROM added
		UNION ALL
		SELECT first, last, '' FROM {messages}
		WHERE orchestrator = $1::text AND session = $2::text AND id = $3::text
			AND NOT EXISTS (SELECT FROM added) AND {firm}`,

	// A page has up to $5 entries. The last one is the first with which they have $6 bytes. Their length is known
	// without them.
	page: `
		SELECT m.first, m.last, {body} FROM (
			SELECT m.first, m.last, m.body, sum(m.size) OVER (ORDER BY m.first) - m.size AS before FROM (
				SELECT m.first, m.last, m.body, octet_length(m.body) AS size FROM {messages} m
				WHERE ` + withins("$1::text", "$2::text", "$3::bigint", "$4::bigint") + `
				ORDER BY m.first LIMIT $5::bigint
			) m
		) m WHERE m.before < $6::bigint ORDER BY m.first`,

	// lock makes the other writers of these sessions wait until the end of the transaction. The next statement sees
	// what they have written until now. The order keeps two calls from waiting for each other. release removes the row
	// of a session that has had no entry.
	lock: `
		INSERT INTO {transcripts} AS t (orchestrator, session, last)
		SELECT k.orchestrator, k.session, 0 FROM unnest($1::text[], $2::text[]) k (orchestrator, session)
		ORDER BY 1, 2
		ON CONFLICT (orchestrator, session) DO UPDATE SET last = t.last
		RETURNING {durable}`,
	release: `
		DELETE FROM {transcripts} t USING unnest($1::text[], $2::text[]) k (orchestrator, session)
		WHERE t.orchestrator = k.orchestrator AND t.session = k.session AND (t.last = 0 OR $3::boolean)`,

	// The spans are in order and have gaps between them. before ends the one before: an entry of both is copied once.
	// OFFSET 0 makes the planner look for the entries of each span. It would compare all entries with all spans.
	copy: `
		WITH picked AS (
			SELECT m.first, m.last, m.body
			FROM unnest($5::bigint[], $6::bigint[], $7::bigint[]) s ("from", through, before)
			CROSS JOIN LATERAL (
				SELECT m.first, m.last, m.body FROM {messages} m
				WHERE ` + withins("$1::text", "$2::text", `s."from"`, "s.through") + `
					AND m.first > s.before
				OFFSET 0
			) m
		), met AS (
			SELECT p.first, p.last, p.body, m.first IS NOT NULL AS there,
				CASE WHEN m.first = p.first AND m.last = p.last THEN m.body = p.body ELSE m.first IS NULL END AS fits
			FROM picked p LEFT JOIN LATERAL (
				SELECT m.first, m.last, m.body FROM {messages} m
				WHERE ` + withins("$3::text", "$4::text", "p.first", "p.last") + `
				OFFSET 0
			) m ON true
		), verdict AS (
			SELECT coalesce(bool_and(fits), true) AS fits FROM met
		), added AS (
			INSERT INTO {messages} (orchestrator, session, first, last, at, body)
			SELECT $3::text, $4::text, first, last, clock_timestamp(), body FROM met
			WHERE NOT there AND (SELECT fits FROM verdict)
			RETURNING last
		), moved AS (
			UPDATE {transcripts} t SET last = a.last FROM (SELECT max(last) AS last FROM added) a
			WHERE t.orchestrator = $3::text AND t.session = $4::text AND t.last < a.last
		)
		SELECT fits FROM verdict`,

	// width_bucket searches the ordered beginnings of the spans for the last one that is not behind the entry.
	trim: `
		WITH gone AS (
			DELETE FROM {messages}
			WHERE orchestrator = $1::text AND session = $2::text AND at < $5::timestamptz
				AND first < (
					SELECT max(first) FROM {messages} WHERE orchestrator = $1::text AND session = $2::text
				)
				AND coalesce(($4::bigint[])[width_bucket(last, $3::bigint[])] < first, true)
			RETURNING last - first + 1 AS messages
		)
		SELECT coalesce(sum(messages), 0)::bigint FROM gone`,
	trimAll: `
		WITH gone AS (
			DELETE FROM {messages} WHERE orchestrator = $1::text AND session = $2::text
			RETURNING last - first + 1 AS messages
		)
		SELECT coalesce(sum(messages), 0)::bigint FROM gone`,

	raise: `
		INSERT INTO {transcripts} AS t (orchestrator, session, last)
		SELECT '', '', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
		ON CONFLICT (orchestrator, session) DO UPDATE SET last = greatest(t.last, excluded.last)
		RETURNING {durable}`,
}

// These follow the prefix in the names.
var (
	tables  = []string{"transcripts", "messages"}
	indexes = []string{"transcripts_pkey", "messages_pkey", "messages_id"}
)

// names replaces the placeholders. body is what is read of a body.
func names(d *pgstate.DB, body string) *strings.Replacer {
	return strings.NewReplacer(append(d.Pairs(), "{body}", body)...)
}

func fillAll(d *pgstate.DB) queries {
	q := templates
	q.brief = names(d, "NULL::text").Replace(q.page)
	pgstate.Fill(names(d, "m.body"), &q.append, &q.page, &q.lock, &q.copy, &q.trim, &q.trimAll, &q.release,
		&q.raise)
	return q
}
