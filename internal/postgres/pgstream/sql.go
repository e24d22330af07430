package pgstream

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
)

// queries holds the statements of one store, with its table names filled in.
type queries struct{ append, trim, head, page, starts, ask, lock, forget, slice, remove string }

var templates = queries{
	// The row of the session is locked and its epoch compared in the same step. Two appends at once wait for each other
	// here. If the session has a higher epoch, or is too old, no row is written, and the answer is NULL.
	//
	// first is the number of the oldest chunk that is kept. If it changes, trim removes what is before it.
	append: `
		WITH head AS (
			INSERT INTO {streams} AS s (orchestrator, session, epoch, status, run, start, first, last, at, life)
			VALUES ($1::text, $2::text, $3::bigint, $4::text, $5::text, 1,
				CASE WHEN $6::bigint >= 2 * $7::bigint THEN $6::bigint - $7::bigint + 1 ELSE 1 END, $6::bigint,
				statement_timestamp(), gen_random_uuid())
			ON CONFLICT (orchestrator, session) DO UPDATE SET
				epoch = excluded.epoch, status = excluded.status, run = excluded.run,
				start = CASE WHEN s.run = excluded.run THEN s.start ELSE s.last + 1 END,
				first = CASE WHEN s.last + $6::bigint - s.first + 1 >= 2 * $7::bigint
					THEN s.last + $6::bigint - $7::bigint + 1 ELSE s.first END,
				last = s.last + $6::bigint, at = greatest(s.at, excluded.at)
			WHERE s.epoch <= excluded.epoch AND s.at > {since}
			RETURNING first, last
		), added AS (
			INSERT INTO {chunks} (orchestrator, session, first, last, run, size, data)
			SELECT $1::text, $2::text, last - $6::bigint + 1, last, $5::text, octet_length($8::text), $8::text::json
			FROM head WHERE $6::bigint > 0
		)
		SELECT h.last, h.first, c.lazy, (SELECT pg_notify($9::text, $10::text || ' ' || h.last) WHERE h.last IS NOT NULL)
		FROM (SELECT {lazy} AS lazy) c LEFT JOIN head h ON true`,

	// Both bounds keep the walk off the entries of rows that are removed already. The rows have no gaps. So if there is
	// a row before $3, there is one within $5 numbers before, and all the older ones are removed too: an earlier trim
	// has failed, or Keep was larger.
	trim: `
		WITH gone AS (
			DELETE FROM {chunks} WHERE orchestrator = $1 AND session = $2 AND last < $4::bigint
				AND last >= (SELECT CASE WHEN EXISTS (
					SELECT FROM {chunks} c WHERE c.orchestrator = $1 AND c.session = $2
						AND c.last >= $3::bigint - $5::bigint AND c.last < $3::bigint
				) THEN 0 ELSE $3::bigint END)
		)
		SELECT {lazy}`,

	head: `
		SELECT s.last, s.run, s.status, s.epoch FROM {streams} s
		WHERE s.orchestrator = $1 AND s.session = $2 AND s.at > {since}`,

	// A page shows one moment: the row of the session, and the next rows of its chunks, up to $4 rows. The last
	// one is the first with which they have $5 bytes.
	page: `
		SELECT s.first, s.last, s.start, s.status, s.life::text, c.first, c.last, c.run, c.data
		FROM {streams} s LEFT JOIN LATERAL (
			SELECT c.first, c.last, c.run, c.data FROM (
				SELECT c.first, c.last, c.run, c.data, sum(c.size) OVER (ORDER BY c.last) - c.size AS before FROM (
					SELECT c.first, c.last, c.run, c.data, c.size FROM {chunks} c
					WHERE c.orchestrator = $1 AND c.session = $2
						AND c.last > CASE WHEN $3::bigint < 0 THEN greatest(s.start, s.first) - 1 ELSE $3::bigint END
					ORDER BY c.last LIMIT $4
				) c
			) c WHERE c.before < $5
		) c ON true
		WHERE s.orchestrator = $1 AND s.session = $2 AND s.at > {since}
		ORDER BY c.last`,

	// A row of chunks may have some that are kept, and some before that are not.
	starts: `
		SELECT c.run, greatest(min(c.first), min(s.first))
		FROM {streams} s JOIN {chunks} c ON c.orchestrator = $1 AND c.session = $2 AND c.last >= s.first
		WHERE s.orchestrator = $1 AND s.session = $2 AND s.at > {since}
		GROUP BY c.run`,

	ask: `
		SELECT k.orchestrator, k.session, k.seq
		FROM unnest($1::text[], $2::text[], $3::bigint[]) k (orchestrator, session, seq)
		WHERE NOT EXISTS (
			SELECT FROM {streams} s
			WHERE s.orchestrator = k.orchestrator AND s.session = k.session AND s.last = k.seq AND s.status = 'active'
				AND s.at > {since}
		)`,

	// lock waits for an Append. forget is a statement of its own, in the same transaction. At READ COMMITTED it sees
	// the chunks of this Append, and removes them too. With $3 only a session that is too old is forgotten.
	//
	// If lock has found no session, forget removes none that has begun since. It would not see the chunks of an Append
	// that it has to wait for, and would remove the session without them.
	lock: `
		WITH head AS (
			SELECT FROM {streams} s
			WHERE s.orchestrator = $1 AND s.session = $2 AND (NOT $3::boolean OR s.at <= {since}) FOR UPDATE
		)
		SELECT set_config('holdfast.locked', count(*)::text, true) FROM head`,
	forget: `
		WITH head AS (
			DELETE FROM {streams} s
			WHERE s.orchestrator = $1 AND s.session = $2 AND (NOT $3::boolean OR s.at <= {since})
				AND current_setting('holdfast.locked') = '1'
			RETURNING 1
		), gone AS (
			DELETE FROM {chunks} WHERE orchestrator = $1 AND session = $2 AND EXISTS (SELECT FROM head)
		)
		SELECT {lazy}, (SELECT pg_notify($4::text, $5::text || ' -') WHERE EXISTS (SELECT FROM head))`,

	slice: `
		SELECT s.orchestrator, s.session, s.at <= statement_timestamp() - $1::bigint * interval '1 microsecond'
		FROM {streams} s WHERE (s.orchestrator, s.session) > ($2, $3)
		ORDER BY s.orchestrator, s.session LIMIT $4`,

	// An Append for a session that is too old forgets it first, so that it adds nothing that remove would not see.
	remove: `
		WITH head AS (
			DELETE FROM {streams} s
			WHERE s.orchestrator = $1 AND s.session = $2
				AND s.at <= statement_timestamp() - $3::bigint * interval '1 microsecond'
			RETURNING 1
		), gone AS (
			DELETE FROM {chunks} WHERE orchestrator = $1 AND session = $2 AND EXISTS (SELECT FROM head)
		)
		SELECT {lazy} <> '' AND EXISTS (SELECT FROM head)`,
}

// These follow the prefix in the names.
var (
	tables  = []string{"streams", "chunks", "streams_sweep"}
	indexes = []string{"streams_pkey", "chunks_pkey", "streams_sweep_pkey"}
)

// names replaces the placeholders.
func names(d *pgstate.DB, ttl time.Duration) *strings.Replacer {
	return strings.NewReplacer(append(d.Pairs(),
		pgsweep.Table, d.Prefix.Table("streams_sweep"),
		"{since}", fmt.Sprintf("statement_timestamp() - %d * interval '1 microsecond'", ttl.Microseconds()),
	)...)
}

func fillAll(names *strings.Replacer) queries {
	q := templates
	pgstate.Fill(names, &q.append, &q.trim, &q.head, &q.page, &q.starts, &q.ask, &q.lock, &q.forget, &q.slice,
		&q.remove)
	return q
}
