package pgsnapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A spoiled store damages runs by hand.
type spoiled struct {
	*pgsnapshot.Store
	pool *pgxpool.Pool
	set  string
}

func (s spoiled) Damage(ctx context.Context, k snapshot.Key) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_runs SET "+s.set+" WHERE orchestrator = $1 AND session = $2",
		k.Orchestrator, k.Session)
	return err
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"status = 'done'", "status = ''", "id = ''", "turn = -1", "attempt = -1", "seq = -1", "nonce = ''", "epoch = 0",
		"not_before = 'infinity'", "not_before = '-infinity'",
		"started_at = 'infinity'", "started_at = '-infinity'", "saved_at = 'infinity'", "saved_at = '-infinity'",
	} {
		for name, o := range byEither {
			t.Run(name+", "+set, func(t *testing.T) {
				t.Parallel()
				p := pgtest.EmptyPool(t)
				s := create(t, p, &o)
				snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore {
					pgtest.Clear(t, p)
					return spoiled{s, p, set}
				})
			})
		}
	}
}

// A torn store damages runs by taking a block of their payload away.
type torn struct {
	*pgsnapshot.Store
	pool   *pgxpool.Pool
	prefix string
}

func (s torn) Damage(ctx context.Context, k snapshot.Key) error {
	const long = "UPDATE {runs} SET payload = to_jsonb(repeat('x', 10000)) WHERE orchestrator = $1 AND session = $2"
	if _, err := s.pool.Exec(ctx, s.Fill(long), k.Orchestrator, k.Session); err != nil {
		return err
	}
	return testenv.LoseChunk(ctx, s.pool, s.prefix+"runs")
}

// tearing returns a maker of stores whose payloads and parts are out of line.
func tearing(t *testing.T, o pgsnapshot.Options) func(t *testing.T) torn {
	_, p, _ := private(t, nil)
	n := 0
	return func(t *testing.T) torn {
		n++
		prefix := fmt.Sprintf("torn%d_", n)
		o.Prefix = prefix
		s := create(t, p, &o)
		const external = `
			ALTER TABLE {runs} ALTER COLUMN payload SET STORAGE EXTERNAL;
			ALTER TABLE {run_parts} ALTER COLUMN doc SET STORAGE EXTERNAL`
		if _, err := p.Exec(t.Context(), s.Fill(external)); err != nil {
			t.Fatal(err)
		}
		return torn{s, p, prefix}
	}
}

// A run that the server itself cannot read is damaged, as is a run that no store wrote.
func TestLostChunk(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newTorn := tearing(t, o)
			snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore { return newTorn(t) })
		})
	}
}

// A run that has lost a block of a part can be adopted, to be deleted.
func TestLostPart(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			losePart(t, tearing(t, o)(t))
		})
	}
}

func losePart(t *testing.T, s torn) {
	r := run("a")
	r.Parts = map[string]json.RawMessage{"part": json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)}
	if _, err := s.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := testenv.LoseChunk(t.Context(), s.pool, s.prefix+"run_parts"); err != nil {
		t.Fatal(err)
	}
	f := lock.Fence{Epoch: 2, Nonce: "m"}
	got, err := s.Adopt(t.Context(), r.Key, f, 3)
	if damage, is := errors.AsType[*snapshot.DamagedError](err); !is || damage.Key != r.Key || got.ID != r.ID {
		t.Errorf("Adopt returns run %q, %v", got.ID, err)
	}
	if err := s.Delete(t.Context(), r.Key, got.ID, f); err != nil {
		t.Error(err)
	}
	for r, err := range s.Runs(t.Context(), snapshot.Query{Key: r.Key}) {
		t.Errorf("run %q is still in flight, %v", r.ID, err)
	}
}

func TestOutgrown(t *testing.T) {
	t.Parallel()
	snapshottest.RunOutgrown(t, func(t *testing.T) snapshottest.DamagingStore {
		p := pgtest.EmptyPool(t)
		const grown = "payload = (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(0, 400000))"
		return spoiled{create(t, p, nil), p, grown}
	})
}
