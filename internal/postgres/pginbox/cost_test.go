package pginbox_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// The test counts at the server what each call costs.
func TestStatements(t *testing.T) {
	t.Parallel()
	server, _, s := private(t, &testenv.Options{Count: true})
	posted := func(id, by string, want bool) func() error {
		return func() error {
			first, err := s.Post(t.Context(), item("s", id, by))
			if err == nil && first != want {
				err = fmt.Errorf("first is %t", first)
			}
			return err
		}
	}
	removed := func(kind inbox.Kind, ids ...string) func() error {
		return func() error { return s.Remove(t.Context(), key("s"), kind, ids...) }
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a store", posted("a", "ada", true), 2},
		{"an item", posted("b", "ada", true), 1},
		{"an item once more", posted("b", "ada", true), 1},
		{"an item of another", posted("b", "bob", false), 1},
		{"list of a session", func() error { ids(t, s, "s"); return nil }, 1},
		{"list of all", func() error { ids(t, s, ""); return nil }, 1},
		{"removal of one", removed(inbox.Answer, "a"), 1},
		{"removal of what is not there", removed(inbox.Answer, "a"), 1},
		{"removal of a kind", removed(inbox.Answer), 1},
		{"removal of all", removed(""), 1},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// fill posts items as the store would have posted them: ten for each session, and a wish to stop for each hundredth.
func fill(t *testing.T, p *pgxpool.Pool, s *pginbox.Store, n int) {
	t.Helper()
	pgtest.Exec(t, p, s.Fill(`
		INSERT INTO {inbox} (orchestrator, session, kind, id, posted_by, shown, at, data)
		SELECT 'bot', 's' || i / 10, 'answer', 'q' || i, 'ada', '', '2020-01-01Z'::timestamptz + i * interval '1 s', '{"n":1}'::jsonb
		FROM generate_series(0, $1::integer - 1) i
		UNION ALL SELECT 'bot', 's' || i, 'stop', 'r', 'ada', '', '2020-01-01Z', 'null'::jsonb
		FROM generate_series(0, $1::integer - 1, 10000) i`), n)
}

// What Post, Remove and a page of Items cost does not depend on how many items there are, and the list of a few items
// not on the items beside them. PostgreSQL need not have statistics.
func TestManyItems(t *testing.T) {
	t.Parallel()
	server, _, _ := private(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := pginbox.New(p, nil)
	fill(t, p, s, 50_000)
	page := func(k inbox.Key, kind inbox.Kind, most, want int) func(string) {
		return func(string) {
			n := 0
			for _, err := range s.Items(t.Context(), k, kind) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == most {
					break
				}
			}
			if n != want {
				t.Errorf("%d items, want %d", n, want)
			}
		}
	}
	for _, known := range []string{"nothing", "statistics"} {
		p.Reset() // plans are made anew
		for what, do := range map[string]func(id string){
			"post":               func(id string) { post(t, s, item("new", id+" "+known, "ada")) },
			"post of a second":   func(string) { _, _ = s.Post(t.Context(), item("s7", "q77", "bob")) },
			"items of a session": page(key("s4000"), inbox.Answer, 100, 10),
			"first page":         page(key(""), inbox.Answer, 10, 10),
			"second page":        page(key(""), inbox.Answer, 20, 20),
			"the stops":          page(key(""), inbox.Stop, 100, 5),
			"stops of a session": page(key("s4000"), inbox.Stop, 100, 0),
			"remove": func(id string) {
				if err := s.Remove(t.Context(), key("s5"), inbox.Answer, "q5"+id); err != nil {
					t.Fatal(err)
				}
			},
			"remove of all": func(id string) {
				if err := s.Remove(t.Context(), key("s6"+id), ""); err != nil {
					t.Fatal(err)
				}
			},
		} {
			do("1") // plans, and what is read of the catalog once
			before := server.Blocks()
			do("2")
			if touched := server.Blocks() - before; touched > 150 {
				t.Errorf("with %s known, %s touches %d blocks", known, what, touched)
			} else {
				t.Logf("with %s known, %s: %d blocks", known, what, touched)
			}
		}
		pgtest.Exec(t, p, "ANALYZE")
	}
}

// If the server does not wait for its disk by default, Post and Remove do. Now and then the server writes to its log
// for itself, so one round alone proves nothing.
func TestDurable(t *testing.T) {
	t.Parallel()
	_, p, s := private(t, &testenv.Options{Settings: pgtest.Lazy()})
	const rounds = 20
	lazy := make(map[string]int)
	flushed := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if pgtest.Unflushed(t, p) > 0 {
			lazy[what]++
		}
	}
	pgtest.Exec(t, p, "CREATE TABLE beside (n integer)")
	for i := range rounds {
		pgtest.Exec(t, p, "INSERT INTO beside VALUES (1)") // which is not flushed
		if pgtest.Unflushed(t, p) > 0 {
			lazy["nothing"]++
		}
		it := item("s", fmt.Sprint("q", i), "ada")
		posted := func(by string) error {
			it.By = by
			_, err := s.Post(t.Context(), it)
			return err
		}
		flushed("Post", posted("ada"))
		for _, by := range []string{"ada", "bob"} {
			pgtest.Exec(t, p, "INSERT INTO beside VALUES (1)")
			flushed("Post of what is known by "+by, posted(by))
		}
		for _, ids := range [][]string{{it.ID}, {it.ID}, nil} {
			pgtest.Exec(t, p, "INSERT INTO beside VALUES (1)")
			flushed(fmt.Sprint("Remove of ", len(ids)), s.Remove(t.Context(), it.Key, inbox.Answer, ids...))
			pgtest.Exec(t, p, "INSERT INTO beside VALUES (1)")
			flushed("Remove of all", s.Remove(t.Context(), it.Key, ""))
		}
	}
	if lazy["nothing"] < rounds/2 {
		t.Error("the server waits for the disk, or this test cannot tell")
	}
	delete(lazy, "nothing")
	for what, n := range lazy {
		if n > rounds/4 {
			t.Errorf("%s is not durable: %d times of %d", what, n, rounds)
		}
	}
}
