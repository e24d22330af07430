package stores_test

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/transcript"
)

// A talk is sessions of one database, and what was said in them.
type talk struct {
	t  *testing.T
	db database
}

func keyOf(session string) transcript.Key {
	return transcript.Key{Orchestrator: "shop", Session: session}
}

// say appends two messages to a session, and returns the first number.
func (k talk) say(session, id string) int64 {
	k.t.Helper()
	said, err := k.db.Transcripts().Append(k.t.Context(), keyOf(session), id, []message.Message{
		message.User(id), message.Assistant(id),
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return said.From
}

// begin claims a session, settles a number of turns, and releases the session if it is not held.
func (k talk) begin(session string, turns int, o checkpoint.AppendOptions, lease time.Duration) {
	k.t.Helper()
	s := k.db.Checkpoints()
	c, err := s.Claim(k.t.Context(), keyOf(session), checkpoint.ClaimRequest{Owner: "a", Nonce: session, TTL: lease})
	for n := range turns {
		if err == nil {
			err = s.Append(k.t.Context(), c.Lease, checkpoint.Checkpoint{Turn: n, RunID: "r", State: []byte(`{}`)}, o)
		}
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

// there returns how many of the first messages of a session are there.
func (k talk) there(session string) (n int) {
	k.t.Helper()
	first := []transcript.Span{{From: 1, Through: 2}}
	for _, err := range k.db.Transcripts().Read(k.t.Context(), keyOf(session), first) {
		switch {
		case err == nil:
			n++
		case !errors.Is(err, transcript.ErrDamaged):
			k.t.Fatal(err)
		}
	}
	return n
}

// aging returns the databases that retire idle sessions.
func aging(t *testing.T) map[string]func(t *testing.T) database {
	all := databases(t)
	ages := redis.Ages{Sessions: time.Millisecond}
	all["redis"] = func(t *testing.T) database {
		_, client := redistest.Server(t, goredis.Options{})
		return redis.New(client, &redis.Options{Prefix: "bot:", Ages: ages})
	}
	all["redis cluster"] = func(t *testing.T) database {
		return redis.New(redistest.Cluster(t), &redis.Options{Ages: ages})
	}
	return all
}

// What was said in a session goes when the session is retired, and stays as long as it lives, however old it is. What a
// session has said whose turns are in another database is never touched.
func TestSaidIsRetired(t *testing.T) {
	for name, open := range aging(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := talk{t, open(t)}
			prepare(t, k.db)
			released := checkpoint.AppendOptions{Release: true}
			owes := checkpoint.AppendOptions{Release: true, Owes: true}
			for _, session := range []string{"idle", "held", "owed", "begun", "elsewhere"} {
				k.say(session, "a")
			}
			for _, id := range []string{"idle", "idle too"} {
				k.begin(id, 1, released, time.Minute)
			}
			k.begin("held", 1, checkpoint.AppendOptions{}, time.Hour)
			k.begin("owed", 1, owes, time.Minute)
			k.begin("begun", 0, checkpoint.AppendOptions{}, time.Microsecond)
			gone := 0
			if name == "postgres with functions" {
				gone = 2 // it stays there
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for retired := 0; retired < 2; { // a clock has to go on
				n, err := k.db.Sweep(ctx, 0)
				if err != nil {
					t.Fatal(err)
				}
				retired += n
			}
			for session, want := range map[string]int{
				"idle": gone, "held": 2, "owed": 2, "begun": 2, "elsewhere": 2,
			} {
				if got := k.there(session); got != want {
					t.Errorf("%d messages of session %q are there, want %d", got, session, want)
				}
			}
			if n := k.say("idle", "a"); n != 1 {
				t.Errorf("the next life begins at %d", n)
			}
		})
	}
}

// On Redis a session expires by itself, and may have begun anew when it is swept. What is said in it then stays.
func TestSaidOfNextLife(t *testing.T) {
	_, client := redistest.Server(t, goredis.Options{})
	k := talk{t, redis.New(client, &redis.Options{Ages: redis.Ages{Sessions: time.Hour}})}
	released := checkpoint.AppendOptions{Release: true}
	k.say("new", "a")
	k.say("old", "a")
	for _, session := range []string{"new", "old"} {
		k.begin(session, 1, released, time.Minute)
		if err := client.Del(t.Context(), "holdfast:{shop/"+session+"}:session").Err(); err != nil { // it has expired
			t.Fatal(err)
		}
	}
	k.say("new", "b")
	if n, err := k.db.Sweep(t.Context(), 0); n != 2 || err != nil {
		t.Fatalf("%d are swept, %v", n, err)
	}
	for _, session := range []string{"new", "old"} { // nothing was silent for an hour
		if n := k.there(session); n != 2 {
			t.Errorf("%d messages of session %q are there", n, session)
		}
	}
}

// Raise of a database raises its transcripts.
func TestRaiseOfSaid(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		prepare(t, db)
		k := talk{t, db}
		k.say("known", "a")
		if err := db.Raise(t.Context(), time.Now(), -1); err != nil {
			t.Fatal(err)
		}
		for _, session := range []string{"known", "unknown"} {
			if n := k.say(session, "b"); n < 1<<40 {
				t.Errorf("after Raise the next number of session %q is %d", session, n)
			}
		}
		if n := k.there("known"); n != 2 {
			t.Errorf("%d messages are there", n)
		}
	})
}

// saidSQL makes sessions that have settled a turn, and what was said in them. Every $2nd is idle since 1970.
const saidSQL = `
	WITH made AS (
		INSERT INTO holdfast_sessions (orchestrator, session, epoch, nonce, owner, lease_until, born, turn)
		SELECT 'shop', 's' || lpad(i::text, 8, '0'), 1, '', '', CASE WHEN i % $2 = 0 THEN 'epoch' ELSE now() END, 1, 0
		FROM generate_series(1, $1::integer) AS i RETURNING session
	), heads AS (
		INSERT INTO holdfast_transcripts (orchestrator, session, last) SELECT 'shop', session, 2 FROM made
	)
	INSERT INTO holdfast_messages (orchestrator, session, first, last, id, at, body)
	SELECT 'shop', session, n, n, 'id' || n, 'epoch', '[{"v":1,"role":"user","turn":0}]'
	FROM made, generate_series(1, 2) AS n`

// A sweep on PostgreSQL looks for what was said in the sessions that it retires, and at nothing else, also if the
// statistics say that there is hardly anything.
func TestPostgresSweepOfSaid(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Settings: map[string]string{"autovacuum": "off"}})
	pool := pgtest.PoolOn(t, server.URL)
	db := postgres.New(pool, &postgres.Options{Ages: postgres.Ages{Sessions: time.Hour}})
	prepare(t, db)
	for _, known := range []string{"nothing", "a few", "all"} {
		pgtest.Exec(t, pool, "TRUNCATE holdfast_sessions, holdfast_transcripts, holdfast_messages")
		if known == "a few" {
			pgtest.Exec(t, pool, saidSQL, 10, 5)
			pgtest.Exec(t, pool, "ANALYZE")
			pgtest.Exec(t, pool, "TRUNCATE holdfast_sessions, holdfast_transcripts, holdfast_messages")
		}
		pgtest.Exec(t, pool, saidSQL, 50_000, 500)
		if known == "all" {
			pgtest.Exec(t, pool, "ANALYZE")
		}
		pool.Reset()
		scans := func() int {
			testenv.FlushStatistics(t, pool)
			return pgtest.Value[int](t, pool, `SELECT sum(seq_scan) FROM pg_stat_user_tables
				WHERE relname IN ('holdfast_transcripts', 'holdfast_messages')`)
		}
		before, retired, start := scans(), 0, time.Now()
		for range 60 {
			n, err := db.Sweep(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			retired += n
		}
		got := scans() - before
		t.Logf("with %s known: %d retired in %v, %d scans", known, retired, time.Since(start), got)
		left := pgtest.Value[int](t, pool, "SELECT count(*) FROM holdfast_messages")
		if got > 0 || retired != 100 || left != 2*(50_000-100) {
			t.Errorf("with %s known: %d scans of a table, %d retired, %d messages left", known, got, retired, left)
		}
	}
}

// A process that has lost its session appends while the session is retired. Its entry and the others stay, and the next
// life goes on behind them.
func TestPostgresSaidMeanwhile(t *testing.T) {
	t.Parallel()
	pool := pgtest.EmptyPool(t)
	db := postgres.New(pool, &postgres.Options{Ages: postgres.Ages{Sessions: time.Hour}})
	prepare(t, db)
	pgtest.Exec(t, pool, saidSQL, 2, 1)
	tx, err := pool.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `
			WITH h AS (
				UPDATE holdfast_transcripts SET last = 3 WHERE session = 's00000001' RETURNING orchestrator, session
			)
			INSERT INTO holdfast_messages (orchestrator, session, first, last, id, at, body)
			SELECT orchestrator, session, 3, 3, 'late', now(), '[{"v":1,"role":"user","turn":0}]' FROM h`)
	}
	if err != nil {
		t.Fatal(err)
	}
	swept := make(chan error)
	go func() {
		_, err := db.Sweep(t.Context(), 0)
		swept <- err
	}()
	pgtest.AwaitBlocked(t, pool, tx)
	if err := errors.Join(tx.Commit(t.Context()), <-swept); err != nil {
		t.Fatal(err)
	}
	k := talk{t, db}
	for session, want := range map[string]int64{"s00000001": 4, "s00000002": 1} {
		if n := k.say(session, "next"); n != want {
			t.Errorf("session %s goes on with %d, want %d", session, n, want)
		}
	}
	if n := pgtest.Value[int](t, pool, "SELECT count(*) FROM holdfast_sessions"); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}
