package pgtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/pgtext"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A Kind is a kind of store on PostgreSQL. Its methods are tests that do not depend on what the store keeps.
type Kind[S any] struct {
	// New returns a store. "" is the default prefix.
	New func(db DB, prefix string) S

	// Suite and Violations are those of the contract.
	Suite      func(t *testing.T, newStore func(t *testing.T) S)
	Violations suite.Violations[S]

	// Fill leaves something to read and to remove. Read returns what there is.
	Fill func(t *testing.T, s S)
	Read func(t *testing.T, s S) string

	// Calls calls every method and returns the errors by name. Writes are the names of the calls that write.
	Calls  func(ctx context.Context, s S) map[string]error
	Writes []string

	// Tables are the ends of the names of the tables.
	Tables []string

	// These are errors of the contract.
	Schema, Refused error
}

// Open returns a store with a schema of its own.
func (k Kind[S]) Open(t *testing.T) S {
	t.Helper()
	return k.On(t, EmptyPool(t), "")
}

// On creates the tables of a store on p, and returns the store.
func (k Kind[S]) On(tb testing.TB, p *pgxpool.Pool, prefix string) S {
	tb.Helper()
	return k.create(tb, p, k.New(p, prefix))
}

// Private returns a store on a server that only this test uses.
func (k Kind[S]) Private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, S) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	p := PoolOn(t, server.URL)
	return server, p, k.On(t, p, "")
}

func (k Kind[S]) create(tb testing.TB, p *pgxpool.Pool, s S) S {
	tb.Helper()
	Exec(tb, p, schema(s))
	return s
}

func schema(s any) string { return s.(interface{ Schema() string }).Schema() }

// Numbered returns a maker of stores on one pool, each with tables of its own.
func (k Kind[S]) Numbered(p *pgxpool.Pool) func(t *testing.T) S { return k.named(p, "s%d_") }

func (k Kind[S]) named(p *pgxpool.Pool, prefix string) func(t *testing.T) S {
	n := 0
	return func(t *testing.T) S {
		n++
		return k.On(t, p, fmt.Sprintf(prefix, n))
	}
}

// TestIsolation shows that a store keeps its promises where a role or a database asks by default for transactions that
// see no change which others make meanwhile.
func (k Kind[S]) TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			k.Suite(t, k.Numbered(EmptyPool(t, Isolation(level))))
		})
	}
}

// TestBehind runs the suite on pools as people configure them for a pooler in front of a server.
func (k Kind[S]) TestBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k.Suite(t, k.Numbered(EmptyPool(t, configure)))
		})
	}
}

// TestPgBouncer runs the suite behind PgBouncer in transaction mode.
func (k Kind[S]) TestPgBouncer(t *testing.T) {
	t.Parallel()
	PgBouncer(t, func(p *pgxpool.Pool) { k.Suite(t, k.Numbered(p)) })
}

// TestQualified runs the suite with prefixes that name a schema, and need quotes.
func (k Kind[S]) TestQualified(t *testing.T) {
	t.Parallel()
	p := EmptyPool(t)
	k.Suite(t, k.named(p, Value[string](t, p, "SELECT current_schema()")+".My%d_"))
}

// TestPrefix shows that a prefix which cannot begin the names of tables is a mistake of the program.
func (k Kind[S]) TestPrefix(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an invalid prefix is accepted")
		}
	}()
	k.New(nil, "a.b.c")
}

// TestUnreachable checks a store on each server that cannot be reached.
func (k Kind[S]) TestUnreachable(t *testing.T, check func(t *testing.T, s S)) {
	for name, c := range Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, k.New(PoolOn(t, c.URL, c.Configure), ""))
		})
	}
}

// WantRefused checks that every call is refused.
func (k Kind[S]) WantRefused(t *testing.T, s S) {
	t.Helper()
	k.wantAll(t, s, k.Refused)
}

// wantAll checks that every call returns an error that is target and has the texts.
func (k Kind[S]) wantAll(t *testing.T, s S, target error, texts ...string) {
	t.Helper()
	for call, err := range k.Calls(t.Context(), s) {
		if !errors.Is(err, target) || !says(err, texts...) {
			t.Errorf("%s: %v, want %v and %q", call, err, target, texts)
		}
	}
}

func says(err error, texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(err.Error(), text) })
}

// TestEncoding shows that a database which cannot store every text is refused before anything is written to it.
func (k Kind[S]) TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		s := k.On(t, PoolOn(t, server.Database(encoding)), "")
		k.wantAll(t, s, pgtext.ErrEncoding, encoding+", which")
	}
}

// TestSchemaMissing shows that an error names the tables that are missing, and the remedy.
func (k Kind[S]) TestSchemaMissing(t *testing.T) {
	t.Parallel()
	k.wantAll(t, k.New(testenv.Postgres(t), "none_"), k.Schema, "none_"+k.Tables[0], "migrations.Up")
}

// TestReadOnly shows that a standby which is taken for the primary writes nothing, and says that it is a standby. It
// can be read.
func (k Kind[S]) TestReadOnly(t *testing.T) {
	t.Parallel()
	p := EmptyPool(t)
	s := k.On(t, p, "")
	k.Fill(t, s)
	standby := k.New(PoolOn(t, p.Config().ConnString(), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}), "")
	for call, err := range k.Calls(t.Context(), standby) {
		switch writes := slices.Contains(k.Writes, call); {
		case writes && (!errors.Is(err, k.Refused) || !says(err, "read-only standby")), !writes && err != nil:
			t.Errorf("%s: %v", call, err)
		}
	}
	if got, want := k.Read(t, standby), k.Read(t, s); got != want || got == "" {
		t.Errorf("the standby has %q, want %q", got, want)
	}
}

// TestSchemaAgain shows that the schema may be run again beside readers, writers and a vacuum. It waits for none of
// them.
func (k Kind[S]) TestSchemaAgain(t *testing.T) {
	t.Parallel()
	p := EmptyPool(t)
	s := k.On(t, p, "")
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	// A vacuum takes this lock. A writer takes a weaker one.
	for _, table := range k.Tables {
		if _, err := tx.Exec(t.Context(), "LOCK TABLE holdfast_"+table+" IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	Exec(t, p, "SET statement_timeout = '5s'; "+schema(s))
}
