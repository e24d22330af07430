package stores_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnlog"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A database is a DB of one of the packages.
type database interface {
	Checkpoints() checkpoint.Store
	Snapshots() snapshot.Store
	Stream() stream.Store
	Inbox() inbox.Store
	Transcripts() transcript.Store
	Check(ctx context.Context) error
	Sweep(ctx context.Context, limit int) (int, error)
	Raise(ctx context.Context, lost time.Time, doubt time.Duration) error
}

// A relational database has all contracts, and a schema.
type relational interface {
	database
	Ledger() ledger.Ledger
	TurnLog() turnlog.Lister
	Up(ctx context.Context) error
	Schemas() []migrations.Schemer
}

// A locking database has a Locker.
type locking interface{ Locker() lock.Locker }

// databases returns each kind of database, empty, as its options make it.
func databases(t *testing.T) map[string]func(t *testing.T) database {
	onPostgres := func(prefix string, functions bool) func(*testing.T) database {
		return func(t *testing.T) database {
			pool := pgtest.EmptyPool(t)
			if schema, name, ok := strings.Cut(prefix, "."); ok {
				var here string
				if err := pool.QueryRow(t.Context(), "SELECT current_schema()").Scan(&here); err != nil {
					t.Fatal(err)
				}
				schema += here
				pgtest.Exec(t, pool, "CREATE SCHEMA "+schema)
				t.Cleanup(func() {
					_, err := pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+schema+" CASCADE")
					if err != nil {
						t.Error(err)
					}
				})
				prefix = schema + "." + name
			}
			return postgres.New(pool, &postgres.Options{
				Prefix: prefix, Functions: functions,
				Ages: postgres.Ages{Sessions: time.Microsecond, TurnLogs: time.Microsecond, Effects: time.Microsecond},
			})
		}
	}
	onSQLite := func(prefix string) func(*testing.T) database {
		return func(t *testing.T) database {
			db, err := sqlite.Open(filepath.Join(t.TempDir(), "50% of? #1.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			return sqlite.New(db, &sqlite.Options{
				Prefix: prefix,
				Ages:   sqlite.Ages{Sessions: time.Microsecond, TurnLogs: time.Microsecond, Effects: time.Microsecond},
			})
		}
	}
	return map[string]func(*testing.T) database{
		"postgres":                onPostgres("", false),
		"postgres with a prefix":  onPostgres("Bot_", false),
		"postgres in a schema":    onPostgres("app.bot_", false),
		"postgres with functions": onPostgres("app.bot_", true),
		"sqlite":                  onSQLite(""),
		"sqlite with a prefix":    onSQLite("Bot_"),
		"redis": func(t *testing.T) database {
			_, client := redistest.Server(t, goredis.Options{})
			return redis.New(client, &redis.Options{Prefix: "bot:"})
		},
		"redis cluster": func(t *testing.T) database { return redis.New(redistest.Cluster(t), nil) },
	}
}

func onEach(t *testing.T, test func(t *testing.T, db database)) {
	for name, open := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// prepare brings the schema up to date, if there is one.
func prepare(t *testing.T, db database) {
	t.Helper()
	if db, ok := db.(relational); ok {
		if err := db.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Check finds an empty database behind, and nothing wrong after Up.
func TestUp(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		if _, ok := db.(relational); ok {
			if err := db.Check(t.Context()); !errors.Is(err, migrations.ErrBehind) {
				t.Errorf("before Up: %v", err)
			}
		}
		for range 2 {
			prepare(t, db)
			if err := db.Check(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

type state struct{ Order, Refund string }

// bot makes an orchestrator on everything that db has.
func bot(t *testing.T, db database) *orchestrator.Orchestrator[state] {
	t.Helper()
	o := orchestrator.Options{Snapshots: db.Snapshots(), Stream: db.Stream()}
	all, complete := db.(relational)
	if complete {
		phases := turnlog.NewRegistry()
		if err := phases.Register("looked up", "The order is found."); err != nil {
			t.Fatal(err)
		}
		o.Ledger, o.TurnLog = all.Ledger(), turnlog.New(all.TurnLog(), phases)
	}
	if locking, ok := db.(locking); ok {
		o.Locker = locking.Locker()
	}
	b, err := orchestrator.New(orchestrator.Definition[state]{
		Name: "shop", Iterate: true, First: "look up",
		Intents: orchestrator.Intents[state]{
			"look up": {Next: orchestrator.To("refund"), Run: func(ctx context.Context, turn *orchestrator.Turn[state]) error {
				turn.State.Order = "A-1042"
				if !complete {
					return nil
				}
				return turn.Record(ctx, "looked up", turn.State.Order)
			}},
			"refund": {Next: orchestrator.End, Run: func(ctx context.Context, turn *orchestrator.Turn[state]) (err error) {
				if !complete {
					return nil
				}
				turn.State.Refund, err = orchestrator.Once(ctx, turn, "refund",
					func(context.Context, string) (string, error) { return "paid", nil }, nil)
				return err
			}},
		},
	}, db.Checkpoints(), &o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A turn runs on all the stores of one database, and the same request again runs nothing. What is old can be swept, and
// after Raise a new turn runs.
func TestTurn(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		prepare(t, db)
		b := bot(t, db)
		in := orchestrator.Input{RequestID: "1", Text: "Where is my refund?"}
		for i := range 2 {
			res, err := b.Execute(t.Context(), "ann", in, nil)
			if err != nil || res.Replayed != (i == 1) || res.State.Order == "" {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		// After a Raise without doubt all goes on. With doubt, the effects of a ledger wait for a person.
		lost := time.Now().Add(-time.Hour)
		for i, doubt := range []time.Duration{-1, 0} {
			if err := db.Raise(t.Context(), lost, doubt); err != nil {
				t.Error(err)
			}
			_, hasLedger := db.(relational)
			doubted := hasLedger && doubt == 0
			in := orchestrator.Input{RequestID: fmt.Sprint("raised ", i)}
			if _, err := b.Execute(t.Context(), "ann", in, nil); errors.Is(err, orchestrator.ErrSuspended) != doubted ||
				err != nil && !doubted {
				t.Errorf("doubt %v: %v", doubt, err)
			}
		}
		if n, err := db.Sweep(t.Context(), 0); err != nil {
			t.Errorf("%d retired: %v", n, err)
		} else if _, ok := db.(relational); ok && n == 0 {
			t.Error("nothing is retired")
		}
		if err := b.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A prefix is a constant of the program: New panics if it cannot begin a name.
func TestPrefix(t *testing.T) {
	for _, prefix := range []string{"a-b_", "a.b.c_", "1_", strings.Repeat("x", 70)} {
		for name, open := range map[string]func(){
			"postgres": func() { postgres.New(nil, &postgres.Options{Prefix: prefix}) },
			"sqlite":   func() { sqlite.New(nil, &sqlite.Options{Prefix: prefix}) },
			"redis":    func() { redis.New(nil, &redis.Options{Prefix: prefix + "{"}) },
		} {
			func() {
				defer func() { _ = recover() }()
				open()
				t.Errorf("%s takes the prefix %q", name, prefix)
			}()
		}
	}
}

// Another process may be making the file, and another user may not read it.
func TestOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new.db")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			db, err := sqlite.Open(file)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			if err := sqlite.New(db, nil).Up(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if at, err := os.Stat(file); err != nil || at.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", at, err)
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "no", "folder.db"), t.TempDir()} {
		if db, err := sqlite.Open(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v, %v", bad, db, err)
		}
	}
}

// A bot's sweep forgets what is old in its ledger and its turn log too, once an hour by one process. A sweep without a
// limit does so at once.
func TestSweepOfBot(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		all, ok := db.(relational)
		if !ok {
			t.Skip("has no ledger and no turn log")
		}
		prepare(t, db)
		b := bot(t, db)
		left := func() (n int) {
			for _, err := range all.Ledger().Effects(t.Context(), ledger.Query{}) {
				if n++; err != nil {
					t.Fatal(err)
				}
			}
			for _, err := range all.TurnLog().Turns(t.Context(), turnlog.Query{}) {
				if n++; err != nil {
					t.Fatal(err)
				}
			}
			return n
		}
		for i, c := range []struct{ limit, want int }{{1000, 0}, {1000, 2}, {0, 0}} {
			if _, err := b.Execute(t.Context(), fmt.Sprint(i), orchestrator.Input{}, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Sweep(t.Context(), c.limit); err != nil {
				t.Fatal(err)
			}
			if n := left(); n != c.want {
				t.Errorf("after sweep %d an effect and a turn each: %d left, want %d", i, n, c.want)
			}
		}
	})
}

// What has an age of less than 0 stays, whatever its default is.
func TestForever(t *testing.T) {
	_, client := redistest.Server(t, goredis.Options{})
	file, err := sqlite.Open(filepath.Join(t.TempDir(), "forever.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	for name, db := range map[string]database{
		"postgres": postgres.New(pgtest.EmptyPool(t), &postgres.Options{
			Ages: postgres.Ages{Sessions: -1, Unsettled: -1, Streams: -1, TurnLogs: -1, Effects: -1},
		}),
		"sqlite": sqlite.New(file, &sqlite.Options{
			Ages: sqlite.Ages{Sessions: -1, Unsettled: -1, Streams: -1, TurnLogs: -1, Effects: -1},
		}),
		"redis": redis.New(client, &redis.Options{Ages: redis.Ages{Sessions: -1, Unsettled: -1, Streams: -1}}),
	} {
		t.Run(name, func(t *testing.T) {
			prepare(t, db)
			b := bot(t, db)
			if _, err := b.Execute(t.Context(), "ann", orchestrator.Input{}, nil); err != nil {
				t.Fatal(err)
			}
			if err := b.Shutdown(t.Context()); err != nil { // the last events are in the stream then
				t.Fatal(err)
			}
			k := checkpoint.Key{Orchestrator: "shop", Session: "begun"}
			r := checkpoint.ClaimRequest{Owner: "a", Nonce: "n", TTL: time.Microsecond}
			if _, err := db.Checkpoints().Claim(t.Context(), k, r); err != nil {
				t.Fatal(err)
			}
			if n, err := db.Sweep(t.Context(), 0); n != 0 || err != nil {
				t.Errorf("%d retired, %v", n, err)
			}
			seq, _, _, err := db.Stream().Last(t.Context(), stream.Key{Orchestrator: "shop", Session: "ann"})
			if seq == 0 || err != nil {
				t.Errorf("the stream has come to %d, %v", seq, err)
			}
		})
	}
}

// The ledger and the turn log in memory are swept by their ages too.
func TestSweepOfMemory(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 0, time.Hour: 0, time.Nanosecond: 1} {
		effects, log := &ledger.Memory{Age: age}, &turnlog.Memory{Age: age}
		e := ledger.Effect{
			ID: "e", Orchestrator: "shop", Session: "ann", RunID: "r", Name: "pay", Class: ledger.Pure,
			Fence: lock.Fence{Epoch: 1, Nonce: "n"}, State: ledger.Completed,
		}
		if _, err := effects.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := log.Record(t.Context(), turnlog.Entry{
			Run: "r", Orchestrator: "shop", Session: "ann", Phase: turnlog.Settled,
			At: time.Now().UTC().Truncate(time.Millisecond).Add(-time.Second),
		}); err != nil {
			t.Fatal(err)
		}
		for what, s := range map[string]store.Sweeper{"ledger": effects, "turn log": turnlog.New(log, nil)} {
			if n, err := s.Sweep(t.Context(), 0); n != want || err != nil {
				t.Errorf("%s of age %v: %d retired, want %d: %v", what, age, n, want, err)
			}
		}
	}
}
