package ddl_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/migrations/internal/ddl"
)

const schema = `
-- CREATE TABLE commented ();
CREATE TABLE IF NOT EXISTS "app"."my_a" (
    id   bigint PRIMARY KEY CHECK (id IN (1, 2)), -- of two; no more
    "of""age" text COLLATE "C" DEFAULT '; it''s, (',
    "check" int,
    PRIMARY KEY (id),
    CHECK (id > 0)
) WITH (fillfactor = 70);
/* CREATE TABLE b (); */
create unique index if not exists "my_a_i" on only "app"."my_a" (id) where id is not null;
DO $$ BEGIN
    CREATE INDEX inside_i ON inside (n);
    IF NOT EXISTS (SELECT FROM pg_class WHERE relname = 'x;') THEN
        CREATE INDEX IF NOT EXISTS "then_i" ON "app"."my_a" (id);
    END IF;
    CREATE TABLE inside (n int); EXECUTE $x$ SELECT $1; $x$;
END $$;
DO $a$ BEGIN
    IF true THEN
        CREATE FUNCTION "app"."my_f"(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN n; END $$;
    END IF;
END $a$;
CREATE OR REPLACE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 1; CREATE TABLE no (n int)';
DO $$ BEGIN
    IF true THEN
        ALTER TABLE "app"."my_a" ADD COLUMN IF NOT EXISTS "late" int; UPDATE "app"."my_a" SET late = 1;
    END IF;
END $$;
ALTER TABLE plain ADD COLUMN more int NOT NULL DEFAULT 0;
ALTER TABLE plain RENAME COLUMN more TO less;
ALTER INDEX plain_i RENAME TO i;
CREATE INDEX CONCURRENTLY plain_i ON plain (n);
CREATE UNLOGGED TABLE plain (n int)`

func TestObjects(t *testing.T) {
	type object struct {
		kind, name, table string
		columns           []string
	}
	want := []object{
		{"TABLE", "my_a", "", []string{"id", `of"age`, "check"}},
		{"INDEX", "my_a_i", "my_a", nil},
		{"INDEX", "then_i", "my_a", nil},
		{"FUNCTION", "my_f", "", nil},
		{"FUNCTION", "g", "", nil},
		{"COLUMN", "late", "my_a", nil},
		{"COLUMN", "more", "plain", nil},
		{"INDEX", "plain_i", "plain", nil},
		{"TABLE", "plain", "", []string{"n"}},
	}
	var got []object
	for _, o := range ddl.Objects(schema) {
		got = append(got, object{o.Kind, o.Name, o.Table, o.Columns})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestDrop(t *testing.T) {
	want := []string{
		`DROP TABLE IF EXISTS plain;`,
		`DROP INDEX IF EXISTS plain_i;`,
		`DROP FUNCTION IF EXISTS g;`,
		`DROP FUNCTION IF EXISTS "app"."my_f";`,
		`DROP INDEX IF EXISTS "app"."then_i";`,
		`DROP INDEX IF EXISTS "app"."my_a_i";`,
		`DROP TABLE IF EXISTS "app"."my_a";`,
	}
	if got := ddl.Drop(schema); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestSplit(t *testing.T) {
	got := ddl.Split(schema)
	if len(got) != 11 {
		t.Fatalf("%d statements: %q", len(got), got)
	}
	for i, prefix := range []string{
		"-- CREATE TABLE commented", "/* CREATE TABLE b", "DO $$", "DO $a$", "CREATE OR", "DO $$", "ALTER",
		"ALTER", "ALTER", "CREATE INDEX", "CREATE UNLOGGED",
	} {
		if !strings.HasPrefix(got[i], prefix) {
			t.Errorf("statement %d: %q", i, got[i])
		}
	}
	if ddl.Split(" \n-- nothing\n") != nil {
		t.Error("a comment is no statement")
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{schema, "", `"`, "$a$ $$", "'a''", "/*", "CREATE TABLE", `CREATE INDEX "`, "\xff", "create table ("} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		squash := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if got := squash(strings.Join(ddl.Split(text), "")); !strings.HasPrefix(squash(text), got) {
			t.Errorf("%q became %q", text, got)
		}
		ddl.Drop(text)
	})
}
