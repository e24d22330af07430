package testenv

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// LoseChunk takes a block away from the value that a table stored out of line last, as a broken disk does. From then
// on the server cannot read that value. The server has to be the test's own, because other transactions keep the
// block.
func LoseChunk(ctx context.Context, p *pgxpool.Pool, table string) error {
	err := pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
		var oid uint32
		var chunks string
		const find = "SELECT oid, oid::regclass::text FROM pg_class WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE oid = $1::regclass)"
		if err := tx.QueryRow(ctx, find, table).Scan(&oid, &chunks); err != nil {
			return err
		}
		for _, step := range []struct {
			sql  string
			args []any
		}{
			{"SET LOCAL allow_system_table_mods = on", nil},
			{"UPDATE pg_class SET relkind = 'r' WHERE oid = $1", []any{oid}}, // PostgreSQL changes no other
			{"DELETE FROM " + chunks + " WHERE chunk_seq = 0 AND chunk_id = (SELECT max(chunk_id) FROM " + chunks + ")", nil},
			{"UPDATE pg_class SET relkind = 't' WHERE oid = $1", []any{oid}},
		} {
			if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		_, err = p.Exec(ctx, "VACUUM "+table) // a deleted block is read until it is gone
	}
	return err
}
