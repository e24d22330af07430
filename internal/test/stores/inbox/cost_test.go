package inbox_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// The test counts at the server what each call costs.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, _, s := onPostgres.Private(t, &testenv.Options{Count: true})
	posted := func(id, by string, want bool) func() error {
		return func() error {
			first, err := s.Post(t.Context(), item("s", id, by))
			if err == nil && first != want {
				err = fmt.Errorf("first is %t", first)
			}
			return err
		}
	}
	listed := func(session string) func() error {
		return func() error { _, err := list(t.Context(), s, session); return err }
	}
	removed := func(kind inbox.Kind, ids ...string) func() error {
		return func() error { return s.Remove(t.Context(), key("s"), kind, ids...) }
	}
	cost := pgtest.Costs(t, server)
	cost("first call of a store", 2, posted("a", "ada", true))
	cost("an item", 1, posted("b", "ada", true))
	cost("an item once more", 1, posted("b", "ada", true))
	cost("an item of another", 1, posted("b", "bob", false))
	cost("list of a session", 1, listed("s"))
	cost("list of all", 1, listed(""))
	cost("removal of one", 1, removed(inbox.Answer, "a"))
	cost("removal of what is not there", 1, removed(inbox.Answer, "a"))
	cost("removal of a kind", 1, removed(inbox.Answer))
	cost("removal of all", 1, removed(""))
}

// What Post, Remove and a page of Items cost does not depend on how many items there are, and the list of a few items
// not on the items beside them. PostgreSQL need not have statistics.
func TestPostgresManyItems(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := onPostgres.On(t, p, "")
	// As the store would have posted them: ten for each session, and some wishes to stop.
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_inbox (orchestrator, session, kind, id, posted_by, shown, at, data)
		SELECT 'bot', 's' || i / 10, 'answer', 'q' || i, 'ada', '', '2020-01-01Z'::timestamptz + i * interval '1 s', '{"n":1}'::jsonb
		FROM generate_series(0, 49999) i
		UNION ALL SELECT 'bot', 's' || i, 'stop', 'r', 'ada', '', '2020-01-01Z', 'null'::jsonb
		FROM generate_series(0, 49999, 10000) i`)
	page := func(k inbox.Key, kind inbox.Kind, most, want int) func(int) {
		return func(int) {
			n := 0
			for _, err := range s.Items(t.Context(), k, kind) {
				check(t, err)
				if n++; n == most {
					break
				}
			}
			if n != want {
				t.Errorf("%d items, want %d", n, want)
			}
		}
	}
	pgtest.Blocks(t, server, p, 150, func(known string) map[string]func(n int) {
		return map[string]func(n int){
			"post":               func(n int) { post(t, s, item("new", fmt.Sprint(n, known), "ada")) },
			"post of a second":   func(int) { _, _ = s.Post(t.Context(), item("s7", "q77", "bob")) },
			"items of a session": page(key("s4000"), inbox.Answer, 100, 10),
			"first page":         page(key(""), inbox.Answer, 10, 10),
			"second page":        page(key(""), inbox.Answer, 20, 20),
			"the stops":          page(key(""), inbox.Stop, 100, 5),
			"stops of a session": page(key("s4000"), inbox.Stop, 100, 0),
			"remove": func(n int) {
				check(t, s.Remove(t.Context(), key("s5"), inbox.Answer, fmt.Sprint("q5", n+1)))
			},
			"remove of all": func(n int) { check(t, s.Remove(t.Context(), key(fmt.Sprint("s6", n+1)), "")) },
		}
	})
}

// If the server does not wait for its disk by default, Post and Remove do.
func TestPostgresDurable(t *testing.T) {
	t.Parallel()
	_, p, s := onPostgres.Private(t, &testenv.Options{Settings: pgtest.Lazy()})
	pgtest.Durable(t, p, func(n int, call func(what string, do func() error)) {
		it := item("s", fmt.Sprint("q", n), "ada")
		posted := func(by string) func() error {
			return func() error {
				it.By = by
				_, err := s.Post(t.Context(), it)
				return err
			}
		}
		call("Post", posted("ada"))
		for _, by := range []string{"ada", "bob"} {
			call("Post of what is known by "+by, posted(by))
		}
		for _, ids := range [][]string{{it.ID}, {it.ID}, nil} {
			call(fmt.Sprint("Remove of ", len(ids)), func() error {
				return s.Remove(t.Context(), it.Key, inbox.Answer, ids...)
			})
			call("Remove of all", func() error { return s.Remove(t.Context(), it.Key, "") })
		}
	})
}
