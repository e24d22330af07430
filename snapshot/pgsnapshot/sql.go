package pgsnapshot

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/sqlname"
)

// schemaSQL is idempotent. A run is rewritten at each iteration: its payload stays in the row, and the row shares its
// page with nothing but its next version, so that a save touches one page and no index. CHECKs would cost more than it, as
// they do in package pgcheckpoint.
const schemaSQL = `CREATE TABLE IF NOT EXISTS {runs} (
    id           text COLLATE "C" PRIMARY KEY,
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    request_id   text        NOT NULL,
    turn         integer     NOT NULL,
    attempt      integer     NOT NULL,
    base         text        NOT NULL,
    status       text        NOT NULL,
    seq          bigint      NOT NULL,
    epoch        bigint      NOT NULL,
    nonce        text        NOT NULL,
    payload      jsonb,
    error        text        NOT NULL,
    not_before   timestamptz,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    saved_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    met          boolean     NOT NULL DEFAULT false,
    CONSTRAINT {runs_session} UNIQUE (orchestrator, session)
) WITH (toast_tuple_target = 4080, fillfactor = 50);

DO $$ BEGIN
    EXECUTE 'ALTER TABLE {runs} ALTER COLUMN payload SET COMPRESSION lz4';
EXCEPTION WHEN OTHERS THEN
    NULL; -- the server is older than 14 or was built without lz4: the default compression serves
END $$;
`

const (
	columns = `orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, payload, error, not_before, started_at, saved_at`

	durable = `set_config('synchronous_commit', 'on', true)`
)

// queries holds the statements of one store, with its table name filled in.
type queries struct {
	begin, adopt, save, delete, inFlight, runs, session string
}

var templates = queries{
	// The conflict locks the run in flight and returns it as it is now. An INSERT that does nothing, with a SELECT beside
	// it, would see neither the row that it waited for nor its own.
	begin: `
		INSERT INTO {runs} (orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, payload, error, not_before)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::jsonb, $13, $14)
		ON CONFLICT (orchestrator, session) DO UPDATE SET met = true
		RETURNING {columns}, met, {durable}`,

	adopt: `
		UPDATE {runs} SET
			attempt = attempt + CASE WHEN {counts} AND attempt < $5::integer THEN 1 ELSE 0 END,
			status = CASE WHEN {counts} AND attempt >= $5::integer THEN 'parked' ELSE status END,
			epoch = $3,
			nonce = $4
		WHERE orchestrator = $1 AND session = $2 AND (epoch < $3 OR epoch = $3 AND nonce = $4)
		RETURNING {columns}, met, {durable}`,

	save: `
		UPDATE {runs} SET
			request_id = $6, turn = $7, attempt = $8, base = $9, status = $10, seq = $11,
			payload = $12::jsonb, error = $13, not_before = $14, saved_at = clock_timestamp()
		WHERE orchestrator = $1 AND session = $2 AND id = $3 AND epoch = $4 AND nonce = $5 AND seq < $11 AND status <> 'ended'
		RETURNING {durable}`,

	delete: `
		DELETE FROM {runs}
		WHERE orchestrator = $1 AND session = $2 AND id = $3 AND epoch = $4 AND nonce = $5
		RETURNING set_config('synchronous_commit', 'off', true)`,

	inFlight: `SELECT id, epoch, nonce, seq FROM {runs} WHERE orchestrator = $1 AND session = $2`,

	runs: `
		SELECT {columns}, met, ''
		FROM {runs}
		WHERE orchestrator = $1 AND session > $2 AND ($3 = '' OR status = $3)
		ORDER BY session
		LIMIT $4`,

	session: `
		SELECT {columns}, met, ''
		FROM {runs}
		WHERE orchestrator = $1 AND session = $5 AND session > $2 AND ($3 = '' OR status = $3)
		LIMIT $4`,
}

// counts says whether an adoption is an attempt: not for who owns the run already, nor for one that will not be run.
const counts = `($5::integer > 0 AND (epoch, nonce) <> ($3, $4) AND status NOT IN ('parked', 'ended'))`

// suffixes of everything that is named after the prefix.
var suffixes = []string{"runs", "runs_session"}

func fill(p sqlname.Prefix, template string) string {
	return strings.NewReplacer(
		"{runs}", p.Table("runs"), "{runs_session}", p.Index("runs_session"),
		"{columns}", columns, "{durable}", durable, "{counts}", counts,
	).Replace(template)
}

func fillAll(p sqlname.Prefix) queries {
	q := templates
	for _, s := range []*string{&q.begin, &q.adopt, &q.save, &q.delete, &q.inFlight, &q.runs, &q.session} {
		*s = fill(p, *s)
	}
	return q
}
