package bootdrain_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// ofSecurity returns the statements in docs/security.md that contain a text.
func ofSecurity(t *testing.T, part string) string {
	t.Helper()
	doc, err := os.ReadFile("../../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(doc), "```sql\n")[1:] {
		if text, _, _ := strings.Cut(block, "```"); strings.Contains(text, part) {
			return text
		}
	}
	t.Fatalf("no statement with %q in docs/security.md", part)
	return ""
}

// A guarded is a database whose roles have the rights that docs/security.md gives them.
type guarded struct {
	*testenv.Server
	admin, owner, service *pgxpool.Pool
}

// newGuarded makes the database, as a superuser and the owner do. The service has no right yet.
func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{Server: testenv.StartPostgres(t, nil)}
	onAdmin := openPool(t, g.URL)
	runSQL(t, onAdmin, "CREATE DATABASE app")
	g.admin = openPool(t, g.as("postgres"))
	runSQL(t, g.admin, ofSecurity(t, "CREATE ROLE holdfast_owner"))
	g.owner, g.service = openPool(t, g.as("holdfast_owner")), openPool(t, g.as("holdfast_service"))
	if err := migrations.Up(t.Context(), g.database(t, "holdfast_owner"), migrations.Postgres); err != nil {
		t.Fatalf("migrations.Up as the owner: %v", err)
	}
	return g
}

func (g *guarded) as(role string) string {
	return strings.NewReplacer("postgres@", role+"@", "/postgres?", "/app?").Replace(g.URL)
}

func (g *guarded) database(t *testing.T, role string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", g.as(role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// granted gives the service the documented rights.
func (g *guarded) granted(t *testing.T) {
	t.Helper()
	for _, part := range grants {
		runSQL(t, g.owner, ofSecurity(t, part))
	}
}

// grants are in the two blocks of rights in docs/security.md: those of the stores, and those of the turn log.
var grants = []string{"GRANT USAGE ON SCHEMA", "ON holdfast_phases"}

// prefixed makes tables with the prefix, as the owner, and gives the service the documented rights to them.
func (g *guarded) prefixed(t *testing.T, prefix string, schemas ...string) {
	t.Helper()
	for _, schema := range schemas {
		runSQL(t, g.owner, schema)
	}
	for _, line := range strings.Split(ofSecurity(t, grants[0])+ofSecurity(t, grants[1]), "\n") {
		line = strings.Replace(line, " ON holdfast_", " ON "+prefix, 1)
		table := regexp.MustCompile(` ON (\w+) TO`).FindStringSubmatch(line)
		if table != nil && strings.Contains(strings.Join(schemas, ""), `"`+table[1]+`"`) {
			runSQL(t, g.owner, line)
		}
	}
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func runSQL(t *testing.T, p *pgxpool.Pool, text string) {
	t.Helper()
	if _, err := p.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// A role with the documented rights passes the suites of all stores.
func TestGrantsSuffice(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.granted(t)
	n := 0
	checkpoints := func(t *testing.T, ttl time.Duration) *pgcheckpoint.Store {
		n++
		s := pgcheckpoint.New(g.service, &pgcheckpoint.Options{Prefix: fmt.Sprintf("s%d_", n), TTL: ttl})
		g.prefixed(t, fmt.Sprintf("s%d_", n), s.Schema())
		return s
	}
	snapshots := func(t *testing.T, remember time.Duration) *pgsnapshot.Store {
		n++
		s := pgsnapshot.New(g.service, &pgsnapshot.Options{Prefix: fmt.Sprintf("s%d_", n), Remember: remember})
		g.prefixed(t, fmt.Sprintf("s%d_", n), s.Schema())
		return s
	}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return checkpoints(t, 0) })
	locktest.RunWatcher(t, func(t *testing.T) lock.Watcher { return checkpoints(t, 0) })
	checkpointtest.RunSweeper(t, func(t *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return checkpoints(t, ttl)
	})
	snapshottest.Run(t, func(t *testing.T) snapshot.Store { return snapshots(t, 0) })
	snapshottest.RunSweeper(t, func(t *testing.T, remember time.Duration) snapshottest.SweepingStore {
		return snapshots(t, remember)
	})
	snapshottest.RunJoiner(t, func(t *testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
		return snapshots(t, 0), checkpoints(t, 0)
	})
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		n++
		l := pgledger.New(g.service, &pgledger.Options{Prefix: fmt.Sprintf("s%d_", n)})
		g.prefixed(t, fmt.Sprintf("s%d_", n), l.Schema())
		return l
	})
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log {
		n++
		l := pgturnlog.New(g.service, &pgturnlog.Options{Prefix: fmt.Sprintf("s%d_", n)})
		g.prefixed(t, fmt.Sprintf("s%d_", n), l.Schema())
		return l
	})
	locktest.Run(t, func(t *testing.T) lock.Locker {
		n++
		l := pglocker.New(g.service, &pglocker.Options{Prefix: fmt.Sprintf("s%d_", n), Listen: g.listen})
		g.prefixed(t, fmt.Sprintf("s%d_", n), l.Schema())
		return l
	})
	if err := g.everything(t); err != nil {
		t.Error(err)
	}
	if _, err := g.service.Exec(t.Context(), "DROP TABLE holdfast_turns"); err == nil {
		t.Error("the service may drop a table")
	}
}

// Stores with functions need one right more, where PostgreSQL does not give it to everybody.
func TestGrantsForFunctions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	runSQL(t, g.owner, ofSecurity(t, "GRANT USAGE ON SCHEMA"))
	runSQL(t, g.owner, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
	s := pgcheckpoint.New(g.service, &pgcheckpoint.Options{Functions: true})
	r := pgsnapshot.New(g.service, &pgsnapshot.Options{Functions: true})
	runSQL(t, g.owner, s.Schema())
	runSQL(t, g.owner, r.Schema())
	k := checkpoint.Key{Orchestrator: "bot", Session: "a"}
	_, err := s.Claim(t.Context(), k, checkpoint.ClaimRequest{Nonce: "n", TTL: time.Minute})
	if !errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), "holdfast_session_claim") {
		t.Errorf("without EXECUTE: %v", err)
	}
	runSQL(t, g.owner, ofSecurity(t, "GRANT EXECUTE"))
	if err := g.turns(t.Context(), s, r, nil); err != nil {
		t.Error(err)
	}
}

func (g *guarded) listen(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, g.as("holdfast_service"))
}

// Without any one of the documented rights something fails, and the error names what is not allowed.
func TestGrantsNeedAll(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	rights := regexp.MustCompile(`GRANT (.*) ON (?:SCHEMA )?(\w+) TO`).FindAllStringSubmatch(
		ofSecurity(t, grants[0])+ofSecurity(t, grants[1]), -1)
	for _, grant := range rights {
		for _, right := range strings.Split(grant[1], ", ") {
			t.Run(grant[2]+" "+right, func(t *testing.T) {
				g.granted(t)
				revoke := strings.Replace(strings.TrimSuffix(grant[0], " TO"), "GRANT "+grant[1], "REVOKE "+right, 1)
				runSQL(t, g.owner, revoke+" FROM holdfast_service")
				err := g.everything(t)
				for tries := 1; tries < 5 && errors.Is(err, context.DeadlineExceeded); tries++ {
					err = g.everything(t) // the machine is busy: the last call had no time
				}
				if err == nil {
					t.Fatal("it is not needed")
				}
				wantNamed(t, err, grant[2])
			})
		}
	}
}

// wantNamed checks the error of a role that lacks a right to what is called name.
func wantNamed(t *testing.T, err error, name string) {
	t.Helper()
	text := err.Error()
	switch {
	case errors.Is(err, checkpoint.ErrDamaged), errors.Is(err, snapshot.ErrDamaged), errors.Is(err, ledger.ErrDamaged),
		errors.Is(err, turnlog.ErrDamaged):
		t.Errorf("taken for damage: %v", err)
	case name == "holdfast": // the schema
		if !errors.Is(err, checkpoint.ErrSchema) || !strings.Contains(text, "USAGE") {
			t.Errorf("%v, want checkpoint.ErrSchema and what to grant", err)
		}
	case !strings.Contains(text, "permission denied for table "+name):
		t.Errorf("the table is not named: %v", err)
	case name == "holdfast_locks", name == "holdfast_schema_version":
	case !errors.Is(err, checkpoint.ErrRefused) && !errors.Is(err, snapshot.ErrRefused) &&
		!errors.Is(err, ledger.ErrRefused) && !errors.Is(err, turnlog.ErrRefused):
		t.Errorf("not ErrRefused: %v", err)
	case !strings.Contains(text, "docs/security.md"):
		t.Errorf("the remedy is not named: %v", err)
	}
}

// A role that may not connect at all is told so, and nothing was sent.
func TestMayNotConnect(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	runSQL(t, g.owner, ofSecurity(t, "GRANT USAGE ON SCHEMA"))
	runSQL(t, g.admin, "REVOKE CONNECT ON DATABASE app FROM holdfast_service")
	s := pgcheckpoint.New(openPool(t, g.as("holdfast_service")), nil)
	_, err := s.Claim(t.Context(), checkpoint.Key{Orchestrator: "bot", Session: "a"},
		checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Minute})
	const denied = `permission denied for database "app"`
	if !errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), denied) {
		t.Errorf("without CONNECT: %v", err)
	}
}

// everything makes the stores, the locker and the migrations use each right that they need.
func (g *guarded) everything(t *testing.T) error {
	runSQL(t, g.owner, `TRUNCATE holdfast_sessions, holdfast_turns, holdfast_sessions_sweep, holdfast_watches, holdfast_beats,
		holdfast_runs, holdfast_run_parts, holdfast_runs_sweep, holdfast_locks, holdfast_effects, holdfast_effect_fences,
		holdfast_effect_raises, holdfast_phases, holdfast_logged`)
	ctx := t.Context()
	s := pgcheckpoint.New(g.service, &pgcheckpoint.Options{TTL: time.Microsecond})
	r := pgsnapshot.New(g.service, nil)
	return errors.Join(
		migrations.Check(ctx, g.database(t, "holdfast_service"), migrations.Postgres),
		migrations.Up(ctx, g.database(t, "holdfast_service"), migrations.Postgres),
		g.turns(ctx, s, r, pgturnlog.New(g.service, nil)), g.takeover(ctx, s, r), g.watched(ctx, s),
		g.swept(ctx, t, s, r), g.locked(ctx), effects(ctx, pgledger.New(g.service, nil)),
	)
}

// turns settles turns of a bot that fans out, prunes and delivers, and drains and deletes what is left. Then it
// uses the turn log, which may be nil, as an operator does.
func (g *guarded) turns(ctx context.Context, s checkpoint.Store, r snapshot.Store, log turnlog.Lister) error {
	o, err := fanning(s, r, log)
	if err != nil {
		return err
	}
	for _, session := range []string{"a", "a", "b"} {
		if _, err := o.Execute(ctx, session, orchestrator.Input{Text: "hello", RequestID: session}, nil); err != nil {
			return err
		}
		for range 3 {
			if _, err := o.Execute(ctx, session, orchestrator.Input{Text: "again"}, nil); err != nil {
				return err
			}
		}
	}
	report, err := bootdrain.DrainInterrupted(ctx, o, nil)
	if err != nil || report.Failed > 0 {
		return errors.Join(fmt.Errorf("drain: %+v", report), err)
	}
	return errors.Join(o.Delete(ctx, "b"), logged(ctx, log))
}

// logged lists the turns of a log, restores them, records an entry of each again, and prunes them.
func logged(ctx context.Context, log turnlog.Lister) error {
	if log == nil {
		return nil
	}
	turns := 0
	for turn, err := range log.Turns(ctx, turnlog.Query{Orchestrator: "bot"}) {
		if err != nil {
			return err
		}
		entries, err := log.Restore(ctx, turn.First.Run)
		if err == nil {
			err = log.Record(ctx, entries[0])
		}
		if err != nil {
			return err
		}
		turns++
	}
	if n, err := log.Prune(ctx, time.Now().Add(time.Hour)); err != nil || n != turns || n == 0 {
		return errors.Join(fmt.Errorf("%d of %d turns are pruned", n, turns), err)
	}
	return nil
}

func fanning(s checkpoint.Store, r snapshot.Store, log turnlog.Log) (*orchestrator.Orchestrator[fanned], error) {
	run := func(field func(*fanned) *int) orchestrator.Intent[fanned] {
		return orchestrator.Intent[fanned]{Run: func(_ context.Context, t *orchestrator.Turn[fanned]) error {
			*field(&t.State)++
			return nil
		}}
	}
	options := &orchestrator.Options{
		Snapshots: r, KeepSnapshots: 2, TurnLog: log,
		Limits: orchestrator.Limits{SettleTimeout: time.Second}, // for so long a refused call is repeated
	}
	return orchestrator.New(orchestrator.Definition[fanned]{
		Name: "bot", Route: func(context.Context, *orchestrator.Turn[fanned]) (orchestrator.Next, error) {
			return orchestrator.To("a", "b"), nil
		},
		Intents: orchestrator.Intents[fanned]{
			"a": run(func(f *fanned) *int { return &f.A }), "b": run(func(f *fanned) *int { return &f.B }),
		},
		Deliver: func(context.Context, *orchestrator.Result[fanned]) error { return nil },
		Labels: func(f *fanned) []checkpoint.Label {
			return []checkpoint.Label{{Name: "sum", At: time.UnixMilli(int64(f.A + f.B))}}
		},
	}, s, options)
}

type fanned struct{ A, B int }

// takeover makes a run with parts that is found, adopted, saved and deleted, without the engine.
func (g *guarded) takeover(ctx context.Context, s *pgcheckpoint.Store, r *pgsnapshot.Store) error {
	k := checkpoint.Key{Orchestrator: "bot", Session: "c"}
	c, err := s.Claim(ctx, k, checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Minute})
	if err != nil {
		return err
	}
	run := snapshot.Run{
		Key: k, ID: "r", Status: snapshot.Running, Seq: 1, Fence: c.Fence, Attempt: 1,
		Payload: []byte(`{}`), Parts: map[string]json.RawMessage{"x": []byte(`{}`)},
	}
	if _, err := r.Begin(ctx, run); err != nil {
		return err
	}
	later := lock.Fence{Epoch: c.Fence.Epoch + 1, Nonce: "m"}
	if _, err := r.Adopt(ctx, run.Key, later, 5); err != nil {
		return err
	}
	run.Seq, run.Fence = 2, later
	if err := errors.Join(r.Save(ctx, run), r.Delete(ctx, run.Key, run.ID, later)); err != nil {
		return err
	}
	_, renewed := s.Renew(ctx, time.Minute, []checkpoint.Lease{c.Lease})
	_, runs := r.Raise(ctx, time.Time{})
	_, sessions := s.Raise(ctx, time.Time{})
	return errors.Join(renewed, runs, sessions)
}

// watched makes a watcher, and removes one that has been silent for long. It beats, and rests.
func (g *guarded) watched(ctx context.Context, s *pgcheckpoint.Store) error {
	for _, child := range []string{"a", "a", "b"} {
		if _, err := s.Watch(ctx, "bot", "v1", child, time.Minute); err != nil {
			return err
		}
	}
	for range 2 {
		if _, err := s.Beat(ctx, "a"); err != nil {
			return err
		}
	}
	return s.Rest(ctx, "a")
}

// swept retires what is old, which everything is by now.
func (g *guarded) swept(ctx context.Context, t *testing.T, s *pgcheckpoint.Store, r *pgsnapshot.Store) error {
	runSQL(t, g.owner, `UPDATE holdfast_sessions SET lease_until = now() - interval '1 day';
		UPDATE holdfast_runs SET deleted_at = now() - interval '10 days' WHERE deleted_at IS NOT NULL`)
	var errs []error
	for range 2 {
		_, runs := r.Sweep(ctx, 1)
		_, sessions := s.Sweep(ctx, 1)
		errs = append(errs, runs, sessions)
	}
	return errors.Join(errs...)
}

// effects issues, finishes, adopts, lists and forgets.
func effects(ctx context.Context, l *pgledger.Ledger) error {
	e := ledger.Effect{
		ID: "e", Orchestrator: "bot", Session: "a", RunID: "r", Name: "pay", Fence: lock.Fence{Epoch: 1, Nonce: "n"},
	}
	_, _, issued := l.Issue(ctx, e, false)
	adopted := l.Adopt(ctx, "r", lock.Fence{Epoch: 2, Nonce: "m"})
	_, finished := l.Finish(ctx, "e", 1, ledger.Outcome{State: ledger.Completed})
	_, pruned := l.Prune(ctx, time.Now().Add(time.Hour))
	var listed error
	for _, err := range l.Effects(ctx, ledger.Query{}) {
		listed = err
	}
	_, raised := l.Raise(ctx, time.Now())
	return errors.Join(issued, adopted, finished, pruned, listed, raised)
}

// locked lets one wait for a key, and get it. That an unlock fails is only logged.
func (g *guarded) locked(ctx context.Context) error {
	var log bytes.Buffer
	l := pglocker.New(g.service, &pglocker.Options{Listen: g.listen, Logger: logTo(&log)})
	_, unlock, err := l.Lock(ctx, "key")
	if err != nil {
		return err
	}
	asked := make(chan error, 1)
	go func() {
		_, unlock, err := l.Lock(ctx, "key")
		if err == nil {
			unlock()
		}
		asked <- err
	}()
	unlock()
	if log.Len() > 0 {
		return errors.New(log.String())
	}
	return <-asked
}
