package pgprocess

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// beatsSchema creates the table of the beats. The server neither logs what is written there nor waits for a disk. After
// a crash of the server the table is empty, and no process looks as if it had stopped.
const beatsSchema = `
CREATE UNLOGGED TABLE IF NOT EXISTS {beats} (
    process text COLLATE "C" PRIMARY KEY,
    beats   bigint      NOT NULL,
    at      timestamptz NOT NULL
) WITH (fillfactor = 50);
`

const (
	// beatSQL writes one row. A process that beats again after a rest begins with another number than before. When a
	// process beats for the first time, rows of dead processes are removed.
	beatSQL = `
	WITH u AS (
		UPDATE {beats} SET beats = beats + 1, at = clock_timestamp() WHERE process = $1 RETURNING process, beats
	), i AS (
		INSERT INTO {beats} (process, beats, at)
		SELECT $1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, clock_timestamp()
		WHERE NOT EXISTS (SELECT FROM {beats} WHERE process = $1)
		ON CONFLICT (process) DO NOTHING
		RETURNING process, beats
	), d AS (
		DELETE FROM {beats} WHERE at < clock_timestamp() - interval '1 hour' AND process <> $1 AND EXISTS (SELECT FROM i)
	)
	SELECT process, beats FROM u
	UNION ALL SELECT process, beats FROM i
	UNION ALL SELECT process, beats FROM {beats} WHERE process <> $1`

	lookSQL = `SELECT process, beats FROM {beats}`

	restSQL = `DELETE FROM {beats} WHERE process = $1`
)

// Beat is one statement.
func (p *Processes) Beat(ctx context.Context, process string) (beats map[string]int64, err error) {
	if err := lock.ValidateBeat(process); err != nil {
		return nil, err
	}
	query, args := p.beat, []any{process}
	if process == "" {
		query, args = p.look, nil
	}
	err = p.db.Again(ctx, func() error {
		rows, err := p.db.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		beats = make(map[string]int64)
		var name string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
			beats[name] = n
			return nil
		})
		return err
	})
	if err != nil {
		return nil, p.db.Error(ctx, "beat", store.Key{}, err)
	}
	return beats, nil
}

// Rest is one statement.
func (p *Processes) Rest(ctx context.Context, process string) error {
	if err := lock.ValidateRest(process); err != nil {
		return err
	}
	_, err := p.db.Touch(ctx, p.rest, process)
	return p.db.Error(ctx, "rest", store.Key{}, err)
}
