package pgprocess

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// watchesSchema creates the table of the watchers. If no process has a definition any more, its row stays for a day or
// longer.
const watchesSchema = `
CREATE TABLE IF NOT EXISTS {watches} (
    orchestrator text COLLATE "C" NOT NULL,
    definition   text COLLATE "C" NOT NULL,
    process      text        NOT NULL,
    until        timestamptz NOT NULL,
    PRIMARY KEY (orchestrator, definition)
);
`

// A hand may have written an infinite time. Then no process is the watcher, and the next one that asks becomes it.
//
// A process that is not the watcher writes nothing. An INSERT with ON CONFLICT DO UPDATE would lock the row, and log
// the lock.
const watchSQL = `
	WITH u AS (
		UPDATE {watches} SET process = $3, until = clock_timestamp() + $4::bigint * interval '1 microsecond'
		WHERE orchestrator = $1 AND definition = $2 AND (process = $3 OR until <= clock_timestamp() OR until = 'infinity')
		RETURNING 1
	), i AS (
		INSERT INTO {watches} (orchestrator, definition, process, until)
		SELECT $1, $2, $3, clock_timestamp() + $4::bigint * interval '1 microsecond'
		WHERE NOT EXISTS (SELECT FROM {watches} WHERE orchestrator = $1 AND definition = $2)
		ON CONFLICT (orchestrator, definition) DO NOTHING
		RETURNING 1
	), d AS (
		DELETE FROM {watches} WHERE until < clock_timestamp() - interval '1 day' AND EXISTS (SELECT FROM i)
	)
	SELECT CASE WHEN NOT EXISTS (SELECT FROM u) AND NOT EXISTS (SELECT FROM i) THEN
			coalesce((
				SELECT CASE
					WHEN isfinite(until) THEN greatest(1, (extract(epoch FROM until - clock_timestamp()) * 1e6)::bigint)
				END
				FROM {watches}
				WHERE orchestrator = $1 AND definition = $2
			), 1) -- another was first to make the row, or to update it: who asks again is told for how long
			ELSE 0
		END, set_config('synchronous_commit', 'off', true)`

// Watch is one statement. It writes only if process becomes the watcher, or stays the watcher.
func (p *Processes) Watch(
	ctx context.Context, orchestrator, definition, process string, d time.Duration,
) (other time.Duration, err error) {
	if err := lock.ValidateWatch(orchestrator, definition, process, d); err != nil {
		return 0, err
	}
	left, err := pgstate.One(ctx, p.db, func(row pgx.CollectableRow) (left int64, err error) {
		err = row.Scan(&left, nil)
		return left, err
	}, p.watch, orchestrator, definition, process, d.Microseconds())
	return time.Duration(left) * time.Microsecond, p.db.Error(ctx, "watch", store.Key{}, err)
}
