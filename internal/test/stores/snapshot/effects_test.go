package snapshot_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
	"github.com/holdfast-go/holdfast/sqlite"
)

// A carrier opens two stores that join, with tables of their own.
type carrier = func(t *testing.T) (snapshottest.CarryingStore, snapshottest.RaisingLedger)

// A Save carries effects in each database in which both stores can be.
func TestJoinEffects(t *testing.T) {
	t.Parallel()
	carriers := map[string]func(*testing.T) carrier{
		"memory": func(*testing.T) carrier {
			return func(*testing.T) (snapshottest.CarryingStore, snapshottest.RaisingLedger) {
				return new(snapshot.Memory), new(ledger.Memory)
			}
		},
		"sqlite pool": carryLite(0), "sqlite one connection": carryLite(1),
	}
	configure := maps.Clone(pgtest.BehindSerializable)
	configure["pool"] = func(*pgxpool.Config) {}
	for name, c := range configure {
		carriers["postgres "+name] = func(t *testing.T) carrier { return carryPG(pgtest.EmptyPool(t, c)) }
	}
	for name, open := range carriers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshottest.RunEffectJoiner(t, open(t))
		})
	}
}

func carryPG(p *pgxpool.Pool) carrier {
	n := 0
	return func(t *testing.T) (snapshottest.CarryingStore, snapshottest.RaisingLedger) {
		n++
		effects := pgledger.New(p, &pgledger.Options{Prefix: fmt.Sprintf("l%d_", n)})
		return pgOn(t, p, pgsnapshot.Options{Prefix: fmt.Sprintf("r%d_", n)}), pgtest.Create(t, p, effects)
	}
}

func carryLite(connections int) func(*testing.T) carrier {
	return func(*testing.T) carrier {
		return func(t *testing.T) (snapshottest.CarryingStore, snapshottest.RaisingLedger) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(connections)
			effects := sqliteledger.New(db, nil)
			sqlitetest.Exec(t, db, effects.Schema())
			return liteOn(t, db, sqlitesnapshot.Options{}), effects
		}
	}
}

// The stores of one database value are joined, as its users have them.
func TestJoinEffectsOfDatabases(t *testing.T) {
	t.Parallel()
	pg, lite := postgres.New(pgtest.EmptyPool(t), nil), sqlite.New(sqlitetest.Open(t, testenv.SQLite(t)), nil)
	if pg.Snapshots().(snapshot.EffectJoiner).JoinEffects(pg.Ledger()) == nil {
		t.Error("PostgreSQL is not")
	}
	if lite.Snapshots().(snapshot.EffectJoiner).JoinEffects(lite.Ledger()) == nil {
		t.Error("SQLite is not")
	}
}

// What is not one database is not joined, nor what calls functions, nor what is wrapped.
func TestJoinEffectsElsewhere(t *testing.T) {
	t.Parallel()
	p, other := pgtest.EmptyPool(t), pgtest.EmptyPool(t)
	wrapped := struct{ ledger.Ledger }{new(ledger.Memory)}
	lite := newLite(t, sqlitesnapshot.Options{})
	for name, c := range map[string]struct {
		runs    snapshot.EffectJoiner
		effects ledger.Ledger
	}{
		"what is wrapped":  {new(snapshot.Memory), wrapped},
		"another pool":     {pgsnapshot.New(p, nil), pgledger.New(other, nil)},
		"functions":        {pgsnapshot.New(p, &pgsnapshot.Options{Functions: true}), pgledger.New(p, nil)},
		"memory":           {pgsnapshot.New(p, nil), new(ledger.Memory)},
		"another file":     {lite, sqliteledger.New(sqlitetest.Open(t, testenv.SQLite(t)), nil)},
		"memory for files": {lite, new(ledger.Memory)},
	} {
		if c.runs.JoinEffects(c.effects) != nil {
			t.Errorf("%s is joined", name)
		}
	}
}
