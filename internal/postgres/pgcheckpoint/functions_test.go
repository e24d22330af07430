package pgcheckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

var withFunctions = pgcheckpoint.Options{Functions: true}

// A store that calls functions keeps every promise of a store that sends statements. TestCitus runs the suites with the
// defaults.
func TestFunctions(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "f"
			p := pgtest.EmptyPool(t, func(c *pgxpool.Config) {
				configure(c)
				// If the prefix names the schema, the functions name it too.
				if params := c.ConnConfig.RuntimeParams; c.MaxConns == 1 {
					prefix, params["search_path"] = params["search_path"]+".My_", "pg_catalog"
				}
			})
			checkpointtest.Run(t, numberedWith(p, prefix, withFunctions))
		})
	}
}

func TestFunctionsUnderFaults(t *testing.T) {
	newStore := func(t *testing.T) checkpoint.Store { return openFunctions(t, 0) }
	faulttest.CheckpointModel(t, newStore)
	faulttest.CheckpointSweepModel(t, func(t *testing.T, ttl time.Duration) checkpoint.Store {
		return openFunctions(t, ttl)
	})
	faulttest.CheckpointHistories(t, newStore, faulttest.Histories())
	faulttest.RenewUnderLoad(t, newStore, 200)
}

// A mixed store acts as two processes: one calls functions, and the other sends statements.
type mixed struct {
	checkpoint.Store
	other checkpoint.Store
}

func (m mixed) either() checkpoint.Store { return []checkpoint.Store{m.Store, m.other}[rand.IntN(2)] }

func (m mixed) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	return m.either().Claim(ctx, k, r)
}

func (m mixed) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return m.either().Append(ctx, l, cp, o)
}

func (m mixed) Mark(ctx context.Context, l checkpoint.Lease, marks checkpoint.Marks) error {
	return m.either().Mark(ctx, l, marks)
}

func (m mixed) Renew(ctx context.Context, ttl time.Duration, l []checkpoint.Lease) ([]checkpoint.Lease, error) {
	return m.either().Renew(ctx, ttl, l)
}

func (m mixed) Delete(ctx context.Context, l checkpoint.Lease) error {
	return m.either().Delete(ctx, l)
}

// Processes with and without functions may serve the same sessions, as while the option is rolled out.
func TestFunctionsBesideStatements(t *testing.T) {
	faulttest.CheckpointHistories(t, func(t *testing.T) checkpoint.Store {
		p := testenv.Postgres(t)
		s := pgcheckpoint.New(p, &withFunctions)
		create(t, p, s)
		return mixed{s, pgcheckpoint.New(p, nil)}
	}, faulttest.Histories())
}

// No lock separates births from deletes. Suppose that a claim waits for another, and that the session is taken over and
// deleted meanwhile. The claim must not begin the next life with an epoch of an earlier one.
func TestFunctionsBirthAfterDelete(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	s := pgcheckpoint.New(p, &withFunctions)
	create(t, p, s)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	claim := func(from lock.Fence, nonce string) (f lock.Fence) {
		t.Helper()
		err := tx.QueryRow(t.Context(), s.Fill(
			`SELECT epoch, nonce FROM {session_claim}('bot', 'a', $1, 'test', 1000000, $2, $3, 0, '', false)`),
			nonce, from.Epoch, from.Nonce).Scan(&f.Epoch, &f.Nonce)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := claim(lock.Fence{}, "first")
	born := make(chan checkpoint.Claimed, 1)
	go func() {
		defer close(born)
		c, err := s.Claim(t.Context(), key("a"), request())
		if err != nil {
			t.Error(err)
		}
		born <- c
	}()
	pgtest.AwaitBlocked(t, p, tx)
	second := claim(first, "second")
	var deleted bool
	err = tx.QueryRow(t.Context(), s.Fill(`SELECT {session_delete}('bot', 'a', $1, $2)`), second.Epoch, second.Nonce).
		Scan(&deleted)
	if err != nil || !deleted {
		t.Fatalf("deleted: %v, %v", deleted, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := <-born; c.Fence.Epoch <= second.Epoch || c.Born != c.Fence.Epoch {
		t.Errorf("born %d with epoch %d, after a life with epoch %d", c.Born, c.Fence.Epoch, second.Epoch)
	}
}

// A function keeps the plans that it has made while there were few rows. If the server knows nothing of the tables,
// these plans must serve a long session too.
func TestFunctionsWithoutStatistics(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection) // its connection keeps its plans
	s := pgcheckpoint.New(p, &withFunctions)
	create(t, p, s)
	asked := 0
	settle := func(session string, turns int) {
		for range turns {
			asked++
			r := request()
			r.RequestID = fmt.Sprint(asked)
			c, err := s.Claim(t.Context(), key(session), r)
			if err != nil {
				t.Fatal(err)
			}
			cp := turn(0)
			if c.Last != nil {
				cp = turn(c.Last.Turn + 1)
			}
			cp.RequestID = r.RequestID
			err = s.Append(t.Context(), c.Lease, cp, checkpoint.AppendOptions{Keep: 200, Release: true})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	blocks := func() (n int) {
		testenv.FlushStatistics(t, p)
		const sql = "SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int " +
			"FROM pg_statio_user_tables"
		if err := p.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 10 {
		settle(fmt.Sprintf("s%d", i), 20)
	}
	settle("long", 250)
	for _, known := range []string{"nothing", "statistics"} {
		before := blocks()
		settle("long", 50)
		if got := (blocks() - before) / 50; got > 40 {
			t.Errorf("with %s known a turn touches %d blocks of the tables", known, got)
		}
		pgtest.Exec(t, p, "ANALYZE")
	}
}

// If the database lacks the functions, or the tables, the error says so and names the remedy.
func TestFunctionsMissing(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	create(t, p, pgcheckpoint.New(p, &pgcheckpoint.Options{Prefix: "gone_", Functions: true}))
	pgtest.Exec(t, p, "DROP TABLE gone_sessions, gone_turns")
	for _, prefix := range []string{"holdfast_", "gone_", "no_such_schema.holdfast_"} {
		s := pgcheckpoint.New(p, &pgcheckpoint.Options{Prefix: prefix, Functions: true})
		l := checkpoint.Lease{Key: key("a"), Fence: lock.Fence{Epoch: 1, Nonce: "n"}}
		_, claimed := s.Claim(t.Context(), key("a"), request())
		_, renewed := s.Renew(t.Context(), time.Hour, []checkpoint.Lease{l})
		for i, err := range []error{
			claimed, renewed, s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}),
			s.Mark(t.Context(), l, checkpoint.Marks{Summarized: 1}), s.Delete(t.Context(), l),
		} {
			if !errors.Is(err, checkpoint.ErrSchema) || !strings.Contains(err.Error(), prefix+"session_claim_1") ||
				!strings.Contains(err.Error(), "Options.Functions") {
				t.Errorf("%s, method %d: %v", prefix, i, err)
			}
		}
	}
}

func openFunctions(t *testing.T, ttl time.Duration) *pgcheckpoint.Store {
	t.Helper()
	p := testenv.Postgres(t)
	s := pgcheckpoint.New(p, &pgcheckpoint.Options{TTL: ttl, Functions: true})
	create(t, p, s)
	return s
}

// Statements and functions end the same owners, also if they are more than a page.
func TestRaise(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkpointtest.RunRaiser(t, func(t *testing.T) checkpointtest.RaisingStore { return open(t, &o) })
			p := testenv.Postgres(t)
			s := pgcheckpoint.New(p, &o)
			create(t, p, s)
			pgtest.Exec(t, p, headsSQL, 1, 1_500, 0) // more than a page, all without an owner
			pgtest.Exec(t, p, "UPDATE holdfast_sessions SET nonce = 'n', lease_until = now() + interval '1 hour'")
			l := claim(t, s, "a").Lease
			if n, err := s.Raise(t.Context(), time.Time{}); n != 1_501 || err != nil {
				t.Fatalf("ended %d leases, %v", n, err)
			}
			if err := s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}); !errors.Is(err, lock.ErrFenced) {
				t.Errorf("the former owner settles: %v", err)
			}
			for _, session := range []string{"a", "s00000001", "s00001500"} {
				c, err := s.Claim(t.Context(), key(session), request())
				if err != nil || c.Fence.Epoch <= l.Fence.Epoch {
					t.Errorf("%s is claimed with epoch %d after %d, %v", session, c.Fence.Epoch, l.Fence.Epoch, err)
				}
			}
			if n, err := s.Raise(t.Context(), time.Time{}); n != 3 || err != nil {
				t.Errorf("once more ended %d leases, %v", n, err)
			}
		})
	}
}
