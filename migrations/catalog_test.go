package migrations_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast/migrations"
)

// These queries return everything in the current schema that the stores might depend on, as one line each.
const postgresCatalog = `
	WITH c AS (
		SELECT * FROM pg_class
		WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND relname !~ '_version'
	)
	SELECT format('relation %s: kind %s, persistence %s, %s, toast %s', relname, relkind, relpersistence, reloptions,
		(SELECT t.reloptions FROM pg_class t WHERE t.oid = c.reltoastrelid))
	FROM c
	UNION ALL
	SELECT format('column %s.%s: %s %s, not null %s, collation %s, default %s, identity %s, generated %s, storage %s, compression %s',
		relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull,
		(SELECT collname FROM pg_collation l WHERE l.oid = attcollation), pg_get_expr(adbin, adrelid),
		attidentity, attgenerated, attstorage, to_jsonb(a) ->> 'attcompression')
	FROM c JOIN pg_attribute a ON attrelid = c.oid LEFT JOIN pg_attrdef d ON adrelid = c.oid AND adnum = attnum
	WHERE attnum > 0
	UNION ALL
	SELECT format('constraint %s.%s: %s %s', relname, conname, contype, pg_get_constraintdef(o.oid))
	FROM c JOIN pg_constraint o ON conrelid = c.oid
	UNION ALL
	SELECT format('index %s: %s', relname, replace(pg_get_indexdef(c.oid), quote_ident(current_schema()) || '.', ''))
	FROM c WHERE relkind = 'i'
	UNION ALL
	SELECT format('trigger %s.%s', relname, tgname) FROM c JOIN pg_trigger ON tgrelid = c.oid`

const sqliteCatalog = `
	WITH m AS (SELECT * FROM sqlite_master WHERE name NOT LIKE '%\_version%' ESCAPE '\' AND name <> 'sqlite_sequence')
	SELECT type || ' ' || name || ' on ' || tbl_name || ': ' || coalesce(sql, '') FROM m
	UNION ALL
	SELECT 'table ' || m.name || ': ' || l.type || ', strict ' || l.strict || ', without rowid ' || l.wr
	FROM m JOIN pragma_table_list l ON l.name = m.name AND l.schema = 'main'
	UNION ALL
	SELECT format('column %s.%d: %s %s, not null %d, default %s, pk %d, hidden %d', m.name, c.cid, c.name, c.type, "notnull", dflt_value, pk, hidden)
	FROM m, pragma_table_xinfo(m.name) c WHERE m.type = 'table'
	UNION ALL
	SELECT format('index %s.%d: %d %s, desc %d, collation %s, key %d', m.name, seqno, cid, i.name, "desc", coll, "key")
	FROM m, pragma_index_xinfo(m.name) i WHERE m.type = 'index'`

// catalog describes the contents of db, except the tables that hold versions.
func catalog(t *testing.T, sys system, db *sql.DB) []string {
	t.Helper()
	query := postgresCatalog
	if sys.dialect == migrations.SQLite {
		query = sqliteCatalog
	}
	lines := column(t, db, query)
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	slices.Sort(lines)
	return lines
}

func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s: too much: %s", what, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s: missing: %s", what, line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d objects, want %d", what, len(got), len(want))
	}
}

// The schemas of the stores, Up, and goose with our files all make the same tables.
func TestSameCatalog(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		for range 2 {
			for _, s := range sys.stores("") {
				must(t, db, s.Schema())
			}
		}
		want := catalog(t, sys, db)
		if len(want) < 30 {
			t.Fatalf("only %d objects: %q", len(want), want)
		}
		for _, line := range want {
			if strings.Contains(line, ": c CHECK") {
				t.Errorf("%s: PostgreSQL prepares it anew for every statement", line)
			}
		}

		db = connect(t, sys, sys.fresh(t))
		for range 2 {
			up(t, sys, db)
			wantSame(t, "Up", catalog(t, sys, db), want)
		}

		db = connect(t, sys, sys.fresh(t))
		p := provider(t, sys, db, "other_version")
		for range 2 {
			if _, err := p.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantSame(t, "goose", catalog(t, sys, db), want)
		}
	})
}

// Up takes over tables that a store's schema has made.
func TestUpAfterSchema(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		for _, s := range sys.stores("") {
			must(t, db, s.Schema())
		}
		want := catalog(t, sys, db)
		up(t, sys, db)
		wantSame(t, "Up", catalog(t, sys, db), want)
		if err := migrations.Check(t.Context(), db, sys.dialect); err != nil {
			t.Error(err)
		}
	})
}

// goose can undo the migrations that Up has applied.
func TestDownUndoesUp(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		p := provider(t, sys, db, "holdfast_schema_version")
		for range 2 {
			up(t, sys, db)
			if left, err := p.DownTo(t.Context(), 0); err != nil || len(left) != len(p.ListSources()) {
				t.Fatalf("%d undone, %v", len(left), err)
			}
			wantSame(t, "Down", catalog(t, sys, db), nil)
		}
	})
}

// A version table that goose has made itself has no unique index until Up needs the index.
func TestUpAfterGoose(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		p := provider(t, sys, db, "holdfast_schema_version")
		if _, err := p.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := catalog(t, sys, db)
		up(t, sys, db)
		if _, err := p.DownTo(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		up(t, sys, db)
		wantSame(t, "Up", catalog(t, sys, db), want)
	})
}

// provider returns goose on our files.
func provider(t *testing.T, sys system, db *sql.DB, table string) *goose.Provider {
	t.Helper()
	fsys, err := migrations.FS(sys.dialect)
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(sys.goose, db, fsys, goose.WithTableName(table), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
