package snapshot_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A carrier opens stores that join, with tables of their own.
type carrier = func(t *testing.T) snapshottest.Joinable

// A Save carries effects and entries in each database in which all stores can be.
func TestJoinEffects(t *testing.T) {
	t.Parallel()
	carriers := map[string]func(*testing.T) carrier{
		"memory": func(*testing.T) carrier {
			return func(*testing.T) snapshottest.Joinable {
				return snapshottest.Joinable{
					Runs: new(snapshot.Memory), Effects: new(ledger.Memory), Log: new(turnlog.Memory),
				}
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
	return func(t *testing.T) snapshottest.Joinable {
		n++
		return snapshottest.Joinable{
			Runs:    pgOn(t, p, pgsnapshot.Options{Prefix: fmt.Sprintf("r%d_", n)}),
			Effects: pgtest.Create(t, p, pgledger.New(p, &pgledger.Options{Prefix: fmt.Sprintf("l%d_", n)})),
			Log:     pgtest.Create(t, p, pgturnlog.New(p, &pgturnlog.Options{Prefix: fmt.Sprintf("t%d_", n)})),
		}
	}
}

func carryLite(connections int) func(*testing.T) carrier {
	return func(*testing.T) carrier {
		return func(t *testing.T) snapshottest.Joinable {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(connections)
			effects, log := sqliteledger.New(db, nil), sqliteturnlog.New(db, nil)
			sqlitetest.Exec(t, db, effects.Schema())
			sqlitetest.Exec(t, db, log.Schema())
			return snapshottest.Joinable{Runs: liteOn(t, db, sqlitesnapshot.Options{}), Effects: effects, Log: log}
		}
	}
}

// The stores of one database value are joined, as its users have them.
func TestJoinEffectsOfDatabases(t *testing.T) {
	t.Parallel()
	pg, lite := postgres.New(pgtest.EmptyPool(t), nil), sqlite.New(sqlitetest.Open(t, testenv.SQLite(t)), nil)
	if pg.Snapshots().(snapshot.EffectJoiner).JoinEffects(pg.Ledger(), pg.TurnLog()) == nil {
		t.Error("PostgreSQL is not")
	}
	if lite.Snapshots().(snapshot.EffectJoiner).JoinEffects(lite.Ledger(), lite.TurnLog()) == nil {
		t.Error("SQLite is not")
	}
}

// What is not one database is not joined, nor what calls functions, nor what is wrapped.
func TestJoinEffectsElsewhere(t *testing.T) {
	t.Parallel()
	p, other := pgtest.EmptyPool(t), pgtest.EmptyPool(t)
	wrapped := struct{ ledger.Ledger }{new(ledger.Memory)}
	file, another := sqlitetest.Open(t, testenv.SQLite(t)), sqlitetest.Open(t, testenv.SQLite(t))
	onFile := sqlitesnapshot.New(file, nil)
	for name, c := range map[string]struct {
		runs    snapshot.EffectJoiner
		effects ledger.Ledger
		log     turnlog.Log
	}{
		"what is wrapped":   {new(snapshot.Memory), wrapped, nil},
		"a log in a file":   {new(snapshot.Memory), new(ledger.Memory), sqliteturnlog.New(file, nil)},
		"another pool":      {pgsnapshot.New(p, nil), pgledger.New(other, nil), nil},
		"a log elsewhere":   {pgsnapshot.New(p, nil), pgledger.New(p, nil), pgturnlog.New(other, nil)},
		"a log in memory":   {pgsnapshot.New(p, nil), pgledger.New(p, nil), new(turnlog.Memory)},
		"functions":         {pgsnapshot.New(p, &pgsnapshot.Options{Functions: true}), pgledger.New(p, nil), nil},
		"memory":            {pgsnapshot.New(p, nil), new(ledger.Memory), nil},
		"another file":      {onFile, sqliteledger.New(another, nil), nil},
		"a log of another":  {onFile, sqliteledger.New(file, nil), sqliteturnlog.New(another, nil)},
		"a log and a file":  {onFile, sqliteledger.New(file, nil), new(turnlog.Memory)},
		"memory for a file": {onFile, new(ledger.Memory), nil},
	} {
		if c.runs.JoinEffects(c.effects, c.log) != nil {
			t.Errorf("%s is joined", name)
		}
	}
}
