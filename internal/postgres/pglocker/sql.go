package pglocker

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// schemaSQL is idempotent. The table is UNLOGGED: a lock that is lost in a crash costs some waiting and nothing else.
const schemaSQL = `CREATE UNLOGGED TABLE IF NOT EXISTS {locks} (
    key     text COLLATE "C" PRIMARY KEY,
    token   text        NOT NULL,
    owner   text        NOT NULL,
    until   timestamptz NOT NULL,
    awaited boolean     NOT NULL DEFAULT false
) WITH (fillfactor = 70);
`

// queries holds the statements of one locker, with its table name filled in.
type queries struct {
	take, release, renew, ours string
}

var templates = queries{
	// now() is when the statement began. If the statement waited for the row, now() is in the past, and the owner only
	// looks alive for longer. $5 says that the caller listens: the release must notify it.
	take: `
		INSERT INTO {locks} AS l (key, token, owner, until)
		VALUES ($1, $2, $3, now() + $4::bigint * interval '1 microsecond')
		ON CONFLICT (key) DO UPDATE SET
			token = CASE WHEN l.until <= now() THEN excluded.token ELSE l.token END,
			owner = CASE WHEN l.until <= now() THEN excluded.owner ELSE l.owner END,
			until = CASE WHEN l.until <= now() THEN excluded.until ELSE l.until END,
			awaited = l.until > now()
		WHERE l.until <= now() OR $5::boolean
		RETURNING token = $2, (extract(epoch FROM until - now()) * 1e6)::bigint`,

	release: `
		WITH gone AS (DELETE FROM {locks} WHERE key = $1 AND token = $2 RETURNING awaited)
		SELECT pg_notify($3, $1) FROM gone WHERE awaited`,

	// renew skips a row that another transaction has locked: the other locks must not wait for it.
	renew: `
		WITH ours AS (
			SELECT l.key FROM {locks} l
			JOIN unnest($1::text[], $2::text[]) AS held (key, token) USING (key, token)
			FOR UPDATE OF l SKIP LOCKED
		)
		UPDATE {locks} l SET until = clock_timestamp() + $3::bigint * interval '1 microsecond'
		FROM ours
		WHERE l.key = ours.key
		RETURNING l.key, l.token`,

	ours: `
		SELECT l.key, l.token FROM {locks} l
		JOIN unnest($1::text[], $2::text[]) AS held (key, token) USING (key, token)`,
}

var tables = []string{"locks"}

func names(d *pgstate.DB) *strings.Replacer { return strings.NewReplacer(d.Pairs()...) }

func fillAll(d *pgstate.DB) queries {
	q := templates
	pgstate.Fill(names(d), &q.take, &q.release, &q.renew, &q.ours)
	return q
}
