package pginbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

const whose = " WHERE orchestrator = $1 AND session = $2 AND kind = $3 AND id = $4"

// A spoiled store damages an item by hand.
type spoiled struct {
	*pginbox.Store
	pool *pgxpool.Pool
	set  string
}

func (s spoiled) Damage(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) error {
	_, err := s.pool.Exec(ctx, "UPDATE holdfast_inbox SET "+s.set+whose, k.Orchestrator, k.Session, string(kind), id)
	return err
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"posted_by = ''", "posted_by = repeat('p', 600)", "shown = repeat('x', 600)", "at = 'infinity'", "at = '-infinity'",
		"at = '1960-01-01Z'", "at = '20000-01-01Z'",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			s := create(t, p, nil)
			inboxtest.RunDamaged(t, func(t *testing.T) inboxtest.DamagingStore {
				pgtest.Clear(t, p)
				return spoiled{s, p, set}
			})
		})
	}
}

// A torn store damages an item by taking a block of its data away.
type torn struct {
	*pginbox.Store
	pool   *pgxpool.Pool
	prefix string
}

func (s torn) Damage(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) error {
	const long = "UPDATE {inbox} SET data = to_jsonb(repeat('x', 10000))" + whose
	if _, err := s.pool.Exec(ctx, s.Fill(long), k.Orchestrator, k.Session, string(kind), id); err != nil {
		return err
	}
	return testenv.LoseChunk(ctx, s.pool, s.prefix+"inbox")
}

// An item whose data the server itself cannot read is damaged, as is an item that no store wrote.
func TestLostChunk(t *testing.T) {
	t.Parallel()
	_, p, _ := private(t, nil)
	n := 0
	inboxtest.RunDamaged(t, func(t *testing.T) inboxtest.DamagingStore {
		n++
		prefix := fmt.Sprintf("torn%d_", n)
		s := create(t, p, &pginbox.Options{Prefix: prefix})
		pgtest.Exec(t, p, s.Fill(`ALTER TABLE {inbox} ALTER COLUMN data SET STORAGE EXTERNAL`))
		return torn{s, p, prefix}
	})
}

// An item that goes while a page is read one by one is not yielded, and the pages after it are.
func TestRemovedBesideDamage(t *testing.T) {
	t.Parallel()
	_, p, _ := private(t, nil)
	s := create(t, p, &pginbox.Options{Prefix: "torn_"})
	pgtest.Exec(t, p, s.Fill(`ALTER TABLE {inbox} ALTER COLUMN data SET STORAGE EXTERNAL`))
	const n = 200
	for i := range n {
		post(t, s, item("s", fmt.Sprintf("q%03d", i), "ada"))
	}
	for _, id := range []string{"q001", "q100"} {
		if err := (torn{s, p, "torn_"}).Damage(t.Context(), key("s"), inbox.Answer, id); err != nil {
			t.Fatal(err)
		}
	}
	seen, damaged := 0, 0
	for it, err := range s.Items(t.Context(), key("s"), inbox.Answer) {
		switch {
		case errors.Is(err, inbox.ErrDamaged):
			damaged++
		case err != nil:
			t.Fatal(err)
		}
		if seen++; it.ID == "q050" {
			if err := s.Remove(t.Context(), key("s"), inbox.Answer, "q120", "q050"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if seen != n-1 || damaged != 2 {
		t.Errorf("%d items, of which %d are damaged", seen, damaged)
	}
}
