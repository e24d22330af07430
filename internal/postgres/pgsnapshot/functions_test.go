package pgsnapshot_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

var withFunctions = pgsnapshot.Options{Functions: true}

// byEither holds the options of stores that send statements, and of stores that call functions.
var byEither = map[string]pgsnapshot.Options{"statements": {}, "functions": withFunctions}

// A store that calls functions keeps every promise of a store that sends statements. TestCitus runs the suites with the
// defaults.
func TestFunctions(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "f"
			p := pgtest.EmptyPool(t, func(c *pgxpool.Config) {
				configure(c)
				// The functions name the schema if the prefix does.
				if params := c.ConnConfig.RuntimeParams; c.MaxConns == 1 {
					prefix, params["search_path"] = params["search_path"]+".My_", "pg_catalog"
				}
			})
			snapshottest.Run(t, numberedWith(p, prefix, withFunctions))
		})
	}
}

func TestFunctionsUnderFaults(t *testing.T) {
	newStore := func(t *testing.T) snapshot.Store { return open(t, nil, &withFunctions) }
	faulttest.SnapshotModel(t, newStore)
	faulttest.RacingBegins(t, newStore, 1000)
}

// The two stores may have different prefixes, and then both have to be qualified if one is.
func TestFunctionsJoin(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, n := pgtest.EmptyPool(t, configure), 0
			var schema string
			if err := p.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
				t.Fatal(err)
			}
			snapshottest.RunJoiner(t, func(t *testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
				n++
				runs := create(t, p, &pgsnapshot.Options{Prefix: fmt.Sprintf("%s.r%d_", schema, n), Functions: true})
				return runs, callingTurns(t, p, fmt.Sprintf("t%d_", n))
			})
		})
	}
}

func callingTurns(t *testing.T, p *pgxpool.Pool, prefix string) *pgcheckpoint.Store {
	t.Helper()
	return pgtest.Create(t, p, pgcheckpoint.New(p, &pgcheckpoint.Options{Prefix: prefix, Functions: true}))
}

// A function cannot be part of a statement, nor a statement of a function.
func TestFunctionsJoinOfBothKinds(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	statements, functions := pgsnapshot.New(p, nil), pgsnapshot.New(p, &withFunctions)
	if statements.Join(callingTurns(t, p, "t_")) != nil || functions.Join(turnsOn(t, p, "t_")) != nil {
		t.Error("a store with functions is joined with one without")
	}
}

// If the server does not wait for its disk by default, a Settle does.
func TestSettleIsDurable(t *testing.T) {
	t.Parallel()
	_, p, _ := private(t, &testenv.Options{Settings: pgtest.Lazy()})
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			const rounds = 20
			lazy := 0
			runs := create(t, p, &o)
			turns := pgcheckpoint.New(p, &pgcheckpoint.Options{Functions: o.Functions})
			if _, err := p.Exec(t.Context(), turns.Schema()); err != nil {
				t.Fatal(err)
			}
			settle := runs.Join(turns)
			for i := range rounds {
				r := run(fmt.Sprintf("%s %d", name, i))
				c, err := turns.Claim(t.Context(), r.Key, checkpoint.ClaimRequest{
					Owner: "test", Nonce: r.Session, TTL: time.Hour,
				})
				if err != nil {
					t.Fatal(err)
				}
				r.Fence = c.Fence
				if _, err := runs.Begin(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				cp := checkpoint.Checkpoint{RunID: r.ID, State: r.Payload}
				forgotten, err := settle(t.Context(), c.Lease, cp, checkpoint.AppendOptions{})
				if err != nil || !forgotten {
					t.Fatalf("forgotten: %v, %v", forgotten, err)
				}
				if pgtest.Unflushed(t, p) > 0 {
					lazy++
				}
			}
			if lazy > rounds/4 {
				t.Errorf("a Settle is not durable on return: %d times of %d", lazy, rounds)
			}
		})
	}
}

// If a database lacks the functions or the tables, a store says so and what to do.
func TestFunctionsMissing(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	create(t, p, &pgsnapshot.Options{Prefix: "gone_", Functions: true})
	if _, err := p.Exec(t.Context(), "DROP TABLE gone_runs, gone_run_parts"); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"holdfast_", "gone_", "no_such_schema.holdfast_"} {
		s := pgsnapshot.New(p, &pgsnapshot.Options{Prefix: prefix, Functions: true})
		r := run("a")
		_, begun := s.Begin(t.Context(), r)
		_, adopted := s.Adopt(t.Context(), r.Key, r.Fence, 1)
		saved, deleted := s.Save(t.Context(), r), s.Delete(t.Context(), r.Key, r.ID, r.Fence)
		for i, err := range []error{begun, adopted, saved, deleted} {
			if !errors.Is(err, snapshot.ErrSchema) || !strings.Contains(err.Error(), prefix+"run_begin_1") ||
				!strings.Contains(err.Error(), "Options.Functions") {
				t.Errorf("%s, method %d: %v", prefix, i, err)
			}
		}
	}
}

// Statements and functions end the same owners.
func TestRaise(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshottest.RunRaiser(t, func(t *testing.T) snapshottest.RaisingStore { return open(t, nil, &o) })
		})
	}
}
