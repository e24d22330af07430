package bootdrain_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// spoil damages the run of a session in the stores of a site. lose removes the head of a session.
func (s site) spoil(ctx context.Context, session string) error {
	if s.Redis != "" {
		return s.onRedis(func(c *redis.Client) error {
			return c.HDel(ctx, s.Prefix+"{support/"+session+"}:run",
				"status").Err()
		})
	}
	return s.bySQL(ctx, "UPDATE holdfast_runs SET status = 'done' WHERE session = '"+session+"'")
}

func (s site) lose(ctx context.Context, session string) error {
	if s.Redis != "" && s.Postgres == "" {
		return s.onRedis(func(c *redis.Client) error {
			return loseHead(ctx, c, s.Prefix+"{support/"+session+"}:session")
		})
	}
	return s.bySQL(ctx, "DELETE FROM holdfast_sessions WHERE session = '"+session+"'")
}

// loseHead removes the fields of the head. The fields of turns begin with a number, and the fields of ids have a colon.
func loseHead(ctx context.Context, c *redis.Client, key string) error {
	fields, err := c.HKeys(ctx, key).Result()
	if err != nil {
		return err
	}
	head := slices.DeleteFunc(fields, func(f string) bool {
		return strings.Contains(f, ":") || f[0] >= '0' && f[0] <= '9'
	})
	return c.HDel(ctx, key, head...).Err()
}

func (s site) onRedis(do func(*redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Redis})
	defer c.Close()
	return do(c)
}

func (s site) bySQL(ctx context.Context, text string) error {
	if s.Postgres != "" {
		conn, err := pgx.Connect(ctx, s.Postgres)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, text)
		return err
	}
	db, err := sql.Open("sqlite", s.SQLite)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "PRAGMA ignore_check_constraints = on; "+text)
	return err
}

// One of several runs is damaged. A drain finishes the others, and names the damaged run. An operator can abandon or
// delete it, and can delete a session whose head is gone.
func TestDamagedRun(t *testing.T) {
	sites(t, func(t *testing.T, s site, w opened) { damagedRun(t, s, w, s.spoil) })
}

// If PostgreSQL itself cannot read a run, the run is damaged.
func TestLostChunk(t *testing.T) {
	t.Parallel()
	s := site{Postgres: testenv.StartPostgres(t, nil).URL, Effects: filepath.Join(t.TempDir(), "effects")}
	migrated(t, "pgx", s.Postgres, migrations.Postgres)
	p, err := pgxpool.New(t.Context(), s.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	damagedRun(t, s, openSite(t, s), func(ctx context.Context, session string) error {
		const long = "UPDATE holdfast_runs SET payload = to_jsonb(repeat('x', 10000)) WHERE session = $1"
		for _, sql := range []string{"ALTER TABLE holdfast_runs ALTER COLUMN payload SET STORAGE EXTERNAL", long} {
			if _, err := p.Exec(ctx, sql, []any{session}[:strings.Count(sql, "$")]...); err != nil {
				return err
			}
		}
		return testenv.LoseChunk(ctx, p, "holdfast_runs")
	})
}

func damagedRun(t *testing.T, s site, w opened, spoil func(ctx context.Context, session string) error) {
	t.Helper()
	ctx := patience(t)
	sessions := []string{"a", "b", "c", "d", "e"}
	for _, session := range append(sessions, "f") {
		if _, err := w.start(t, nil).Execute(ctx, session, orchestrator.Input{Text: "first"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	p := job{Do: execute, Site: s, Body: wait, Sessions: sessions, Text: "second"}.start(t)
	p.hear(inFlight)
	p.goOn()
	p.hear(left)
	p.exit()
	for _, err := range []error{spoil(ctx, "b"), spoil(ctx, "d"), s.lose(ctx, "f")} {
		if err != nil {
			t.Fatal(err)
		}
	}

	b := w.start(t, nil)
	var logs bytes.Buffer
	report, err := bootdrain.DrainInterrupted(ctx, b, &bootdrain.Options{Logger: logTo(&logs)})
	if err != nil || report.Scanned != 5 || report.Settled != 3 || report.Damaged != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, r := range report.Runs {
		if r.Outcome == "damaged" != errors.Is(r.Err, snapshot.ErrDamaged) {
			t.Errorf("%s: %s, %v", r.Session, r.Outcome, r.Err)
		}
	}
	for _, session := range []string{"b", "d"} {
		if n := strings.Count(logs.String(), "session="+session); n != 1 {
			t.Errorf("%d lines name %s: %s", n, session, logs.String())
		}
	}
	for _, session := range []string{"a", "c", "e"} {
		wantTurns(t, b, session, "first", "second")
	}
	wantDamage(t, b, "b", "d")

	refused(t, b, "b", "damaged")
	ended, err := b.Abandon(ctx, "b", "")
	if !ended || err != nil {
		t.Errorf("Abandon: %v, %v", ended, err)
	}
	wantDamage(t, b, "d")
	healed(t, b, "b", "first", "third")
	if err := b.Delete(ctx, "d"); err != nil {
		t.Error(err)
	}
	wantDamage(t, b)
	healed(t, b, "d", "third")

	refused(t, b, "f", "cleaned") // no run is listed, and nothing owed
	refused(t, b, "f", "cleaned") // no run is listed, and nothing owed
	if err := b.Delete(ctx, "f"); err != nil {
		t.Error(err)
	}
	healed(t, b, "f", "third")
}

// The head of a session is gone, and a run is in flight. Delete removes both, also if the stores are not joined.
func TestDeleteLostHead(t *testing.T) {
	sites(t, func(t *testing.T, s site, w opened) {
		ctx := patience(t)
		sessions := []string{"a", "b"}
		if _, err := w.start(t, nil).Execute(ctx, "a", orchestrator.Input{Text: "first"}, nil); err != nil {
			t.Fatal(err)
		}
		p := job{Do: execute, Site: s, Body: wait, Sessions: sessions, Text: "second"}.start(t)
		p.hear(inFlight)
		p.goOn()
		p.hear(left)
		p.exit()
		b := w.start(t, nil)
		for _, session := range sessions {
			if err := s.lose(ctx, session); err != nil {
				t.Fatal(err)
			}
			if err := b.Delete(ctx, session); err != nil {
				t.Errorf("%s: %v", session, err)
			}
			healed(t, b, session, "third")
		}
		wantDamage(t, b)
	})
}

// wantDamage checks which sessions the list of runs shows as damaged.
func wantDamage(t *testing.T, b *bot, want ...string) {
	t.Helper()
	var got []string
	for r, err := range b.Runs(t.Context()) {
		if !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("%s: %v", r.Session, err)
		}
		got = append(got, r.Session)
	}
	if !slices.Equal(got, want) {
		t.Errorf("damaged: %q, want %q", got, want)
	}
}

// refused checks that a session takes no input, and that its caller gets the error.
// refused fails unless the session is damaged for a caller, and a drain has the outcome.
func refused(t *testing.T, b *bot, session, outcome string) {
	t.Helper()
	_, err := b.Execute(t.Context(), session, orchestrator.Input{Text: "third"}, nil)
	if !errors.Is(err, store.ErrDamaged) || errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Errorf("%s: %v, want %v", session, err, store.ErrDamaged)
	}
	if found, err := b.Recover(t.Context(), session); found != outcome || (err == nil) != (outcome == "cleaned") {
		t.Errorf("Recover: %q, %v", found, err)
	}
}

func healed(t *testing.T, b *bot, session string, texts ...string) {
	t.Helper()
	if _, err := b.Execute(t.Context(), session, orchestrator.Input{Text: "third"}, nil); err != nil {
		t.Errorf("%s: %v", session, err)
	}
	wantTurns(t, b, session, texts...)
}

// A half is a bot whose listing meets damage, and goes on.
type half struct {
	mu     sync.Mutex // protects following field
	reason string     // "" if it was repaired
}

func (*half) Name() string { return "half" }

func (h *half) Recoverable(context.Context, bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		h.mu.Lock()
		reason := h.reason
		h.mu.Unlock()
		if reason != "" && !yield("bad", errors.New(reason)) {
			return
		}
		yield("worse", nil)
	}
}

func (*half) Recover(_ context.Context, session string) (string, error) {
	return "damaged", fmt.Errorf("%s beyond repair", session)
}

func (h *half) set(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reason = reason
}

// Watch logs a damage once. It logs again if the damage changes, or goes away and comes back.
func TestWatchSaysOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		b := &half{reason: "no head"}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- bootdrain.Watch(ctx, b, &bootdrain.Options{Logger: logTo(&logs)}) }()
		for _, reason := range []string{"no head", "no tail", "", "no tail"} {
			b.set(reason)
			<-time.After(time.Minute)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for line, want := range map[string]int{"no head": 1, "no tail": 2, "beyond repair": 1, "pass not made": 0} {
			if n := strings.Count(logs.String(), line); n != want {
				t.Errorf("%d lines say %q, want %d:\n%s", n, line, want, logs.String())
			}
		}
	})
}
