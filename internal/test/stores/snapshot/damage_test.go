package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A spoil makes a run one that no store has written. The errors of calls say what is wrong.
type spoil struct {
	damage, says string
	// calls are the calls that need what was damaged, beside Begin and Runs.
	calls string
}

var spoilsOfPostgres = []spoil{
	{"status = 'done'", "", "Adopt"},
	{"status = ''", "", "Adopt"},
	{"id = ''", "", "Adopt"},
	{"turn = -1", "", "Adopt"},
	{"attempt = -1", "", ""}, // Adopt counts one
	{"seq = -1", "", "Adopt"},
	{"nonce = ''", "", ""},
	{"epoch = 0", "", ""},
	{"not_before = 'infinity'", "infinite", "Adopt"},
	{"not_before = '-infinity'", "infinite", "Adopt"},
	{"started_at = 'infinity'", "infinite", "Adopt"},
	{"started_at = '-infinity'", "infinite", "Adopt"},
	{"saved_at = 'infinity'", "infinite", "Adopt"},
	{"saved_at = '-infinity'", "infinite", "Adopt"},
}

var spoilsOfSQLite = []spoil{
	{"payload = '{'", "payload", "Adopt"},
	{`payload = '"\u0000"'`, "payload", "Adopt"},
	{"id = ''", "run id", "Adopt"},
	{"status = 'done'", "done", "Adopt"},
	{"status = ''", "", "Adopt"},
	{"turn = -1", "turn -1", "Adopt"},
	{"attempt = -1", "attempt -1", ""}, // Adopt counts one
	{"attempt = 9e12", "attempt 9", "Adopt"},
	{"seq = -1", "seq -1", "Adopt"},
	{"nonce = ''", "", ""},
	{"epoch = -1", "", ""},
	{"base = CAST(x'ff' AS TEXT)", "base", "Adopt"},
	{"error = CAST(zeroblob(70000) AS TEXT)", "error", "Adopt"},
	{"loosely saved_at = 'yesterday'", "saved_at", "Adopt"},
	{"loosely not_before = 'tomorrow'", "not_before", "Adopt"},
	{"loosely request_id = NULL", "request_id", "Adopt"},
}

func spoilsOfRedis() (all []spoil) {
	for _, field := range []string{"id", "attempt", "status", "seq", "epoch", "nonce", "call", "entry", "parts"} {
		all = append(all, spoil{"HDEL " + field, field, "Save"})
	}
	for _, field := range []string{"request", "turn", "base", "error", "not_before", "payload", "started", "saved"} {
		all = append(all, spoil{"HDEL " + field, field, ""})
	}
	return append(all, []spoil{
		{"HSET attempt 1.5", "attempt", "Save"},
		{"HSET seq 007", "seq", "Save"},
		{"HSET epoch x", "epoch", "Save"},
		{"HSET status done", "status", "Save"},
		{"HSET barred x", "barred", "Save"},
		{"HSET id ", "", ""},
		{"HSET turn -1", "", ""},
		{"HSET request \xff", "", ""},
		{"HSET payload {", "", ""},
		{"HSET started now", "", ""},
		{"HSET saved ", "", ""},
		{"HSET not_before soon", "", ""},
		{"SET x", "run", "Save"}, // which is no hash
	}...)
}

// A store refuses a run that no store has written. It does not guess, and does not repair the run.
func TestDamaged(t *testing.T) {
	each(t, isSpoiled, func(t *testing.T, d database) {
		for _, c := range d.spoils {
			t.Run(c.damage, func(t *testing.T) {
				t.Parallel()
				newStore := d.spoil(t, c.damage)
				snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore { return newStore(t) })
				s := newStore(t)
				r := begin(t, s, run("a"))
				check(t, s.Damage(t.Context(), r.Key))
				wantDamaged(t, s, r, c)
			})
		}
	})
}

// wantDamaged makes each call that shows r, which is damaged, or decides by it. Then it removes what is there.
func wantDamaged(t *testing.T, s store, r snapshot.Run, c spoil) {
	t.Helper()
	errs := make(map[string]error)
	for _, session := range []string{"", "a"} {
		if runs, err := list(t.Context(), s, session); err != nil || len(runs) > 0 {
			errs["Runs of "+session] = err
		}
	}
	_, errs["Begin"] = s.Begin(t.Context(), runAs("a", "other", 2))
	if c.calls == "Save" {
		errs["Save"] = s.Save(t.Context(), next(r))
	}
	r.Fence = fence(r.Fence.Epoch + 1)
	_, err := s.Adopt(t.Context(), r.Key, r.Fence, 9)
	if c.calls == "Adopt" {
		errs["Adopt"] = err
	} else if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		want(t, err, snapshot.ErrDamaged)
	}
	wantAll(t, errs, snapshot.ErrDamaged, c.says)
	check(t, remove(t.Context(), s, r))
	if left := listed(t, s, ""); len(left) > 0 {
		t.Errorf("%q stays", left)
	}
}

func TestOutgrown(t *testing.T) {
	each(t, isSpoiled, func(t *testing.T, d database) {
		newStore := d.spoil(t, d.outgrows)
		snapshottest.RunOutgrown(t, func(t *testing.T) snapshottest.DamagingStore { return newStore(t) })
	})
}

// A torn store is on a server of its own. Its payloads and parts are out of line, and Damage takes a block of a payload
// away.
type torn struct {
	spoiled
	pool   *pgxpool.Pool
	prefix string
}

// tearing returns a maker of torn stores.
func tearing(t *testing.T, functions bool) func(t *testing.T) torn {
	_, p, _ := private(t, nil)
	n := 0
	return func(t *testing.T) torn {
		n++
		s := torn{pool: p, prefix: fmt.Sprintf("torn%d_", n)}
		s.store = pgOn(t, p, pgsnapshot.Options{Prefix: s.prefix, Functions: functions})
		pgtest.Exec(t, p, "ALTER TABLE "+s.prefix+"runs ALTER COLUMN payload SET STORAGE EXTERNAL")
		pgtest.Exec(t, p, "ALTER TABLE "+s.prefix+"run_parts ALTER COLUMN doc SET STORAGE EXTERNAL")
		s.damage = func(ctx context.Context, k snapshot.Key) error {
			sql := "UPDATE " + s.prefix + "runs SET payload = to_jsonb(repeat('x', 10000))" + ofSession
			if _, err := p.Exec(ctx, sql, k.Orchestrator, k.Session); err != nil {
				return err
			}
			return testenv.LoseChunk(ctx, p, s.prefix+"runs")
		}
		return s
	}
}

// A run that the server itself cannot read is damaged, as is a run that no store wrote.
func TestLostChunk(t *testing.T) {
	byEither(t, func(t *testing.T, functions bool) {
		newTorn := tearing(t, functions)
		snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore { return newTorn(t) })
	})
}

// A run that has lost a block of a part can be adopted, to be deleted.
func TestLostPart(t *testing.T) {
	byEither(t, func(t *testing.T, functions bool) {
		s := tearing(t, functions)(t)
		r := run("a")
		r.Parts = parts("part", 0)
		r.Parts["part"] = fmt.Appendf(nil, "%q", strings.Repeat("x", 10_000))
		begin(t, s, r)
		check(t, testenv.LoseChunk(t.Context(), s.pool, s.prefix+"run_parts"))
		got, err := s.Adopt(t.Context(), r.Key, fence(2), 3)
		if damage, is := errors.AsType[*snapshot.DamagedError](err); !is || damage.Key != r.Key || got.ID != r.ID {
			t.Errorf("Adopt returns run %q, %v", got.ID, err)
		}
		check(t, s.Delete(t.Context(), r.Key, got.ID, fence(2)))
		if left := listed(t, s, "a"); len(left) > 0 {
			t.Errorf("%q is still in flight", left)
		}
	})
}

// The parts of a run are judged like its payload, when they are read.
func TestMalformedParts(t *testing.T) {
	for _, c := range []struct{ spoil, says string }{
		{`doc = '{'`, `part "a"`},
		{`doc = '"\u0000"'`, `part "a"`},
		{`name = ''`, "part"},
		{`name = CAST(x'ff' AS TEXT)`, "part"},
	} {
		t.Run(c.spoil, func(t *testing.T) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			s := liteOn(t, db, sqlitesnapshot.Options{})
			r := begin(t, s, run("a"))
			check(t, s.Save(t.Context(), adding(r, "a")))
			check(t, unchecked(t.Context(), db, "UPDATE holdfast_run_parts SET "+c.spoil))
			wantAll(t, map[string]error{"Adopt": take(t.Context(), s, "a", 2)}, snapshot.ErrDamaged, c.says)
			listed(t, s, "")
			check(t, s.Delete(t.Context(), r.Key, r.ID, fence(2)))
			if left := sqlitetest.Contents(t, db, "holdfast_run_parts"); left != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// An index that is no index, the row that a deleted run leaves and a part are judged like a run.
func TestMalformedRest(t *testing.T) {
	t.Parallel()
	s, client, prefix := newRedis(t)
	ctx, at := t.Context(), prefix+"{bot/a}:run"
	for i, damage := range []string{
		"HDEL id", "HDEL epoch", "HDEL nonce", "HDEL status", "HSET epoch x", "HSET status done",
	} {
		r := begin(t, s, runAs("a", "run", int64(10*i+10)))
		check(t, remove(ctx, s, r))
		check(t, onKey(ctx, client, at, damage))
		wantDamaged(t, s, r, spoil{says: "run with", calls: "Save"})
		check(t, client.Del(ctx, at).Err())
	}

	r := runAs("a", "parts", 100)
	r.Parts = parts("x", 1)
	begin(t, s, r)
	for field, value := range map[string]string{"part:x": "{", "part:": "1", "part:\xff": "1"} {
		check(t, client.HSet(ctx, at, field, value).Err())
		want(t, take(ctx, s, "a", 100), snapshot.ErrDamaged)
		check(t, client.HDel(ctx, at, field).Err())
		check(t, client.HSet(ctx, at, "part:x", "1").Err())
		check(t, take(ctx, s, "a", 100))
	}

	check(t, client.Set(ctx, prefix+"{bot}:inflight", "x", 0).Err())
	_, err := list(ctx, s, "")
	want(t, err, snapshot.ErrDamaged)
}
