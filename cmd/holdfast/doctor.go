package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/store"
)

// A finding is what doctor says of one thing.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"`
}

// A visit is what doctor has found so far.
type visit struct{ all []finding }

func (v *visit) well(check, format string, args ...any) {
	v.all = append(v.all, finding{Check: check, OK: true, Says: fmt.Sprintf(format, args...)})
}

func (v *visit) ill(check, do, format string, args ...any) {
	v.all = append(v.all, finding{Check: check, Says: fmt.Sprintf(format, args...), Do: do})
}

// judge adds a finding of a thing that is well unless says is not "".
func (v *visit) judge(check, says, do, well string) {
	if says == "" {
		v.well(check, "%s", well)
		return
	}
	v.ill(check, do, "%s", says)
}

func (v *visit) unread(check string, err error) {
	v.ill(check, "see whether the server answers, and what this role may read",
		"not read: %s", logtext.Line(err.Error()))
}

// doctor looks at what docs/operations.md asks of servers, and at what waits for a person.
func doctor(ctx context.Context, p *program, _ []string, _ *extras) error {
	v := new(visit)
	fit := p.checkSchema(ctx, v)
	if p.databases.pool != nil {
		p.checkPostgres(ctx, v)
	}
	if p.databases.file != nil {
		checkSQLite(ctx, v, p.databases.file)
	}
	if p.databases.redis != nil {
		p.checkRedis(ctx, v)
	}
	if fit {
		p.checkBots(ctx, v)
	}
	t, ill := p.table("", "CHECK", "FOUND", "WHAT TO DO"), 0
	for _, f := range v.all {
		mark := "ok"
		if !f.OK {
			mark, ill = "!!", ill+1
		}
		if err := t.row(f, mark, f.Check, f.Says, f.Do); err != nil {
			return err
		}
	}
	if err := t.end(p, ""); err != nil {
		return err
	}
	if ill > 0 {
		return fmt.Errorf("%w: %d of %d checks need somebody", errFindings, ill, len(v.all))
	}
	return nil
}

// checkSchema reports whether what the tables hold can be read.
func (p *program) checkSchema(ctx context.Context, v *visit) (fit bool) {
	tables := p.databases.tables()
	if tables == nil {
		return true
	}
	err := tables.Check(ctx)
	switch {
	case err == nil:
		v.well("schema", "is that of this version")
	case errors.Is(err, migrations.ErrBehind):
		if err = ours(ctx, tables, err); errors.Is(err, errNotOurs) {
			v.ill("schema", "name the right database, or run holdfast migrate", "has no tables of Holdfast")
			return false
		}
		v.ill("schema", "run holdfast migrate before the service of this version starts",
			"%s", logtext.Line(err.Error()))
		return false
	case errors.Is(err, migrations.ErrNewer):
		v.ill("schema", "act by the holdfast of that version", "%s", logtext.Line(err.Error()))
	default:
		v.unread("schema", err)
		return false
	}
	return true
}

// postgresChecks are queries that return one text: "" if all is well.
var postgresChecks = []struct{ check, do, well, sql string }{
	{
		"version", "upgrade the server", "is 12 or later",
		`SELECT CASE WHEN current_setting('server_version_num')::int < 120000
			THEN 'PostgreSQL ' || current_setting('server_version') ELSE '' END`,
	},
	{
		"encoding", "make a database with the encoding UTF8, and move the tables there", "is UTF8",
		`SELECT CASE WHEN current_setting('server_encoding') <> 'UTF8'
			THEN 'is ' || current_setting('server_encoding') ELSE '' END`,
	},
	{
		"writes", "connect to the primary", "are taken",
		`SELECT CASE WHEN pg_is_in_recovery() THEN 'the server is a standby'
			WHEN current_setting('transaction_read_only') = 'on' THEN 'transactions of this role only read'
			ELSE '' END`,
	},
	{
		"durability", "set fsync and full_page_writes on: a crash of the server loses data now",
		"commits reach the disk",
		`SELECT CASE WHEN current_setting('fsync') <> 'on' THEN 'fsync is off'
			WHEN current_setting('full_page_writes') <> 'on' THEN 'full_page_writes is off' ELSE '' END`,
	},
	{
		"rights", "grant them: docs/security.md has the statements", "this role may use all tables",
		`SELECT coalesce('this role lacks rights to ' || string_agg(relname, ', ' ORDER BY relname), '')
			FROM pg_class
			WHERE relkind IN ('r', 'p') AND starts_with(relname, $1) AND pg_table_is_visible(oid)
				AND relname NOT LIKE '%schema_version' AND NOT (
				has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
				AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))`,
	},
	{
		"autovacuum", "set autovacuum on", "is on",
		`SELECT CASE WHEN current_setting('autovacuum') <> 'on' THEN 'is off' ELSE '' END`,
	},
	{
		"dead rows", "see open transactions; let autovacuum_vacuum_scale_factor of these tables be smaller", "are few",
		`SELECT coalesce(string_agg(relname || ' has ' || n_dead_tup || ' dead of ' || n_live_tup, ', '), '')
			FROM pg_stat_user_tables
			WHERE starts_with(relname, $1) AND n_dead_tup > 20000 AND n_dead_tup > n_live_tup`,
	},
	{
		"open transactions", "end them; docs/operations.md has the query that names them",
		"none is older than 5 minutes",
		`SELECT CASE WHEN count(*) > 0 THEN count(*) || ' are older than 5 minutes' ELSE '' END
			FROM pg_stat_activity
			WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start < now() - interval '5 minutes'`,
	},
	{
		"prepared transactions", "commit them, or roll them back", "none is open",
		`SELECT CASE WHEN count(*) > 0 THEN count(*) || ' are older than 5 minutes' ELSE '' END
			FROM pg_prepared_xacts WHERE prepared < now() - interval '5 minutes'`,
	},
	{
		"connections", "raise max_connections, or put a pooler before the server", "enough are free",
		`SELECT CASE WHEN count(*) > 0.9 * current_setting('max_connections')::int
			THEN count(*) || ' of ' || current_setting('max_connections') || ' are in use' ELSE '' END
			FROM pg_stat_activity WHERE backend_type = 'client backend'`,
	},
}

func (p *program) checkPostgres(ctx context.Context, v *visit) {
	prefix := "holdfast_"
	if p.prefix != "" {
		_, table, in := strings.Cut(p.prefix, ".")
		if prefix = p.prefix; in {
			prefix = table
		}
	}
	for _, c := range postgresChecks {
		var args []any
		if strings.Contains(c.sql, "$1") {
			args = append(args, prefix)
		}
		rows, err := p.databases.pool.Query(ctx, c.sql, args...)
		var says string
		if err == nil {
			says, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		}
		if err != nil {
			v.unread(c.check, err)
			continue
		}
		v.judge(c.check, says, c.do, c.well)
	}
	var now time.Time
	before := time.Now()
	if err := p.databases.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		v.unread("clock", err)
		return
	}
	checkClock(v, now, before)
}

// checkClock judges the clock of a server. The stores go by it alone, so this is about what people read.
func checkClock(v *visit, server, before time.Time) {
	if off := max(before.Sub(server), time.Until(server)); off > time.Minute {
		v.ill("clock", "set the clocks by NTP: nothing breaks, and times in logs do not fit together",
			"the server and this machine are %s apart", age(off))
		return
	}
	v.well("clock", "agrees with that of this machine")
}

func checkSQLite(ctx context.Context, v *visit, db *sql.DB) {
	for _, c := range []struct{ pragma, want, do string }{
		{"journal_mode", "wal", "open the file with sqlite.Open"},
		{"quick_check(1)", "ok", "put a backup back, and run holdfast raise"},
	} {
		var got string
		if err := db.QueryRowContext(ctx, "PRAGMA "+c.pragma).Scan(&got); err != nil {
			v.unread(c.pragma, err)
			continue
		}
		says := ""
		if !strings.EqualFold(got, c.want) {
			says = got
		}
		v.judge(c.pragma, says, c.do, c.want)
	}
}

func (p *program) checkRedis(ctx context.Context, v *visit) {
	if err := p.databases.redis.Check(ctx); err != nil {
		v.ill("redis", "do what it says", "%s", logtext.Line(err.Error()))
	} else {
		v.well("redis", "has a fit version, the policy noeviction and the rights")
	}
	info, err := p.databases.client.Info(ctx, "persistence").Result()
	switch {
	case err != nil:
		v.unread("persistence of redis", err)
	case strings.Contains(info, "aof_enabled:0"):
		v.ill("persistence of redis", "set appendonly yes, or accept it: see Redis in docs/guarantees.md",
			"there is no append-only file: a crash loses what is in it")
	default:
		v.well("persistence of redis", "has an append-only file")
	}
	before := time.Now()
	now, err := p.databases.client.Time(ctx).Result()
	if err != nil {
		v.unread("clock of redis", err)
		return
	}
	checkClock(v, now, before)
}

// longEnough is after how long what waits for a person should have had one, or a run that was left a new owner.
const (
	longEnough = time.Hour
	leftFor    = time.Minute
)

// checkBots says what the stores hold that waits for somebody.
func (p *program) checkBots(ctx context.Context, v *visit) {
	names := []string{p.bot}
	if p.bot == "" {
		var err error
		if names, err = p.room.Bots(ctx); err != nil {
			v.unread("bots", err)
			return
		}
	}
	for _, name := range names {
		bot, err := p.room.Bot(name)
		if err != nil {
			v.unread("bot "+name, err)
			continue
		}
		b, err := bot.Backlog(ctx)
		if err != nil {
			v.unread("bot "+name, err)
			continue
		}
		before := len(v.all)
		p.checkBacklog(v, "bot "+name, b)
		p.checkLeft(ctx, v, name)
		if len(v.all) == before {
			v.well("bot "+name, "nothing waits for a person; %d runs are in flight", b.Running+b.Waiting+b.Suspended)
		}
	}
}

func (p *program) checkBacklog(v *visit, check string, b orchestrator.Backlog) {
	if b.Parked > 0 {
		v.ill(check, "holdfast runs -status parked; holdfast why ID; holdfast unpark ID after the fix",
			"%d runs are parked, the oldest for %s", b.Parked, age(b.OldestParked))
	}
	if b.Damaged > 0 {
		v.ill(check, "holdfast runs; repair the row, or holdfast abandon ID -yes", "%d runs are damaged", b.Damaged)
	}
	if b.Suspended > 0 && b.OldestSuspended > longEnough {
		v.ill(check, "holdfast effects; ask the other side; holdfast answer ID",
			"%d runs wait for an answer, the oldest for %s", b.Suspended, age(b.OldestSuspended))
	}
	if b.InDoubt > 0 && b.OldestInDoubt > longEnough {
		v.ill(check, "holdfast effects; ask the other side; holdfast answer ID",
			"%d effects are in doubt, the oldest for %s", b.InDoubt, age(b.OldestInDoubt))
	}
	if b.OwedParked > 0 {
		v.ill(check, "mend Deliver, then any input delivers; or holdfast skip ID -yes",
			"%d sessions owe a reply whose delivery is tried no more", b.OwedParked)
	}
}

// checkLeft looks for runs that no process has taken up although their owner is gone, or they are due.
func (p *program) checkLeft(ctx context.Context, v *visit, name string) {
	left := 0
	var oldest time.Duration
	for r, err := range p.room.Runs(ctx, ops.RunQuery{Bot: name, Limit: mostLooked}) {
		if err != nil {
			if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, ops.ErrNoStore) {
				v.unread("bot "+name, err)
			}
			return
		}
		waits := r.State() == "left" || r.State() == "waiting" && r.Pause <= 0 && r.Owner == ""
		if waits && r.Age > leftFor {
			left, oldest = left+1, max(oldest, r.Age)
		}
	}
	if left > 0 {
		v.ill("bot "+name, "see that a process with this bot runs, and calls bootdrain.Watch or serve.Run",
			"%d runs are due and nobody goes on with them, the oldest began %s ago", left, age(oldest))
	}
}

// mostLooked is how many runs doctor looks at.
const mostLooked = 1000
