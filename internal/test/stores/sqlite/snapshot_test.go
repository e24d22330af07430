package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

var runs = contract{
	name: "snapshot",
	open: func(db *sql.DB, o options) store {
		return runStore{sqlitesnapshot.New(db, &sqlitesnapshot.Options{Prefix: o.prefix, Remember: o.age})}
	},
	tables:  []string{"holdfast_runs", "holdfast_run_parts"},
	longest: "runs_inflight",
	schema:  snapshot.ErrSchema, damaged: snapshot.ErrDamaged, refused: snapshot.ErrRefused,
	one: is[*snapshot.DamagedError], verdicts: []error{snapshot.ErrInvalid, lock.ErrFenced},
	missing: []missing{
		{"table", "DROP TABLE holdfast_runs", "table holdfast_runs", ""},
		{"parts", "DROP TABLE holdfast_run_parts", "table holdfast_run_parts", "Adopt Save Runs Delete Sweep"},
		{"index", "DROP INDEX holdfast_runs_drain", "index holdfast_runs_drain", "Begin Adopt Save Runs Delete Sweep"},
		{
			"column", "ALTER TABLE holdfast_runs DROP COLUMN base", "column base of table holdfast_runs", "Delete Sweep",
		},
	},
	unreachable: func(t *testing.T, s store) { snapshottest.RunUnreachable(t, s.(runStore)) },

	// A run in flight and one that is over, of two sessions.
	fill: `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_runs SELECT 'bot', printf('s%04d', i), printf('r%d', i), '', 0, 1, '',
			iif(i % 5 = 0, 'waiting', 'running'), 0, 1, 'nonce-1', 0, '', NULL, 1, 1, NULL, 0, '{"step":0}'
		FROM n;
		INSERT INTO holdfast_runs SELECT orchestrator, session || 'over', id, '', 0, 1, '', 'ended', 0, 1, 'nonce-1', 0, '',
			NULL, 1, 1, 9e15, 0, NULL FROM holdfast_runs`,
	plans: map[string]string{
		"INDEXED BY holdfast_runs_inflight": "holdfast_runs_inflight (orchestrator=? AND session>?)",
		"INDEXED BY holdfast_runs_drain":    "holdfast_runs_drain (orchestrator=? AND session>?)",
		"LIMIT 1 OFFSET ?2":                 "INTEGER PRIMARY KEY (rowid>?)",
		"rowid <= ?2":                       "INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		"rowid = ?1 AND deleted_at":         "INTEGER PRIMARY KEY (rowid=?)",
		"DELETE FROM holdfast_run_parts":    "(orchestrator=? AND session=?)",
		"SELECT name, doc":                  "(orchestrator=? AND session=?)",
	},
	scans: []string{"nonce = 'raised'"},
	lists: runLists,
	sweep: sweep{
		spoil: `DELETE FROM holdfast_runs WHERE status = 'ended';
			UPDATE holdfast_runs SET payload = NULL, deleted_at =
				iif(substr(id, 2) % 5 = 0, NULL, iif(substr(id, 2) % 7 = 0, 9e15, 1))`,
		stays: func(i int) bool { return i%5 == 0 || i%7 == 0 },
		call: func(ctx context.Context, s store, limit int) (int, error) {
			return s.(runStore).Sweep(ctx, limit)
		},
		limited: true,
		left:    "SELECT count(*) FROM holdfast_runs",
	},
	// A run has parts if its row says so, and there are no other parts.
	whole: []string{
		`SELECT count(*) FROM holdfast_runs
			WHERE parts <> ((orchestrator, session) IN (SELECT orchestrator, session FROM holdfast_run_parts))`,
		`SELECT count(*) FROM holdfast_run_parts
			WHERE (orchestrator, session) NOT IN (SELECT orchestrator, session FROM holdfast_runs)`,
	},
	killed: runForever,
	check: func(t *testing.T, s store, db *sql.DB) func(string) {
		return func(last string) {
			var session string
			var step int
			if _, err := fmt.Sscan(last, &session, &step); err != nil {
				t.Fatal(err)
			}
			got := s.(runStore).there(t, db, session)
			one, two := timeless(after(session, step)), timeless(after(session, step+1))
			if got != one && got != two {
				t.Errorf("after step %d %s is in flight, want %s or %s", step, got, one, two)
			}
		}
	},
	contend: func(db *sql.DB, say func(any)) error {
		stores := []*sqlitesnapshot.Store{sqlitesnapshot.New(db, nil), sqlitesnapshot.New(db, nil)}
		return together(25, always, func(i int) error {
			return contendForRun(stores[i%len(stores)], func(e event) { say(e) })
		})
	},
	processes: runProcesses,
	torn: torn{
		n: 40, at: 20,
		write: func(ctx context.Context, s store, i int, text string) error {
			r := run(fmt.Sprintf("s%02d", i))
			r.Payload = json.RawMessage(`"` + text + `"`)
			_, err := s.(runStore).Begin(ctx, r)
			return err
		},
		check: checkTornRun,
	},
}

type runStore struct{ *sqlitesnapshot.Store }

// run returns a run of epoch 1 that is ready to begin.
func run(session string) snapshot.Run {
	return snapshot.Run{
		Key: bot(session), ID: "run-of-" + session, Attempt: 1, Status: snapshot.Running,
		Fence: fence(1), Payload: json.RawMessage(`{"step":0}`),
	}
}

// next returns the next save of the owner.
func next(r snapshot.Run) snapshot.Run {
	r.Seq++
	r.Payload = json.RawMessage(fmt.Sprintf(`{"step":%d}`, r.Seq))
	return r
}

// withPart returns a save of the owner which adds a part.
func withPart(r snapshot.Run, name string) snapshot.Run {
	r.Seq++
	r.Payload = nil
	r.Parts = map[string]json.RawMessage{name: json.RawMessage(fmt.Sprintf(`{"part":%d}`, r.Seq))}
	return r
}

func begin(t *testing.T, s snapshot.Store, session string) snapshot.Run {
	t.Helper()
	r := run(session)
	if in, err := s.Begin(t.Context(), r); in != nil || err != nil {
		t.Fatalf("Begin finds %v, %v", in, err)
	}
	return r
}

func adopt(ctx context.Context, s snapshot.Store, r snapshot.Run, f lock.Fence) error {
	_, err := s.Adopt(ctx, r.Key, f, 1<<20)
	return err
}

func (s runStore) read(ctx context.Context) error {
	return yielded(s.Runs(ctx, snapshot.Query{Key: bot("")}))
}

// timeless describes a run without the times, which the store sets.
func timeless(r *snapshot.Run) string {
	if r == nil {
		return "none"
	}
	c := *r
	c.Age, c.StartedAt, c.SavedAt = 0, time.Time{}, time.Time{}
	return fmt.Sprintf("%+v %s", c, r.Payload)
}

// there describes the session's run with its parts.
func (s runStore) there(t *testing.T, db *sql.DB, session string) string {
	t.Helper()
	var in *snapshot.Run
	for r, err := range s.Runs(t.Context(), snapshot.Query{Key: bot(session)}) {
		want(t, err, nil)
		in = &r
	}
	if in == nil {
		return timeless(nil)
	}
	rows, err := db.QueryContext(t.Context(), "SELECT name, doc FROM holdfast_run_parts WHERE session = ?", session)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, doc string
		want(t, rows.Scan(&name, &doc), nil)
		if in.Parts == nil {
			in.Parts = make(map[string]json.RawMessage)
		}
		in.Parts[name] = json.RawMessage(doc)
	}
	want(t, rows.Err(), nil)
	return timeless(in)
}

var begun atomic.Int64

func (s runStore) all(ctx context.Context) map[string]error {
	errs := make(map[string]error)
	r := withPart(run(fmt.Sprint("all", begun.Add(1))), "a")
	_, errs["Begin"] = s.Begin(ctx, r)
	errs["Adopt"] = adopt(ctx, s, r, r.Fence)
	errs["Save"] = s.Save(ctx, next(r))
	errs["Runs"] = s.read(ctx)
	errs["Delete"] = s.Delete(ctx, r.Key, r.ID, r.Fence)
	_, errs["Sweep"] = s.Sweep(ctx, 0)
	return errs
}

func (s runStore) ready(t *testing.T) []call {
	r := begin(t, s, "a")
	saved := next(r)
	return []call{
		{do: func(ctx context.Context) error { return s.Save(ctx, saved) }},
		{do: func(ctx context.Context) error { return s.Save(ctx, withPart(saved, "a")) }},
		{do: func(ctx context.Context) error { _, err := s.Begin(ctx, run("b")); return err }},
		{do: func(ctx context.Context) error { return adopt(ctx, s, r, fence(2)) }},
		{do: func(ctx context.Context) error { return s.Delete(ctx, r.Key, r.ID, fence(2)) }},
		{reads: true, do: s.read},
	}
}

func (s runStore) cut(t *testing.T, db *sql.DB, n int) cut {
	session := fmt.Sprint("s", n)
	r := begin(t, s, session)
	if n%2 == 0 {
		r = withPart(r, "a")
		want(t, s.Save(t.Context(), r), nil)
		r.Payload = run(session).Payload
	}
	saved, added, adopted := next(r), withPart(r, "b"), r
	saved.Parts = nil
	more := added
	more.Payload, more.Parts = r.Payload, maps.Clone(r.Parts)
	if more.Parts == nil {
		more.Parts = added.Parts
	}
	maps.Copy(more.Parts, added.Parts)
	adopted.Fence, adopted.Attempt = fence(2), 2
	late := run(fmt.Sprint("late", n))
	late.Parts = r.Parts
	is := func(session string, before, after *snapshot.Run, do func(ctx context.Context) error) cut {
		now := func() string { return s.there(t, db, session) }
		return cut{do, timeless(before), timeless(after), now}
	}
	calls := []cut{
		is(late.Session, nil, &late, func(ctx context.Context) error { _, err := s.Begin(ctx, late); return err }),
		is(session, &r, &saved, func(ctx context.Context) error { return s.Save(ctx, saved) }),
		is(session, &r, &more, func(ctx context.Context) error { return s.Save(ctx, added) }),
		is(session, &r, &adopted, func(ctx context.Context) error { return adopt(ctx, s, r, fence(2)) }),
		is(session, &r, nil, func(ctx context.Context) error { return s.Delete(ctx, r.Key, r.ID, r.Fence) }),
		is(session, &r, &r, s.read),
	}
	return calls[rand.N(len(calls))]
}

func runLists(t *testing.T, of store) []list {
	s := of.(runStore)
	runs := func(what string, q snapshot.Query, n, step, first int) list {
		q.Orchestrator = "bot"
		name := func(i int) string { return fmt.Sprintf("s%04d", first+i*step) }
		return list{
			what, named(s.Runs(t.Context(), q), func(r snapshot.Run) string { return r.Session }), n, name,
			func(ctx context.Context, i int) error { return adopt(ctx, s, run(name(i)), fence(2)) },
		}
	}
	return []list{
		runs("all", snapshot.Query{}, 1000, 1, 0),
		runs("some", snapshot.Query{After: "s0009", Limit: 700}, 700, 1, 10),
		runs("a page", snapshot.Query{Limit: 80}, 80, 1, 0),
		runs("one", snapshot.Query{Limit: 1}, 1, 1, 0),
		runs("waiting", snapshot.Query{Status: snapshot.Waiting}, 200, 5, 0),
	}
}

// If SQLite itself cannot read a payload, its run is damaged. The rest of the run can be read, and adopted.
func checkTornRun(t *testing.T, of store, torn torn, path string) {
	s := of.(runStore)
	var all []string
	for i := range torn.n {
		all = append(all, fmt.Sprintf("s%02d", i))
	}
	at := torn.at
	for _, c := range []struct {
		q         snapshot.Query
		want, bad []string
	}{
		{snapshot.Query{}, all, all[at : at+1]},
		{snapshot.Query{Status: snapshot.Running, After: all[5], Limit: 30}, all[6:36], all[at : at+1]},
		{snapshot.Query{Key: snapshot.Key{Session: all[at]}}, all[at : at+1], all[at : at+1]},
		{snapshot.Query{Brief: true}, all, nil},
	} {
		c.q.Orchestrator = "bot"
		seq := named(s.Runs(t.Context(), c.q), func(r snapshot.Run) string {
			if (r.Payload == nil) != c.q.Brief && r.Session != all[at] {
				t.Errorf("%+v: a run of %q with %d bytes", c.q, r.Session, len(r.Payload))
			}
			return r.Session
		})
		got, bad := damagedIn[*snapshot.DamagedError](t, seq)
		if !slices.Equal(got, c.want) || !slices.Equal(bad, c.bad) {
			t.Errorf("%+v: %q, of which damaged are %q", c.q, got, bad)
		}
	}
	for _, session := range []string{all[at-1], all[at+1]} {
		r, err := s.Adopt(t.Context(), bot(session), fence(2), 3)
		want(t, err, nil)
		want(t, s.Delete(t.Context(), r.Key, r.ID, r.Fence), nil)
	}
	// SQLite would have to read the row in order to write it. So the file has to be repaired.
	_, err := s.Adopt(t.Context(), bot(all[at]), fence(2), 3)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Adopt of what is torn: %v, want an error that names the file", err)
	}
}

// A late owner that begins between the two statements of an Adopt does not fence off the latest owner. The two wait for
// one connection. If the Adopt gets it first, the Begin is done before the second statement of the Adopt.
func TestAdoptMeetsLateBegin(t *testing.T) {
	t.Parallel()
	// These are two stores: of two calls on one store, only one would wait for the connection.
	one, db := runs.onOne(t, options{})
	latest, late := one.(runStore), runs.create(t, db, options{}).(runStore)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want(t, errors.Join(latest.read(ctx), late.read(ctx)), nil)
	for n := range 20 { // chance decides which call gets the connection first
		r := run(fmt.Sprint(n))
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waited := db.Stats().WaitCount
		var wg sync.WaitGroup
		wg.Go(func() { want(t, adopt(ctx, latest, r, fence(2)), nil) })
		wg.Go(func() {
			_, err := late.Begin(ctx, r)
			want(t, err, nil)
		})
		for db.Stats().WaitCount < waited+2 && ctx.Err() == nil {
			runtime.Gosched()
		}
		conn.Close()
		wg.Wait()
		for r, err := range latest.Runs(ctx, snapshot.Query{Key: r.Key}) {
			if err != nil || r.Fence != fence(2) {
				t.Errorf("%s is in flight, %v", timeless(&r), err)
			}
			waited = -1
		}
		if waited >= 0 {
			t.Error("no run is in flight")
		}
	}
}

const savesOfTurn = 3

// after returns the run in flight after a step of runForever: a turn begins, saves, adds parts and is deleted.
func after(session string, step int) *snapshot.Run {
	turn, seq := step/(savesOfTurn+2), step%(savesOfTurn+2)
	if seq > savesOfTurn {
		return nil
	}
	r := run(session)
	r.ID, r.Turn, r.Seq = fmt.Sprintf("%s-%d", session, turn), turn, int64(seq)
	r.Fence.Epoch += int64(turn)
	for part := 2; part <= seq; part++ {
		if r.Parts == nil {
			r.Parts = make(map[string]json.RawMessage)
		}
		r.Parts[fmt.Sprint(part)] = json.RawMessage(fmt.Sprint(turn))
	}
	return &r
}

// runForever takes one step after another, and tells each.
func runForever(db *sql.DB, say func(...any)) (err error) {
	ctx, s := context.Background(), sqlitesnapshot.New(db, nil)
	session := fmt.Sprintf("%016x", rand.Uint64())
	var last snapshot.Run
	for step := 0; err == nil; step++ {
		r := after(session, step)
		switch {
		case r == nil:
			err = s.Delete(ctx, last.Key, last.ID, last.Fence)
		case r.Seq == 0:
			_, err = s.Begin(ctx, *r)
		default:
			save := *r
			if len(r.Parts) > 0 {
				save.Payload = nil
			}
			err = s.Save(ctx, save)
		}
		if r != nil {
			last = *r
		}
		if err == nil {
			say(session, step)
		}
	}
	return err
}
