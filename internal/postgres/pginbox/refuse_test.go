package pginbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, c := range pgtest.Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inboxtest.RunUnreachable(t, pginbox.New(pgtest.PoolOn(t, c.URL, c.Configure), nil))
		})
	}
}

// everyMethod returns the error of each method.
func everyMethod(ctx context.Context, s *pginbox.Store) []error {
	_, posted := s.Post(ctx, item("s", "q", "ada"))
	all := []error{
		posted, s.Remove(ctx, key("s"), inbox.Answer, "q"), s.Remove(ctx, key("s"), inbox.Answer),
		s.Remove(ctx, key("s"), ""),
	}
	for _, session := range []string{"s", ""} {
		all = append(all, nil)
		for _, err := range s.Items(ctx, key(session), inbox.Answer) {
			all[len(all)-1] = err
		}
	}
	return all
}

// A database that cannot store every text is refused before anything is written to it.
func TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		s := create(t, pgtest.PoolOn(t, server.Database(encoding)), nil)
		for i, err := range everyMethod(t.Context(), s) {
			if !errors.Is(err, pginbox.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s, method %d: %v, want %v", encoding, i, err, pginbox.ErrEncoding)
			}
		}
	}
}

func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	s := pginbox.New(testenv.Postgres(t), &pginbox.Options{Prefix: "none_"})
	for i, err := range everyMethod(t.Context(), s) {
		if !errors.Is(err, inbox.ErrSchema) || !strings.Contains(err.Error(), "none_inbox") ||
			!strings.Contains(err.Error(), "migrations.Up") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// A standby that is taken for the primary writes nothing, and says that it is a standby. It can be read.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	post(t, create(t, p, nil), item("s", "kept", "ada"))
	c := p.Config()
	c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	onStandby, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer onStandby.Close()
	s := pginbox.New(onStandby, nil)
	for i, err := range everyMethod(t.Context(), s)[:4] {
		if !errors.Is(err, inbox.ErrRefused) || !strings.Contains(err.Error(), "read-only standby") {
			t.Errorf("method %d: %v", i, err)
		}
	}
	if got := ids(t, s, ""); len(got) != 1 || got[0] != "kept" {
		t.Errorf("items are %q", got)
	}
}

// The schema may be run again beside readers, writers and a vacuum. It waits for none of them.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	_, p, s := private(t, nil)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	// A vacuum takes this lock. A writer takes a weaker one.
	const vacuum = "LOCK TABLE holdfast_inbox IN SHARE UPDATE EXCLUSIVE MODE"
	if _, err := tx.Exec(t.Context(), vacuum); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, p, "SET statement_timeout = '5s'; "+s.Schema())
}
