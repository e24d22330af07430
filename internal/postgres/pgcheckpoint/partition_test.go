package pgcheckpoint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// partitionSQL is the SQL of docs/operations.md, with placeholders for the names.
const partitionSQL = `
	CREATE TABLE {turns}_parted (LIKE {turns} INCLUDING DEFAULTS) PARTITION BY HASH (orchestrator, session);
	DROP TABLE {turns};
	ALTER TABLE {turns}_parted RENAME TO {turns};
	ALTER TABLE {turns} ADD PRIMARY KEY (orchestrator, session, turn);`

const partition = `
	CREATE TABLE {turns}_%[1]d PARTITION OF {turns} FOR VALUES WITH (MODULUS %[2]d, REMAINDER %[1]d)
	WITH (toast_tuple_target = 4080);`

// parted returns a store whose turns are in partitions.
func parted(t *testing.T, p *pgxpool.Pool, prefix string, partitions int) *pgcheckpoint.Store {
	t.Helper()
	s := pgcheckpoint.New(p, &pgcheckpoint.Options{Prefix: prefix})
	create(t, p, s)
	sql := partitionSQL
	for i := range partitions {
		sql += fmt.Sprintf(partition, i, partitions)
	}
	pgtest.Exec(t, p, strings.ReplaceAll(sql, "{turns}", prefix+"turns")+s.Schema())
	return s
}

// Turns in hash partitions that were made by hand are as good as others.
func TestPartitions(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	n := 0
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		n++
		return parted(t, p, fmt.Sprintf("p%d_", n), 4)
	})
}
