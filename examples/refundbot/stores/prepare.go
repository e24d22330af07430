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

	"github.com/holdfast-go/holdfast/migrations"
)

// Prepare brings the schema up to date, or only checks it. Any number of processes may call it at once.
func (s *Stores) Prepare(ctx context.Context, migrate bool) error {
	if err := unreachable(s.sql.PingContext(ctx)); err != nil {
		return err
	}
	if s.Own {
		return s.application(ctx, migrate)
	}
	if migrate {
		if err := s.db.Up(ctx); err != nil {
			return err
		}
	}
	return s.chosen(ctx, s.db.Check(ctx))
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

// chosen returns err. If Config.Newer is set and err says that the schema is newer, chosen logs it and returns nil.
func (s *Stores) chosen(ctx context.Context, err error) error {
	if s.Newer && errors.Is(err, migrations.ErrNewer) {
		slog.WarnContext(ctx, "a later version of the program has changed the schema", "err", err)
		return nil
	}
	return err
}

// set returns the application's migrations. It has no tables of its own: all are those of the stores.
func (s *Stores) set() (*goose.Provider, error) {
	options := []goose.ProviderOption{goose.WithGoMigrations(migrations.FromSchema(1, s.db.Schemas()...))}
	dialect := goose.DialectSQLite3
	if s.DatabaseURL != "" {
		dialect = goose.DialectPostgres
		locker, err := gooselock.NewPostgresSessionLocker()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(dialect, s.sql, nil, options...)
}

// tries is how often the application's migrations are tried on SQLite, for which goose has no lock: another process
// may have been faster.
const tries = 3

// application brings the tables up to date by the application's own set of migrations.
func (s *Stores) application(ctx context.Context, migrate bool) error {
	set, err := s.set()
	if err != nil {
		return err
	}
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
