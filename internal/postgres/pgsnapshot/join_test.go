package pgsnapshot_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*pgxpool.Config){
		"pool":            func(*pgxpool.Config) {},
		"one connection":  func(c *pgxpool.Config) { c.MaxConns = 1 },
		"simple protocol": pgtest.Behind["simple protocol"],
		"serializable":    pgtest.Isolation("serializable"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, n := pgtest.EmptyPool(t, configure), 0
			snapshottest.RunJoiner(t, func(t *testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
				n++
				runs := create(t, p, &pgsnapshot.Options{Prefix: fmt.Sprintf("r%d_", n)})
				return runs, turnsOn(t, p, fmt.Sprintf("t%d_", n))
			})
		})
	}
}

func turnsOn(t *testing.T, p *pgxpool.Pool, prefix string) *pgcheckpoint.Store {
	t.Helper()
	return pgtest.Create(t, p, pgcheckpoint.New(p, &pgcheckpoint.Options{Prefix: prefix}))
}

// A store on another pool may be in another database.
func TestJoinElsewhere(t *testing.T) {
	t.Parallel()
	runs, other := open(t, nil, nil), pgtest.EmptyPool(t)
	for name, turns := range map[string]checkpoint.Store{
		"another pool":    turnsOn(t, other, "t_"),
		"memory":          new(checkpoint.Memory),
		"what is wrapped": struct{ checkpoint.Store }{turnsOn(t, other, "t_")},
	} {
		if runs.Join(turns) != nil {
			t.Errorf("%s is joined", name)
		}
	}
}
