// Package setting says where the stores of the bot are, and brings their tables up to date with those of the
// application.
package setting

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	gooselock "github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A Config says where the stores are: in an SQLite file, in PostgreSQL, or in PostgreSQL with the runs, the streams and
// the locks in Redis.
type Config struct {
	// Dir is the folder of the SQLite file. It is used if DatabaseURL is "".
	Dir string

	// DatabaseURL is of a PostgreSQL. RedisURL, which may be "", is of a Redis beside it.
	DatabaseURL, RedisURL string

	// RedisPrefix begins the keys in Redis. "" means "holdfast:".
	RedisPrefix string

	// Own puts the tables of the stores into the application's own set of migrations.
	Own bool

	// Newer lets Prepare accept a schema that a later version of the program has changed, as after a rollback.
	Newer bool
}

// Setting names the setting: "sqlite", "postgres" or "postgres+redis".
func (c Config) Setting() string {
	switch {
	case c.DatabaseURL == "":
		return "sqlite"
	case c.RedisURL == "":
		return "postgres"
	}
	return "postgres+redis"
}

// A Database is a *sqlite.DB or a *postgres.DB.
type Database interface {
	Checkpoints() checkpoint.Store
	Ledger() ledger.Ledger
	TurnLog() turnlog.Lister
	Inbox() inbox.Store
	Up(ctx context.Context) error
	Check(ctx context.Context) error
	Schemas() []migrations.Schemer
	Sweep(ctx context.Context, limit int) (retired int, err error)
}

// Stores are the stores of one setting. What is not in their Database is in their Options.
type Stores struct {
	Config
	Database
	Options orchestrator.Options
	SQL     *sql.DB // for the tables of the application
	Close   func() error
}

// Messages are in the tables of the application.
func (s *Stores) Messages() *bot.Messages { return bot.NewMessages(s.SQL, s.DatabaseURL != "") }

// schemaOfStores is the version of the application's migration that makes the tables of the stores, if Config.Own is
// set. The migrations of package bot have later versions.
const schemaOfStores = 1

// Prepare brings the schema up to date, or only checks it. Any number of processes may call it at once.
func (s *Stores) Prepare(ctx context.Context, migrate bool) error {
	if err := unreachable(s.SQL.PingContext(ctx)); err != nil {
		return err
	}
	if !s.Own {
		if err := s.stores(ctx, migrate); err != nil {
			return err
		}
	}
	set, err := s.set()
	if err != nil {
		return err
	}
	return s.application(ctx, set, migrate)
}

// An unreachableError says in one line that a server cannot be reached. The driver says it in several.
type unreachableError struct {
	text string
	err  error
}

func (e *unreachableError) Error() string { return e.text }
func (e *unreachableError) Unwrap() error { return e.err }

// unreachable returns err in plain words, if it says that there is no connection to the database.
func unreachable(err error) error {
	failed, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	why := failed.Error()
	var dialing *net.OpError
	var resolving *net.DNSError
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		why = refused.Message
	case errors.As(err, &resolving):
		why = resolving.Error()
	case errors.As(err, &dialing):
		why = dialing.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		why = "it does not answer"
	}
	c := failed.Config
	at := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	return &unreachableError{fmt.Sprintf("database %q at %s cannot be reached: %s", c.Database, at, why), err}
}

// stores brings the tables of the stores up to date.
func (s *Stores) stores(ctx context.Context, migrate bool) error {
	if migrate {
		if err := s.Up(ctx); err != nil {
			return err
		}
	}
	return s.chosen(ctx, s.Check(ctx))
}

// chosen returns err. If Config.Newer is set and err says that the schema is newer, chosen logs it and returns nil.
func (s *Stores) chosen(ctx context.Context, err error) error {
	if s.Newer && errors.Is(err, migrations.ErrNewer) {
		slog.WarnContext(ctx, "a later version of the program has changed the schema", "err", err)
		return nil
	}
	return err
}

// set returns the application's migrations.
func (s *Stores) set() (*goose.Provider, error) {
	options := []goose.ProviderOption{goose.WithAllowOutofOrder(true)} // Config.Own may be set later
	dialect := goose.DialectSQLite3
	if s.DatabaseURL != "" {
		dialect = goose.DialectPostgres
		locker, err := gooselock.NewPostgresSessionLocker()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	if s.Own {
		options = append(options, goose.WithGoMigrations(migrations.FromSchema(schemaOfStores, s.Schemas()...)))
	}
	return goose.NewProvider(dialect, s.SQL, bot.Migrations(), options...)
}

// tries is how often the application's migrations are tried on SQLite, for which goose has no lock: another process
// may have been faster.
const tries = 3

// application brings the tables of the application up to date.
func (s *Stores) application(ctx context.Context, set *goose.Provider, migrate bool) error {
	applied, known, err := set.GetVersions(ctx)
	if err != nil {
		return err
	}
	if applied > known {
		return s.chosen(ctx, fmt.Errorf("%w: the application has version %d, and the program knows %d",
			migrations.ErrNewer, applied, known))
	}
	pending, err := set.HasPending(ctx)
	if err != nil || !pending {
		return err
	}
	if !migrate {
		return fmt.Errorf("%w: the application has version %d, and needs %d", migrations.ErrBehind, applied, known)
	}
	for range tries {
		if _, err = set.Up(ctx); err == nil || s.DatabaseURL != "" {
			return err
		}
	}
	return err
}
