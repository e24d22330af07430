package pginbox_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestStore(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, func(t *testing.T) inbox.Store { return open(t) })
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	n := 0
	newStore := func(t *testing.T) inbox.Store {
		n++
		return create(t, p, &pginbox.Options{Prefix: fmt.Sprintf("i%d_", n)})
	}
	faulttest.InboxModel(t, newStore)
	faulttest.InboxHistories(t, newStore, faulttest.Histories())
}

// A role or a database may ask by default for transactions that see no change which others make meanwhile. The store
// keeps its promises there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			inboxtest.Run(t, numbered(pgtest.EmptyPool(t, pgtest.Isolation(level))))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inboxtest.Run(t, numbered(pgtest.EmptyPool(t, configure)))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { inboxtest.Run(t, numbered(p)) })
}

// The prefix may name a schema, and need quotes.
func TestStoreQualified(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	schema := pgtest.Value[string](t, p, "SELECT current_schema()")
	n := 0
	inboxtest.Run(t, func(t *testing.T) inbox.Store {
		n++
		return create(t, p, &pginbox.Options{Prefix: fmt.Sprintf("%s.My%d_", schema, n)})
	})
}

// A prefix that leaves no room for the names is a mistake of the program.
func TestPrefix(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an invalid prefix is accepted")
		}
	}()
	pginbox.New(nil, &pginbox.Options{Prefix: "a.b.c"})
}

// numbered returns a maker of stores on one pool, each with its own table.
func numbered(p *pgxpool.Pool) func(*testing.T) inbox.Store {
	n := 0
	return func(t *testing.T) inbox.Store {
		n++
		return create(t, p, &pginbox.Options{Prefix: fmt.Sprintf("i%d_", n)})
	}
}

func open(tb testing.TB, configure ...func(*pgxpool.Config)) *pginbox.Store {
	tb.Helper()
	return pginbox.New(pgtest.PoolWith(tb, pginbox.New(nil, nil).Schema(), configure...), nil)
}

func create(tb testing.TB, p *pgxpool.Pool, o *pginbox.Options) *pginbox.Store {
	tb.Helper()
	return pgtest.Create(tb, p, pginbox.New(p, o))
}

// private returns a store on a server that only this test uses.
func private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, *pginbox.Store) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	p := pgtest.PoolOn(t, server.URL)
	return server, p, create(t, p, nil)
}

func key(session string) inbox.Key { return inbox.Key{Orchestrator: "bot", Session: session} }

func item(session, id, by string) inbox.Item {
	return inbox.Item{
		Key: key(session), Kind: inbox.Answer, ID: id, By: by, Shown: "sum", Data: json.RawMessage(`{"n":1}`),
	}
}

func post(t *testing.T, s inbox.Store, all ...inbox.Item) {
	t.Helper()
	for _, it := range all {
		if first, err := s.Post(t.Context(), it); err != nil || !first {
			t.Fatalf("Post of %q: %t, %v", it.ID, first, err)
		}
	}
}

// ids returns the ids of the answers of a session, or of all if session is "".
func ids(t *testing.T, s inbox.Store, session string) (all []string) {
	t.Helper()
	for it, err := range s.Items(t.Context(), key(session), inbox.Answer) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, it.ID)
	}
	return all
}
