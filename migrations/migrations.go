package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/holdfast-go/holdfast/internal/sqlitefile"
	"github.com/holdfast-go/holdfast/migrations/internal/ddl"
)

//go:generate go run ./internal/generate

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// FS returns the migrations of d in goose's annotated SQL format. They are the migrations that [Up] applies, with the
// statements to undo them. A file never changes: a schema grows by new files only.
//
// To apply or undo the migrations of Up, give the files to goose with its table set to holdfast_schema_version. Do not
// put them into the folder of an application: its own files have the same numbers, and goose panics.
// docs/deploying.md has the commands for goose's program.
func FS(d Dialect) (fs.FS, error) {
	if grammars[d] == nil {
		return nil, fmt.Errorf("migrations: unknown dialect %q", d)
	}
	fsys, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return fsys, nil
}

// Up brings db to the newest schema. If db has this schema already, or a newer one, Up only reads. Up waits for another
// process that is applying a migration. On SQLite it waits for any writer. It waits until ctx is done, so give ctx a
// deadline. Each migration takes effect wholly or not at all. After an error, Up may be called again.
//
// Up returns nil only if the tables, columns and indexes of all its migrations are there. If one of them is missing
// although holdfast_schema_version says that its migration was applied, Up applies nothing, and returns an error that
// wraps [ErrBehind] and says what to do. A schema that is newer than this version of the package is no error of Up:
// [Check] tells.
func Up(ctx context.Context, db *sql.DB, d Dialect) error { return Tables{Dialect: d}.Up(ctx, db) }

// Up is the function Up for t. The table of the applied migrations has the prefix too. A schema that the prefix names
// must exist.
func (t Tables) Up(ctx context.Context, db *sql.DB) error {
	p, all, err := t.load()
	if err != nil {
		return err
	}
	return p.up(ctx, db, all)
}

func (p place) up(ctx context.Context, db *sql.DB, all []migration) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := p.try(ctx, db, all)
		if err == nil {
			return nil
		}
		if p.Dialect != SQLite || !sqlitefile.Busy(err) {
			return p.wrap(ctx, db, err)
		}
		select {
		case <-ctx.Done():
			return p.wrap(ctx, db, err)
		case <-time.After(rand.N(pause)):
		}
	}
}

func (p place) try(ctx context.Context, db *sql.DB, all []migration) error {
	found, err := p.look(ctx, db)
	if err != nil {
		return err
	}
	applied := slices.DeleteFunc(slices.Clone(all), func(m migration) bool { return !found.has(m) })
	if err := found.behind(applied); err != nil || len(applied) == len(all) {
		return err
	}
	if err := p.unhidden(ctx, db); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, p.prepare); err != nil {
		return fmt.Errorf("creating %s: %w", p.prefix.Plain(version), err)
	}
	store, err := database.NewStore(p.goose, p.version())
	if err != nil {
		return err
	}
	var steps []*goose.Migration
	for _, m := range all {
		steps = append(steps, goose.NewGoMigration(m.version, &goose.GoFunc{RunTx: m.apply(p)}, nil))
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db, nil,
		goose.WithStore(claimed{store}),
		goose.WithGoMigrations(steps...),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	if found, err = p.look(ctx, db); err != nil {
		return err
	}
	return found.behind(all)
}

// unhidden returns an error if new tables would hide the tables that are in use.
func (p place) unhidden(ctx context.Context, db *sql.DB) error {
	if p.hides == "" {
		return nil
	}
	elsewhere, err := query[string](ctx, db, p.hides)
	if err == nil && len(elsewhere) > 0 {
		err = fmt.Errorf("the tables are in schema %s, and new ones in the first schema of the search path "+
			"would hide them: let the search path begin with %s", elsewhere[0], elsewhere[0])
	}
	return err
}

// claimed is a version table that exists. Each migration enters itself there before it does anything else.
type claimed struct{ database.Store }

// TableExists returns true, because Up has created the table.
func (claimed) TableExists(context.Context, database.DBTxConn) (bool, error) { return true, nil }

// Insert does nothing, because each migration enters itself.
func (claimed) Insert(context.Context, database.DBTxConn, database.InsertRequest) error { return nil }

// A migration is one file.
type migration struct {
	version int64
	// name is the name of the file without its extension.
	name string
	// up has the statements. goose's annotations between them are comments.
	up string
}

// apply returns a func that applies m. If another process has applied m, the func does nothing.
func (m migration) apply(p place) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		if p.begin != "" {
			if _, err := tx.ExecContext(ctx, p.begin); err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, p.claim, m.version)
		if err != nil {
			return fmt.Errorf("claiming %s: %w", m.name, err)
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if done, err := m.added(ctx, tx, p); err != nil || done {
			return err
		}
		if _, err := tx.ExecContext(ctx, m.up); err != nil {
			return fmt.Errorf("applying %s: %w", m.name, err)
		}
		return nil
	}
}

// added reports whether m adds columns, and all are there: the Schema of a store has made the table. SQLite knows no
// ADD COLUMN IF NOT EXISTS. So a file that adds a column does nothing else, except for filling the column.
func (m migration) added(ctx context.Context, tx *sql.Tx, p place) (bool, error) {
	columns := slices.DeleteFunc(ddl.Objects(m.up), func(o ddl.Object) bool { return o.Kind != "COLUMN" })
	if len(columns) == 0 {
		return false, nil
	}
	names, err := query[string](ctx, tx, p.catalog)
	missing := func(o ddl.Object) bool { return !slices.Contains(names, o.Table+"."+o.Name) }
	return !slices.ContainsFunc(columns, missing), err
}

// load returns the migrations for t in the order of their versions.
func (t Tables) load() (p place, all []migration, err error) {
	if p, err = t.place(); err != nil {
		return p, nil, err
	}
	entries, err := files.ReadDir(string(t.Dialect))
	if err != nil {
		return p, nil, fmt.Errorf("migrations: %w", err)
	}
	for _, e := range entries {
		text, err := files.ReadFile(string(t.Dialect) + "/" + e.Name())
		if err != nil {
			return p, nil, fmt.Errorf("migrations: %w", err)
		}
		version, err := goose.NumericComponent(e.Name())
		if err != nil {
			return p, nil, fmt.Errorf("migrations: %w", err)
		}
		_, up, _ := strings.Cut(string(text), "-- +goose Up")
		up, _, _ = strings.Cut(up, "-- +goose Down")
		all = append(all, migration{version, strings.TrimSuffix(e.Name(), ".sql"), p.fill(up)})
	}
	return p, all, nil
}

// wrap names the package and, on SQLite, the file. If ctx has ended and the driver tells only of a consequence, wrap
// adds the end of ctx.
func (p place) wrap(ctx context.Context, db *sql.DB, err error) error {
	if p.Dialect == SQLite {
		err = sqlitefile.Name(sqlitefile.Path(ctx, db), err)
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return fmt.Errorf("migrations: %w: %w", context.Cause(ctx), err)
	}
	return fmt.Errorf("migrations: %w", err)
}
