package pgturnlog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// A spoiled log damages the first entry of a run by hand.
type spoiled struct {
	*pgturnlog.Log
	pool *pgxpool.Pool
	set  string
}

func (s spoiled) Damage(ctx context.Context, run string) error {
	sql := "UPDATE holdfast_phases SET " + s.set + " WHERE run = $1 AND phase = 'started'"
	_, err := s.pool.Exec(ctx, sql, run)
	return err
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"phase = ''", "phase = repeat('p', 200)", "at = at - interval '1 microsecond'", "at = '1960-01-01Z'",
		"at = 'infinity'", "at = '-infinity'",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			l := create(t, p, nil)
			turnlogtest.RunDamaged(t, func(t *testing.T) turnlogtest.DamagingLog {
				pgtest.Clear(t, p)
				return spoiled{l, p, set}
			})
		})
	}
}

// The row of a run may be damaged, or be missing, or be alone.
func TestDamagedRun(t *testing.T) {
	t.Parallel()
	for sql, c := range map[string]struct{ listed, restored bool }{
		"UPDATE {logged} SET turn = -1 WHERE run = 'b'":                     {true, true},
		"UPDATE {logged} SET session = '' WHERE run = 'b'":                  {true, true},
		"UPDATE {logged} SET first = '2000-01-01Z' WHERE run = 'b'":         {true, false},
		"UPDATE {logged} SET first = 'infinity' WHERE run = 'b'":            {true, false},
		"UPDATE {logged} SET first = '-infinity' WHERE run = 'b'":           {true, false},
		"DELETE FROM {logged} WHERE run = 'b'":                              {false, true},
		"DELETE FROM {phases} WHERE run = 'b'":                              {true, false},
		"DELETE FROM {phases} WHERE run = 'b' AND phase = 'started'":        {true, false},
		"UPDATE {logged} SET orchestrator = repeat('x', 600) WHERE run='b'": {true, true},
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			l := create(t, p, nil)
			for _, run := range []string{"a", "b", "c"} {
				record(t, l, entry(run, turnlog.Started, 0), entry(run, turnlog.LLMComplete, 1))
			}
			pgtest.Exec(t, p, l.Fill(sql))
			damaged := 0
			for s, err := range l.Turns(t.Context(), turnlog.Query{}) {
				if d, is := errors.AsType[*turnlog.DamagedError](err); is && d.ID == "b" {
					damaged++
				} else if err != nil || s.First.Run == "b" {
					t.Errorf("turn of %q: %v", s.First.Run, err)
				}
			}
			if (damaged == 1) != c.listed {
				t.Errorf("%d are listed as damaged", damaged)
			}
			for _, run := range []string{"a", "b", "c"} {
				_, err := l.Restore(t.Context(), run)
				if is := errors.Is(err, turnlog.ErrDamaged); is != (c.restored && run == "b") || err != nil && !is {
					t.Errorf("Restore of %s: %v", run, err)
				}
			}
		})
	}
}

// A page may end with a run that begins at an infinite time. The next page goes on behind it.
func TestEndlessPages(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"infinity", "-infinity"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			l := create(t, p, nil)
			const turns, damaged = 100, 20
			for i := range turns {
				record(t, l, entry(fmt.Sprintf("run%03d", i), turnlog.Started, 0))
			}
			pgtest.Exec(t, p, l.Fill("UPDATE {logged} SET first = $1::text::timestamptz WHERE run < $2"), first,
				fmt.Sprintf("run%03d", damaged))
			seen, endless := make(map[string]int), 0
			for s, err := range l.Turns(t.Context(), turnlog.Query{}) {
				if errors.Is(err, turnlog.ErrDamaged) {
					endless++
				} else if err != nil {
					t.Fatal(err)
				}
				if seen[s.First.Run]++; seen[s.First.Run] > 1 {
					t.Fatalf("%s is listed twice", s.First.Run)
				}
			}
			if len(seen) != turns || endless != damaged {
				t.Errorf("%d turns, of which %d are damaged", len(seen), endless)
			}
		})
	}
}

// A torn log damages the first entry of a run by taking a block of its state away.
type torn struct {
	*pgturnlog.Log
	pool   *pgxpool.Pool
	prefix string
}

func (s torn) Damage(ctx context.Context, run string) error {
	const long = "UPDATE {phases} SET state = to_jsonb(repeat('x', 10000)) WHERE run = $1 AND phase = 'started'"
	if _, err := s.pool.Exec(ctx, s.Fill(long), run); err != nil {
		return err
	}
	return testenv.LoseChunk(ctx, s.pool, s.prefix+"phases")
}

// An entry that the server itself cannot read is damaged, as is an entry that no log wrote.
func TestLostChunk(t *testing.T) {
	t.Parallel()
	_, p, _ := private(t, nil)
	n := 0
	newTorn := func(t *testing.T) torn {
		n++
		prefix := fmt.Sprintf("torn%d_", n)
		l := create(t, p, &pgturnlog.Options{Prefix: prefix})
		pgtest.Exec(t, p, l.Fill(`ALTER TABLE {phases} ALTER COLUMN state SET STORAGE EXTERNAL`))
		return torn{l, p, prefix}
	}
	turnlogtest.RunDamaged(t, func(t *testing.T) turnlogtest.DamagingLog { return newTorn(t) })

	l := newTorn(t)
	record(t, l, entry("run", turnlog.Started, 0))
	if err := l.Damage(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	if err := l.Record(t.Context(), entry("run", turnlog.Started, 0)); !errors.Is(err, turnlog.ErrDamaged) {
		t.Errorf("Record of the lost entry: %v, want %v", err, turnlog.ErrDamaged)
	}
}
