package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/sqlite"
)

// A program leaves its tables to Holdfast.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared&_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	err = migrations.Check(ctx, db, migrations.SQLite)
	fmt.Println("behind:", errors.Is(err, migrations.ErrBehind))

	if err := migrations.Up(ctx, db, migrations.SQLite); err != nil {
		log.Fatal(err)
	}
	fmt.Println("then:", migrations.Check(ctx, db, migrations.SQLite))
	// Output:
	// behind: true
	// then: <nil>
}

// After a rollback, the program finds a schema that a later version has changed. It warns, and serves.
func ExampleCheck() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:newer?mode=memory&cache=shared&_pragma=busy_timeout(5000)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := migrations.Up(ctx, db, migrations.SQLite); err != nil {
		log.Fatal(err)
	}
	const later = "INSERT INTO holdfast_schema_version (version_id, is_applied) VALUES (9999, 1)"
	if _, err := db.ExecContext(ctx, later); err != nil {
		log.Fatal(err)
	}

	switch err := migrations.Check(ctx, db, migrations.SQLite); {
	case errors.Is(err, migrations.ErrNewer):
		fmt.Println("warning: a later version has changed the schema")
	case err != nil:
		log.Fatal(err)
	}
	// Output: warning: a later version has changed the schema
}

// An application has its own migrations, and one of them makes the tables of a bot.
func ExampleFromSchema() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	// Each connection would be a database of its own.
	db.SetMaxOpenConns(1)

	bot := sqlite.New(db, &sqlite.Options{Prefix: "bot_"})
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, nil,
		goose.WithGoMigrations(migrations.FromSchema(20260401, bot.Schemas()...)))
	if err != nil {
		log.Fatal(err)
	}
	applied, err := provider.Up(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(applied), "applied, version", applied[0].Source.Version)
	// Output: 1 applied, version 20260401
}

func ExampleFS() {
	fsys, err := migrations.FS(migrations.Postgres)
	if err != nil {
		log.Fatal(err)
	}
	names, err := fs.Glob(fsys, "00001*")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)
	// Output: [00001_checkpoints.sql]
}
