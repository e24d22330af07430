package migrations_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/migrations"
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
			if got := column(t, db, all); len(got) != 8+8+8 {
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

// The steps of docs/scaling.md, on a PostgreSQL without Citus: in the schema that step 1 creates, the schemas of the
// stores make the five tables of step 2. Step 3 finds each function, and writes a call for it.
func TestCitusSteps(t *testing.T) {
	t.Parallel()
	db := connect(t, onPostgres, freshSchema(t))
	text, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	schema := "bots_" + strings.ToLower(rand.Text()[:16])
	page := strings.ReplaceAll(string(text), "bots", schema)
	step := func(pattern string) []string {
		t.Helper()
		found := regexp.MustCompile(pattern).FindAllString(page, -1)
		if len(found) == 0 {
			t.Fatalf("the page has nothing like %s", pattern)
		}
		return found
	}
	must(t, db, step(`CREATE SCHEMA \w+;`)[0])
	t.Cleanup(func() {
		if _, err := db.Exec("SET client_min_messages = warning; DROP SCHEMA " + schema + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	for _, s := range []migrations.Schemer{
		pgcheckpoint.New(nil, &pgcheckpoint.Options{Prefix: schema + ".holdfast_", Functions: true}),
		pgsnapshot.New(nil, &pgsnapshot.Options{Prefix: schema + ".holdfast_", Functions: true}),
	} {
		must(t, db, s.Schema())
	}
	for _, call := range step(`create_distributed_table\('[^']+'`) {
		_, table, _ := strings.Cut(strings.Trim(call, "'"), "'")
		must(t, db, "SELECT session FROM "+table)
	}
	calls := column(t, db, step(`(?s)SELECT format\(.*?\$'`)[0])
	all := column(t, db, "SELECT proname FROM pg_proc WHERE pronamespace = $1::regnamespace", schema)
	if len(calls) != len(all) || len(all) != 8+8 {
		t.Errorf("step 3 has %d calls for %d functions: %q", len(calls), len(all), calls)
	}
}
