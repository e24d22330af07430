package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	gooselock "github.com/pressly/goose/v3/lock"

	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/migrations"
)

// schemaOfStores is the version of the application's migration that makes the tables of the stores, if Config.Own is
// set. The migrations of package bot have later versions.
const schemaOfStores = 1

// Prepare brings the schema up to date, or only checks it. Any number of processes may call it at once.
func (s *Stores) Prepare(ctx context.Context, migrate bool) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	set, err := s.set()
	if err != nil {
		return err
	}
	if !s.own {
		if err := s.stores(ctx, migrate); err != nil {
			return err
		}
	}
	return s.application(ctx, set, migrate)
}

// usable asks the database something that every database can answer.
func (s *Stores) usable(ctx context.Context) error {
	err := s.db.PingContext(ctx)
	if err == nil {
		var one int
		err = s.db.QueryRowContext(ctx, "SELECT count(*) FROM "+s.catalog()).Scan(&one)
	}
	if err != nil && s.file != "" {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	return unreachable(err)
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

func (s *Stores) catalog() string {
	if s.dialect == migrations.SQLite {
		return "sqlite_master"
	}
	return "pg_tables"
}

// stores brings the tables of the stores up to date.
func (s *Stores) stores(ctx context.Context, migrate bool) error {
	if migrate {
		if err := migrations.Up(ctx, s.db, s.dialect); err != nil {
			return err
		}
	}
	return s.chosen(ctx, migrations.Check(ctx, s.db, s.dialect))
}

// chosen returns err. If Config.Newer is set and err says that the schema is newer, chosen logs it and returns nil.
func (s *Stores) chosen(ctx context.Context, err error) error {
	if s.newer && errors.Is(err, migrations.ErrNewer) {
		slog.WarnContext(ctx, "a later version of the program has changed the schema", "err", err)
		return nil
	}
	return err
}

// set returns the application's migrations.
func (s *Stores) set() (*goose.Provider, error) {
	options := []goose.ProviderOption{goose.WithAllowOutofOrder(true)} // Config.Own may be set later
	dialect := goose.DialectSQLite3
	if s.dialect == migrations.Postgres {
		dialect = goose.DialectPostgres
		locker, err := gooselock.NewPostgresSessionLocker()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	if s.own {
		options = append(options, goose.WithGoMigrations(migrations.FromSchema(schemaOfStores, s.schemers()...)))
	}
	return goose.NewProvider(dialect, s.db, bot.Migrations(), options...)
}

// schemers are the stores that have tables.
func (s *Stores) schemers() (all []migrations.Schemer) {
	for _, store := range []any{s.Checkpoints, s.Snapshots, s.Ledger, s.TurnLog, s.Stream, s.Inbox, s.Locker} {
		if one, ok := store.(migrations.Schemer); ok {
			all = append(all, one)
		}
	}
	return all
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
		if _, err = set.Up(ctx); err == nil || s.dialect == migrations.Postgres {
			return err
		}
	}
	return err
}
