package testenv

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// LoseChunk deletes a block of the value that the table stored out of line last, as a broken disk does. From then on
// the server cannot read that value. The server must be the test's own: a transaction elsewhere would keep the block.
func LoseChunk(ctx context.Context, p *pgxpool.Pool, table string) error {
	err := pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
		var oid uint32
		var chunks string
		const find = "SELECT oid, oid::regclass::text FROM pg_class" +
			" WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE oid = $1::regclass)"
		if err := tx.QueryRow(ctx, find, table).Scan(&oid, &chunks); err != nil {
			return err
		}
		for _, step := range []struct {
			sql  string
			args []any
		}{
			{"SET LOCAL allow_system_table_mods = on", nil},
			{"UPDATE pg_class SET relkind = 'r' WHERE oid = $1", []any{oid}}, // PostgreSQL changes only tables
			{
				"DELETE FROM " + chunks + " WHERE chunk_seq = 0" +
					" AND chunk_id = (SELECT max(chunk_id) FROM " + chunks + ")",
				nil,
			},
			{"UPDATE pg_class SET relkind = 't' WHERE oid = $1", []any{oid}},
		} {
			if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// A deleted block is read until it is gone. A vacuum leaves it while a transaction is open that may see it, such as
	// the server's own ANALYZE; and, unless it freezes, on a page that the server just now writes to disk.
	const open = `SELECT count(*) FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)`
	err = await(time.Minute, ctx.Done(), func(ctx context.Context) error { return none(ctx, p, open) })
	if err != nil {
		return err
	}
	_, err = p.Exec(ctx, "VACUUM (FREEZE) "+table)
	return err
}
