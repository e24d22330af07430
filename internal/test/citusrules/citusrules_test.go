package citusrules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/citusrules"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const tables = `
	CREATE TABLE heads (orchestrator text, session text, n integer, moment timestamptz, PRIMARY KEY (orchestrator, session));
	CREATE TABLE rows (orchestrator text, session text, n integer, doc jsonb, PRIMARY KEY (orchestrator, session, n));
	CREATE TABLE small (session text, n integer)`

func TestRules(t *testing.T) {
	t.Parallel()
	pool, r := recording(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	const one = " WHERE orchestrator = $1 AND session = $2"
	for _, c := range []struct {
		sql   string
		rules []string
	}{
		{"UPDATE heads SET n = n + 1, moment = greatest(moment, $3)" + one + " AND n < 5 RETURNING n + 1", nil},
		{"UPDATE heads SET n = CASE WHEN n > 1 THEN 2 ELSE n END" + one, nil},
		{"UPDATE heads SET moment = now()" + one, nil},
		{"UPDATE heads SET moment = clock_timestamp()" + one, []string{citusrules.VolatileSet}},
		{"UPDATE heads SET n = 1" + one + " AND moment < clock_timestamp()", []string{citusrules.Where}},
		{"UPDATE heads SET n = 1" + one + " AND n = (SELECT (random() * 3)::int)", []string{citusrules.Where}},
		{"UPDATE heads SET moment = moment + interval '1 day'" + one, []string{citusrules.StableColumn}},
		{"UPDATE heads SET moment = CASE WHEN n > 1 THEN now() END" + one, []string{citusrules.StableColumn}},
		{"UPDATE heads SET n = 1" + one + " RETURNING set_config('a.b', 'c', true)", []string{citusrules.Returning}},
		{"UPDATE heads SET n = 1" + one + " RETURNING now()", []string{citusrules.Returning}},
		{"UPDATE heads SET n = 1 WHERE orchestrator = $1 AND session > $2", []string{citusrules.AnySession}},
		{"UPDATE heads SET n = 1 WHERE session = $1 OR n = 1", []string{citusrules.AnySession}},
		{"UPDATE heads h SET n = 1 FROM rows r WHERE h.session = $1 AND r.n = h.n", []string{citusrules.AnySession}},
		{"DELETE FROM rows" + one + " AND n < $3", nil},
		{"DELETE FROM rows r WHERE r.session = $1 AND NOT EXISTS (SELECT FROM heads h WHERE h.session = $1)", nil},
		{
			"DELETE FROM rows r WHERE r.session = $1 AND NOT EXISTS (SELECT FROM heads h WHERE h.n = 1 AND r.n = 2)",
			[]string{citusrules.JoinShards},
		},
		{"DELETE FROM rows", []string{citusrules.AnySession}},
		{"DELETE FROM heads h USING small s WHERE h.session = $1 AND s.n = h.n", []string{citusrules.LocalTable}},
		{"INSERT INTO rows VALUES ($1, $2, $3, $4::text::jsonb)", nil},
		{"INSERT INTO heads VALUES ($1, $2, 1, clock_timestamp())", nil},
		{"INSERT INTO heads AS h VALUES ($1, $2, 1) ON CONFLICT (orchestrator, session) DO UPDATE SET n = excluded.n + h.n", nil},
		{
			"INSERT INTO heads AS h VALUES ($1, $2, 1) ON CONFLICT (orchestrator, session) DO UPDATE SET moment = now()",
			[]string{citusrules.OnConflict},
		},
		{
			"INSERT INTO heads AS h VALUES ($1, $2, 1) ON CONFLICT (orchestrator, session) DO UPDATE SET n = 1 WHERE h.moment < now()",
			[]string{citusrules.OnConflict},
		},
		{"INSERT INTO rows SELECT $1, $2, n FROM generate_series(1, 3) n", []string{citusrules.InsertSelect}},
		{"INSERT INTO rows VALUES ($1, $2, (SELECT 1))", []string{citusrules.InsertSelect}},
		{"INSERT INTO rows VALUES ($1, upper($2), 1)", []string{citusrules.AnySession}},
		{"SELECT n FROM heads" + one + " FOR UPDATE SKIP LOCKED", nil},
		{"SELECT n FROM heads WHERE orchestrator = $1 ORDER BY session LIMIT 1 FOR UPDATE", []string{citusrules.LockShards}},
		{"SELECT n, clock_timestamp() FROM heads WHERE session > $1 AND moment < clock_timestamp() ORDER BY session LIMIT 9", nil},
		{"SELECT n FROM heads WHERE session = ANY($1)", nil},
		{"SELECT n FROM heads JOIN rows USING (orchestrator, session, n) WHERE n = 1", []string{citusrules.JoinShards}},
		{
			"WITH h AS (UPDATE heads SET n = 1" + one + " RETURNING n) DELETE FROM rows" + one + " AND n < (SELECT n FROM h)",
			[]string{citusrules.WithModifies},
		},
		{"WITH s AS (UPDATE small SET n = 1 RETURNING n) SELECT n FROM s", nil},
		{"UPDATE small SET n = (random() * 9)::int", nil},
		{"SELECT pg_advisory_xact_lock(1)", []string{citusrules.Advisory}},
	} {
		want[c.sql] = c.rules
		if _, err := conn.Conn().Prepare(t.Context(), "", c.sql); err != nil {
			t.Fatal(err)
		}
	}
	conn.Release()
	found, _, err := r.Broken(t.Context(), pool, "heads", "rows")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]string)
	for _, b := range found {
		got[b.Statement] = append(got[b.Statement], b.Rule)
	}
	for sql, rules := range want {
		if !slices.Equal(got[sql], rules) {
			t.Errorf("%s\nbreaks %q, want %q", sql, got[sql], rules)
		}
	}
}

// The statements of a function are judged when they run.
func TestFunctions(t *testing.T) {
	t.Parallel()
	pool, r := recording(t)
	const function = `CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_advisory_xact_lock(1);
		UPDATE heads SET n = 1 WHERE session = 'a';
		UPDATE heads SET moment = clock_timestamp() WHERE session = 'a';
	END $$`
	for _, sql := range []string{function, "SELECT f()"} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	found, writes, err := r.Broken(t.Context(), pool, "heads", "rows")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Rule != citusrules.VolatileSet || !strings.Contains(found[0].Inside, "line 4") {
		t.Errorf("found %q", found)
	}
	if len(writes) != 1 || len(writes["f"]) != 2 || !slices.Contains(writes["f"], "3") {
		t.Errorf("what functions write is in the lines %v", writes)
	}
}

func TestPipelines(t *testing.T) {
	t.Parallel()
	pool, r := recording(t)
	for _, second := range []string{
		"UPDATE heads SET n = $1 WHERE session = 'a'", "UPDATE rows SET n = $1 WHERE session = 'a'",
	} {
		var b pgx.Batch
		b.Queue("UPDATE heads SET n = $1 WHERE session = 'a'", 1)
		b.Queue(second, 2)
		if err := pool.SendBatch(t.Context(), &b).Close(); err != nil {
			t.Fatal(err)
		}
	}
	found, _, err := r.Broken(t.Context(), pool, "heads", "rows")
	if err != nil || len(found) != 1 || found[0].Rule != citusrules.Pipeline {
		t.Errorf("found %q, %v", found, err)
	}
}

// recording returns a pool with tables whose statements are recorded.
func recording(t *testing.T) (*pgxpool.Pool, *citusrules.Recorder) {
	t.Helper()
	config, err := pgxpool.ParseConfig(testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	r := citusrules.Record(config)
	config.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), tables); err != nil {
		t.Fatal(err)
	}
	return pool, r
}
