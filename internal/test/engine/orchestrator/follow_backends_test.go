package orchestrator_test

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// A shower is a process that has stores and connections of its own.
type shower struct {
	world
	stream stream.Store
}

func (p shower) start(t *testing.T, d Def) *Bot {
	t.Helper()
	return p.world.Start(t, d, Options{Stream: p.stream, Logger: quiet()})
}

// twoProcesses runs test with two processes that share all of their stores, on each kind of server.
func twoProcesses(t *testing.T, test func(t *testing.T, kind string, a, b shower)) {
	for kind, open := range map[string]func(t *testing.T) func() shower{
		"sqlite": sqliteProcess, "postgres": postgresProcess, "redis": redisProcess,
	} {
		t.Run(kind, func(t *testing.T) {
			next := open(t)
			test(t, kind, next(), next())
		})
	}
}

func sqliteProcess(t *testing.T) func() shower {
	dsn := inMemory(t, testenv.SQLite(t))
	return func() shower {
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		p := shower{worldOf(sqlitecheckpoint.New(db, nil), sqlitesnapshot.New(db, nil)), sqlitestream.New(db, nil)}
		for _, s := range []any{p.Checkpoints, p.Snapshots, p.stream} {
			if _, err := db.ExecContext(t.Context(), s.(interface{ Schema() string }).Schema()); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
}

func postgresProcess(t *testing.T) func() shower {
	url := testenv.Postgres(t).Config().ConnString()
	return func() shower {
		pool, err := pgxpool.New(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return shower{worldOf(pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)), pgstream.New(pool, nil)}
	}
}

func redisProcess(t *testing.T) func() shower {
	shared, prefix := testenv.Redis(t)
	return func() shower {
		client := redis.NewClient(&redis.Options{Addr: shared.Options().Addr})
		t.Cleanup(func() { client.Close() })
		return shower{
			world{
				Checkpoints: redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix}),
				Snapshots:   redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}),
			},
			redisstream.New(client, &redisstream.Options{Prefix: prefix}),
		}
	}
}

// shownWithin is how long a token may take to a reader in another process, after it was emitted, on a quiet machine.
// HOLDFAST_SOAK=1 asserts it.
var shownWithin = map[string]time.Duration{
	"sqlite": 250 * time.Millisecond, "postgres": 250 * time.Millisecond, "redis": 100 * time.Millisecond,
}

// A reader in another process gets each token of a turn, and then the end of the turn. A
// reader that was cut off goes on there.
func TestFollowOnServers(t *testing.T) {
	twoProcesses(t, func(t *testing.T, kind string, a, b shower) {
		const words = 20
		next, emitted := make(chan struct{}), make(chan time.Time, words)
		def := Def{Name: "talks", Intents: Intents{"say": {Run: func(_ context.Context, t *Turn) error {
			for range words {
				<-next
				emitted <- time.Now()
				t.Emit("word ")
			}
			return nil
		}}}}
		bot, other := a.start(t, def), b.start(t, def)
		failed := make(chan error, 1)
		go func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "hello", RequestID: "r"}, nil)
			failed <- err
		}()
		next <- struct{}{}
		awaitShown(t, b.stream, bot.Name())
		var delays []time.Duration
		var last int64
		follow := func(after int64, limit int) {
			t.Helper()
			for shown, err := range other.Follow(t.Context(), "s", after) {
				if err != nil {
					t.Fatal(err)
				}
				if shown.Number != last+1 {
					t.Fatalf("event %d follows %d", shown.Number, last)
				}
				last = shown.Number
				if shown.Event.Kind != orchestrator.Token {
					continue
				}
				delays = append(delays, time.Since(<-emitted))
				if len(delays) == limit {
					return // the connection is cut
				}
				if len(delays) < words {
					next <- struct{}{}
				}
			}
		}
		follow(0, words/2)
		next <- struct{}{}
		follow(last, 0)
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		if len(delays) != words {
			t.Fatalf("%d tokens, want %d", len(delays), words)
		}
		slices.Sort(delays)
		t.Logf("a token takes %v, %v at most", delays[words/2], delays[words-1])
		if soak() && delays[words/2] > shownWithin[kind] {
			t.Errorf("a token takes %v", delays[words/2])
		}
	})
}

// awaitShown waits until the stream has a chunk of session s.
func awaitShown(t *testing.T, s stream.Store, bot string) {
	t.Helper()
	for start := time.Now(); ; {
		last, _, _, err := s.Last(t.Context(), stream.Key{Orchestrator: bot, Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if last > 0 {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatal("nothing is shown")
		}
	}
}

// What a superseded owner still shows is dropped: its turn has another owner.
func TestFollowSuperseded(t *testing.T) {
	twoProcesses(t, func(t *testing.T, _ string, a, b shower) {
		working, hold := make(chan struct{}), make(chan struct{})
		stale := Def{Name: "talks", Intents: Intents{"say": {Run: func(_ context.Context, t *Turn) error {
			t.Emit("first ")
			close(working)
			<-hold
			t.Emit("late ")
			return nil
		}}}}
		owner := a.start(t, stale)
		over := make(chan error, 1)
		go func() {
			_, err := owner.Execute(t.Context(), "s", Input{Text: "a", RequestID: "a"}, nil)
			over <- err
		}()
		<-working
		awaitShown(t, b.stream, owner.Name())
		open := make(chan struct{})
		close(open)
		next := b.start(t, talks(open))
		run := wantRuns(t, next, 1)[0]
		if ended, err := next.Abandon(t.Context(), "s", run.ID); !ended || err != nil {
			t.Fatalf("abandoned %t, %v", ended, err)
		}
		if _, err := next.Execute(t.Context(), "s", Input{Text: "new words", RequestID: "b"}, nil); err != nil {
			t.Fatal(err)
		}
		if err := next.Shutdown(t.Context()); err != nil { // until its events are appended
			t.Fatal(err)
		}
		reader := b.start(t, talks(open))
		all, last := followed(t, reader, stream.Newest)
		if text, kinds := spoken(all); text != "new words " || kinds != wholeTurn {
			t.Errorf("the reader saw %q of %q", text, kinds)
		}
		// The former owner shows its end under its own fence.
		key := stream.Key{Orchestrator: owner.Name(), Session: "s"}
		if _, err := a.stream.Append(t.Context(), key, run.ID, run.Fence.Epoch, stream.Failed, nil); err != nil {
			t.Error(err)
		}
		close(hold)
		if err := <-over; err == nil {
			t.Error("the former owner has settled its turn")
		}
		if err := owner.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		now, _, status, err := b.stream.Last(t.Context(), key)
		if now != last && last > 0 || status != stream.Ended || err != nil {
			t.Errorf("last is %d, %s, %v, want %d", now, status, err, last)
		}
		everything, _ := followed(t, reader, 0)
		if text, _ := spoken(everything); strings.Contains(text, "late") {
			t.Errorf("the reader saw %q", text)
		}
	})
}

// A reader of an earlier run, in another process, reads only its part. The second run starts behind the first one. A
// run that was deleted with its session is not there.
func TestRunsShown(t *testing.T) {
	w, events := newWorld(), new(stream.Memory)
	t.Run("memory", func(t *testing.T) { runsShown(t, shower{w, events}, shower{w, events}) })
	twoProcesses(t, func(t *testing.T, _ string, a, b shower) { runsShown(t, a, b) })
}

func runsShown(t *testing.T, a, b shower) {
	def := Def{Name: "talks", Intents: Intents{"say": {Run: func(_ context.Context, t *Turn) error {
		for word := range strings.FieldsSeq(t.Input.Text) {
			t.Emit(word)
		}
		return nil
	}}}}
	other := b.start(t, def)
	want, said := make(map[string]int64), make(map[string]string)
	for _, text := range []string{"one two three", "four", "five six"} {
		bot := a.start(t, def)
		last, _, err := other.LastShown(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		run := execute(t, bot, Input{Text: text}).RunID
		want[run], said[run] = last+1, strings.ReplaceAll(text, " ", "")
		if err := bot.Shutdown(t.Context()); err != nil { // until its events are appended
			t.Fatal(err)
		}
	}
	got, err := other.RunsShown(t.Context(), "s")
	if err != nil || !maps.Equal(got, want) {
		t.Fatalf("the runs start at %v, want %v, %v", got, want, err)
	}
	for run, number := range got {
		text := ""
		for shown, err := range other.Follow(t.Context(), "s", number-1) {
			if err != nil {
				t.Fatal(err)
			}
			if shown.Event.RunID != run {
				break
			}
			text += shown.Event.Delta
		}
		if text != said[run] {
			t.Errorf("a reader of the run that starts at %d reads %q, want %q", number, text, said[run])
		}
	}
	if err := other.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if got, err := other.RunsShown(t.Context(), "s"); err != nil || len(got) > 0 {
		t.Errorf("after Delete the runs start at %v, %v", got, err)
	}
}
