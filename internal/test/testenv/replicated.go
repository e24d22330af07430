package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Replicated is a PostgreSQL with two standbys that belongs to one test. Server is the primary.
type Replicated struct {
	*Server
	// Standbys are read-only until they are promoted.
	Standbys []*Server
}

// StartReplicated starts a primary and two standbys, and returns when the standbys stream. If synchronous is set, a
// commit waits until one of the standbys has it. Options.Count does not work here.
func StartReplicated(tb testing.TB, synchronous bool, opts *Options) *Replicated {
	tb.Helper()
	if opts == nil {
		opts = new(Options)
	}
	settings, state := map[string]string{}, "async"
	if synchronous {
		settings["synchronous_standby_names"], state = "ANY 1 (one, two)", "quorum"
	}
	r := &Replicated{Server: StartPostgres(tb, opts.with(settings))}
	for _, name := range []string{"one", "two"} {
		r.Standbys = append(r.Standbys, r.startStandby(name, opts))
	}
	for _, s := range r.Standbys {
		must(tb, await(time.Minute, s.d.proc.exited, func(ctx context.Context) error {
			var streaming int
			err := query1(ctx, r.URL, &streaming,
				"SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '"+state+"'")
			if err == nil && streaming < len(r.Standbys) {
				err = fmt.Errorf("%d standbys are streaming", streaming)
			}
			return err
		}))
	}
	return r
}

func (r *Replicated) startStandby(name string, opts *Options) *Server {
	r.tb.Helper()
	primary := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s", r.d.port, name)
	return startServer(r.tb, standbyEngine{}, opts.with(map[string]string{"primary_conninfo": primary}))
}

// with returns o with more settings. If o has a setting of the same name, the new one wins.
func (o Options) with(settings map[string]string) *Options {
	all := make(map[string]string)
	maps.Copy(all, o.Settings)
	maps.Copy(all, settings)
	o.Settings = all
	return &o
}

// StopSending stops the processes of the primary that send to the standbys. Their connections stay open.
func (r *Replicated) StopSending() { r.signalSenders(sigStop) }

// ContinueSending undoes StopSending.
func (r *Replicated) ContinueSending() { r.signalSenders(sigCont) }

func (r *Replicated) signalSenders(sig syscall.Signal) {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.tb.Context()), 30*time.Second)
	defer cancel()
	var pids []int
	must(r.tb, query1(ctx, r.URL, &pids, "SELECT array_agg(pid) FROM pg_stat_replication"))
	if len(pids) != len(r.Standbys) {
		r.tb.Fatalf("testenv: %d processes send to %d standbys", len(pids), len(r.Standbys))
	}
	must(r.tb, signalAll(pids, sig))
}

// CatchUp returns when the standbys have applied all that the primary has committed.
func (r *Replicated) CatchUp() {
	r.tb.Helper()
	var end string
	must(r.tb, query1(r.tb.Context(), r.URL, &end, "SELECT pg_current_wal_insert_lsn()::text"))
	must(r.tb, await(time.Minute, r.d.proc.exited, func(ctx context.Context) error {
		var behind bool
		const sql = "SELECT count(*) < %d FROM pg_stat_replication WHERE replay_lsn >= '%s'"
		err := query1(ctx, r.URL, &behind, fmt.Sprintf(sql, len(r.Standbys), end))
		if err == nil && behind {
			err = errors.New("a standby is behind")
		}
		return err
	}))
}

// PauseReplay makes the standbys keep what they receive without applying it.
func (r *Replicated) PauseReplay() { r.onStandbys("SELECT pg_wal_replay_pause()") }

// ResumeReplay undoes PauseReplay.
func (r *Replicated) ResumeReplay() { r.onStandbys("SELECT pg_wal_replay_resume()") }

func (r *Replicated) onStandbys(sql string) {
	r.tb.Helper()
	for _, s := range r.Standbys {
		err := exec1(r.tb.Context(), s.URL, sql)
		if err != nil { // what the standby replays may have cancelled it
			err = exec1(r.tb.Context(), s.URL, sql)
		}
		must(r.tb, err)
	}
}

// Failover kills the primary and promotes the standby that has received most.
func (r *Replicated) Failover() *Server {
	r.tb.Helper()
	r.Kill()
	return r.Promote()
}

// Promote promotes the standby that has received most, and returns when it takes writes.
func (r *Replicated) Promote() *Server {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.tb.Context()), time.Minute)
	defer cancel()
	var best *Server
	most := int64(-1)
	for _, s := range r.Standbys {
		var received int64
		must(r.tb, query1(ctx, s.URL, &received, "SELECT coalesce(pg_last_wal_receive_lsn() - '0/0', 0)::bigint"))
		if received > most {
			best, most = s, received
		}
	}
	var promoted bool
	must(r.tb, query1(ctx, best.URL, &promoted, "SELECT pg_promote(true, 60)"))
	if !promoted {
		r.tb.Fatal("testenv: the standby is not promoted")
	}
	return best
}

// query1 reads one value on a connection of its own.
func query1(ctx context.Context, connString string, value any, sql string) error {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // the answer counts, not the close
	return conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(value)
}

// standbyEngine is the engine of a standby. All data directories are copies of one. Therefore a fresh data directory is
// a base backup of any server that has removed no log since.
type standbyEngine struct{ postgresEngine }

func (e standbyEngine) prepare(d *daemon) error {
	if err := e.postgresEngine.prepare(d); err != nil {
		return err
	}
	signal := filepath.Join(d.data, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	return chown(signal)
}
