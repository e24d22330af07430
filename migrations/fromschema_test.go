package migrations_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
)

// application returns an application's own goose. It has a table of the application and one migration of ours for each
// prefix.
func application(t *testing.T, sys system, db *sql.DB, prefixes ...string) *goose.Provider {
	t.Helper()
	steps := []*goose.Migration{goose.NewGoMigration(1,
		&goose.GoFunc{RunTx: run("CREATE TABLE customers (n integer)")},
		&goose.GoFunc{RunTx: run("DROP TABLE customers")})}
	for i, prefix := range prefixes {
		stores := append(sys.stores(prefix), new(checkpoint.Memory))
		steps = append(steps, migrations.FromSchema(int64(2+i), stores...))
	}
	p, err := goose.NewProvider(sys.goose, db, nil, goose.WithGoMigrations(steps...),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func run(text string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}
}

func TestFromSchema(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		// The schemas alone make these tables, to compare with.
		prefixes := []string{"bot_", "Other_"}
		if sys.dialect == migrations.Postgres {
			app := "app_" + column(t, db, "SELECT right(current_schema(), 16)")[0]
			must(t, db, "CREATE SCHEMA "+app)
			defer must(t, db, "DROP SCHEMA "+app+" CASCADE")
			prefixes[0] = app + ".bot_"
		}
		p := application(t, sys, db, prefixes...)
		everything := func() []string { return append(catalog(t, sys, db), qualified(t, sys, db, prefixes[0])...) }

		must(t, db, "CREATE TABLE customers (n integer)")
		for _, prefix := range prefixes {
			for _, s := range sys.stores(prefix) {
				must(t, db, s.Schema())
			}
		}
		want := everything()
		must(t, db, "DROP TABLE customers")

		// The first round finds the tables there.
		for round := range 2 {
			for range 2 {
				if _, err := p.Up(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantSame(t, "Up", everything(), want)
			}
			// Down accepts that tables are gone already.
			if round == 1 {
				for _, table := range []string{"Other_turns", "Other_sessions"} {
					must(t, db, `DROP TABLE "`+table+`"`)
				}
			}
			if _, err := p.DownTo(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			wantSame(t, "Down", everything(), nil)
		}
		if _, err := p.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSame(t, "Up again", everything(), want)
	})
}

// qualified lists the tables and indexes in the schema that a prefix names.
func qualified(t *testing.T, sys system, db *sql.DB, prefix string) []string {
	t.Helper()
	schema, _, ok := strings.Cut(prefix, ".")
	if !ok || sys.dialect != migrations.Postgres {
		return nil
	}
	return column(t, db,
		"SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname = $1 UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = $1", schema)
}

func TestFromSchemaOfNothing(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		p, err := goose.NewProvider(sys.goose, db, nil, goose.WithDisableGlobalRegistry(true),
			goose.WithGoMigrations(migrations.FromSchema(1, new(checkpoint.Memory)), migrations.FromSchema(2)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Up(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := p.DownTo(t.Context(), 0); err != nil {
			t.Error(err)
		}
	})
}

// The application's migrations do not see ours, and ours do not see the application's.
func TestApart(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		db := connect(t, sys, dsn)
		app := application(t, sys, db, "bot_")
		for range 2 {
			up(t, sys, db)
			if _, err := app.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if v, err := app.GetDBVersion(t.Context()); err != nil || v != 2 {
			t.Errorf("the application is at %d, %v", v, err)
		}
		wantRecordedOnce(t, sys, dsn)

		if _, err := app.DownTo(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		wantRecordedOnce(t, sys, dsn)
		if _, err := app.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := provider(t, sys, db, "holdfast_schema_version").DownTo(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if n := column(t, db,
			"SELECT (SELECT count(*) FROM customers) + (SELECT count(*) FROM bot_turns)"); n[0] != "0" {
			t.Error(n)
		}
	})
}

// Functions come and go with the tables of the stores that call them, also if the tables existed before.
func TestFromSchemaFunctions(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		if sys.dialect != migrations.Postgres {
			return // no other store has functions
		}
		db := connect(t, sys, sys.fresh(t))
		up(t, sys, db) // makes the tables of the default prefix
		stores := []migrations.Schemer{
			pgcheckpoint.New(nil, &pgcheckpoint.Options{Functions: true}),
			pgsnapshot.New(nil, &pgsnapshot.Options{Functions: true}),
			pgsnapshot.New(nil, &pgsnapshot.Options{Functions: true, Prefix: "other_"}),
		}
		p, err := goose.NewProvider(sys.goose, db, nil,
			goose.WithGoMigrations(migrations.FromSchema(1, stores...)), goose.WithDisableGlobalRegistry(true))
		if err != nil {
			t.Fatal(err)
		}
		const all = "SELECT proname FROM pg_proc WHERE pronamespace = quote_ident(current_schema())::regnamespace"
		for range 2 {
			if _, err := p.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range stores {
				must(t, db, s.Schema())
			}
			if got := column(t, db, all); len(got) != 7+8+8 {
				t.Errorf("up, there are %d functions: %q", len(got), got)
			}
			if got := column(t, db, all+" AND proargnames[1:3] @> '{_session}' IS NOT true"); len(got) > 0 {
				t.Errorf("Citus cannot tell to which node calls of %q go", got)
			}
			if _, err := p.DownTo(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if got := column(t, db, all); len(got) > 0 {
				t.Errorf("down, there are functions: %q", got)
			}
		}
	})
}
