package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/store"
)

// databases are those that a command line names. What is nil is not used.
type databases struct {
	pool     *pgxpool.Pool
	postgres *postgres.DB
	file     *sql.DB
	sqlite   *sqlite.DB
	client   goredis.UniversalClient
	redis    *redis.DB
}

// A schemed database has tables.
type schemed interface {
	Up(ctx context.Context) error
	Check(ctx context.Context) error
	Bots(ctx context.Context) ([]string, error)
}

// tables returns the database with tables; nil if there is none.
func (d *databases) tables() schemed {
	switch {
	case d.postgres != nil:
		return d.postgres
	case d.sqlite != nil:
		return d.sqlite
	}
	return nil
}

func (d *databases) close() {
	if d.pool != nil {
		d.pool.Close()
	}
	if d.file != nil {
		_ = d.file.Close()
	}
	if d.client != nil {
		_ = d.client.Close()
	}
}

// open opens what the command line names, checks that it is fit for the command, and makes the room.
func (p *program) open(ctx context.Context, c *command) (err error) {
	d := &p.databases
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if p.sqlite != "" && p.db == p.env("DATABASE_URL") {
		p.db = "" // the flag is nearer than the environment
	}
	switch {
	case p.db != "" && p.sqlite != "":
		return usage("-db and -sqlite: one of them has the tables")
	case p.db == "" && p.sqlite == "" && p.redis == "":
		return usage("no database: give -db, -sqlite or -redis")
	}
	if err := d.open(ctx, &p.settings, c.name == "migrate"); err != nil {
		return err
	}
	stores, err := p.stores()
	if err != nil {
		return err
	}
	if err := p.fit(ctx, c); err != nil {
		return err
	}
	p.room = ops.New(stores, p.options())
	return nil
}

// open opens what s names. makes says that the command makes the tables.
func (d *databases) open(ctx context.Context, s *settings, makes bool) error {
	if s.db != "" {
		config, err := pgxpool.ParseConfig(s.db)
		if err != nil {
			return usage("-db is no URL of a PostgreSQL") // its text may have a password
		}
		config.MaxConns = 4
		if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
			return err
		}
		if err := d.pool.Ping(ctx); err != nil {
			return fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
		d.postgres = postgres.New(d.pool, &postgres.Options{Prefix: s.prefix})
	}
	if s.sqlite != "" {
		if _, err := os.Stat(s.sqlite); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: there is no file %s", ops.ErrNotFound, s.sqlite)
		}
		err := untouched(ctx, s)
		if err != nil && !makes {
			return err
		}
		if d.file, err = sqlite.Open(s.sqlite); err != nil {
			return fmt.Errorf("%w: %w", errNotOurs, err)
		}
		d.sqlite = sqlite.New(d.file, &sqlite.Options{Prefix: s.prefix})
	}
	if s.redis != "" {
		o, err := goredis.ParseURL(s.redis)
		if err != nil {
			return usage("-redis is no URL of a Redis")
		}
		o.ContextTimeoutEnabled = true
		d.client = goredis.NewClient(o)
		if err := d.client.Ping(ctx).Err(); err != nil {
			return fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
		prefix := s.prefix
		if !strings.HasSuffix(prefix, ":") {
			prefix = "" // it is that of the tables
		}
		d.redis = redis.New(d.client, &redis.Options{Prefix: prefix})
	}
	return nil
}

// untouched returns errNotOurs if a file has no tables of Holdfast. It only reads: sqlite.Open would change how the
// file of another program is kept.
func untouched(ctx context.Context, s *settings) error {
	escaped := strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23").Replace(s.sqlite)
	db, err := sql.Open("sqlite", "file:"+escaped+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	var tables int
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?",
		cmp.Or(s.prefix, "holdfast_")+"schema_version").Scan(&tables)
	if err != nil || tables == 0 {
		return errNotOurs
	}
	return nil
}

// stores returns what the room works on.
func (p *program) stores() (s ops.Stores, err error) {
	d := &p.databases
	switch {
	case d.postgres != nil:
		db := d.postgres
		s = ops.Stores{
			Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Ledger: db.Ledger(), TurnLog: db.TurnLog(),
			Stream: db.Stream(), Inbox: db.Inbox(), Transcripts: db.Transcripts(), Workflows: db.Workflows(),
			Bots: db.Bots,
		}
	case d.sqlite != nil:
		db := d.sqlite
		s = ops.Stores{
			Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Ledger: db.Ledger(), TurnLog: db.TurnLog(),
			Stream: db.Stream(), Inbox: db.Inbox(), Transcripts: db.Transcripts(), Workflows: db.Workflows(),
			Bots: db.Bots,
		}
	}
	if d.redis == nil {
		return s, nil
	}
	has := strings.Split(p.onRedis, ",")
	if s.Checkpoints == nil {
		has = []string{"runs", "stream", "inbox", "turns", "transcripts"}
	}
	for _, part := range has {
		switch part {
		case "runs":
			s.Snapshots = d.redis.Snapshots()
		case "stream":
			s.Stream = d.redis.Stream()
		case "inbox":
			s.Inbox = d.redis.Inbox()
		case "transcripts":
			s.Transcripts = d.redis.Transcripts()
		case "turns":
			s.Checkpoints, s.Bots = d.redis.Checkpoints(), d.redis.Bots
		default:
			return s, usage("-on-redis: %q is none of runs, stream, inbox, turns, transcripts", part)
		}
	}
	return s, nil
}

// fit returns an error unless the schema is one that the command can work with.
func (p *program) fit(ctx context.Context, c *command) error {
	tables := p.databases.tables()
	if tables == nil || slices.Contains([]string{"check", "migrate", "doctor"}, c.name) {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := tables.Check(within)
	switch {
	case errors.Is(err, migrations.ErrBehind):
		return ours(within, tables, err)
	case errors.Is(err, migrations.ErrNewer) && !c.acts:
		fmt.Fprintln(p.err, "holdfast: warning:", err)
		return nil
	case errors.Is(err, migrations.ErrNewer):
		return fmt.Errorf("%w: act by the holdfast of that version", err)
	}
	return err
}

// ours tells a database that has no tables of Holdfast from one whose tables are behind.
func ours(ctx context.Context, tables schemed, behind error) error {
	if _, err := tables.Bots(ctx); errors.Is(err, store.ErrSchema) {
		return errNotOurs
	}
	return fmt.Errorf("%w (holdfast migrate runs migrations.Up)", behind)
}
