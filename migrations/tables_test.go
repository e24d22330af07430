package migrations_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/migrations"
)

// Under each prefix Up makes what the schemas of the stores make, notes it in a table of that prefix, and finds it
// again. Check knows what is missing there, and what is newer.
func TestTables(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		for _, prefix := range []string{"bot_", "Other_", "holdfast_b_", "app.bot_", "app.holdfast_"} {
			schema, name, inSchema := strings.Cut(prefix, ".")
			if !inSchema {
				name = prefix
			} else if sys.dialect == migrations.SQLite {
				continue
			}
			t.Run(prefix, func(t *testing.T) {
				db := connect(t, sys, sys.fresh(t))
				if inSchema {
					schema += "_" + column(t, db, "SELECT right(current_schema(), 16)")[0]
					prefix = schema + "." + name
					must(t, db, "CREATE SCHEMA "+schema)
					defer must(t, db, "DROP SCHEMA "+schema+" CASCADE")
				}
				everything := func() []string {
					all := append(catalog(t, sys, db), qualified(t, sys, db, prefix)...)
					return slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, "_version") })
				}
				up(t, sys, db) // those without a prefix do not disturb
				for _, s := range sys.stores(prefix) {
					must(t, db, s.Schema())
				}
				want := everything()
				for _, s := range migrations.Drops(sys.stores(prefix)...) {
					must(t, db, s)
				}

				tables := migrations.Tables{Dialect: sys.dialect, Prefix: prefix}
				if err := tables.Check(t.Context(), db); !errors.Is(err, migrations.ErrBehind) {
					t.Errorf("Check before Up: %v", err)
				}
				for range 2 {
					if err := tables.Up(t.Context(), db); err != nil {
						t.Fatal(err)
					}
					wantSame(t, "Up", everything(), want)
				}
				if err := tables.Check(t.Context(), db); err != nil {
					t.Errorf("Check: %v", err)
				}

				quoted := `"` + strings.ReplaceAll(prefix, ".", `"."`)
				must(t, db, "INSERT INTO "+quoted+`schema_version" (version_id, is_applied) VALUES ($1, $2)`, 9999, true)
				if err := tables.Check(t.Context(), db); !errors.Is(err, migrations.ErrNewer) {
					t.Errorf("Check of a newer schema: %v", err)
				}
				must(t, db, "DROP TABLE "+quoted+`turns"`)
				err := tables.Check(t.Context(), db)
				if !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), "table "+name+"turns") {
					t.Errorf("Check without a table: %v", err)
				}
				if err := migrations.Check(t.Context(), db, sys.dialect); err != nil {
					t.Errorf("Check of the tables without a prefix: %v", err)
				}
			})
		}
	})
}

func TestTablesOfNoPrefix(t *testing.T) {
	for _, prefix := range []string{"a-b", "a.b.c", "1_", strings.Repeat("x", 60)} {
		tables := migrations.Tables{Dialect: migrations.Postgres, Prefix: prefix}
		if err := tables.Up(t.Context(), nil); err == nil {
			t.Errorf("Up takes %q", prefix)
		}
	}
	if err := (migrations.Tables{Dialect: migrations.SQLite, Prefix: "app.bot_"}).Check(t.Context(), nil); err == nil {
		t.Error("Check takes a schema on SQLite")
	}
}
