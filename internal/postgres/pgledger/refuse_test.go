package pgledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, c := range pgtest.Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.RunUnreachable(t, pgledger.New(pgtest.PoolOn(t, c.URL, c.Configure), nil))
		})
	}
}

// everyMethod returns the error of each method. The first ones write.
func everyMethod(ctx context.Context, l *pgledger.Ledger) []error {
	e := effect("run", "a", 1)
	e.Class = ledger.Pure
	_, _, issued := l.Issue(ctx, e, false)
	_, recorded := l.Record(ctx, e)
	_, finished := l.Finish(ctx, "a", 1, paid)
	_, pruned := l.Prune(ctx, time.Now())
	all := []error{issued, recorded, finished, l.Adopt(ctx, "run", fence(1)), pruned, nil}
	for _, err := range l.Effects(ctx, ledger.Query{}) {
		all[len(all)-1] = err
	}
	return all
}

// A database that cannot store every text is refused before anything is written to it.
func TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		l := create(t, pgtest.PoolOn(t, server.Database(encoding)), nil)
		for i, err := range everyMethod(t.Context(), l) {
			if !errors.Is(err, pgledger.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s, method %d: %v, want %v", encoding, i, err, pgledger.ErrEncoding)
			}
		}
	}
}

func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	l := pgledger.New(testenv.Postgres(t), &pgledger.Options{Prefix: "none_"})
	for i, err := range everyMethod(t.Context(), l) {
		if !errors.Is(err, ledger.ErrSchema) || !strings.Contains(err.Error(), "none_effects") ||
			!strings.Contains(err.Error(), "migrations.Up") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// A standby that is taken for the primary writes nothing, and says that it is a standby.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	create(t, p, nil)
	c := p.Config()
	c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	onStandby, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer onStandby.Close()
	for i, err := range everyMethod(t.Context(), pgledger.New(onStandby, nil))[:5] {
		if !errors.Is(err, ledger.ErrRefused) || !strings.Contains(err.Error(), "read-only standby") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// The schema may be run again beside readers, writers and a vacuum. It waits for none of them.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	_, p, l := private(t, nil)
	tx := begin(t, p, committed)
	// A vacuum takes this lock. A writer takes a weaker one.
	const vacuum = "LOCK TABLE holdfast_effects, holdfast_effect_fences IN SHARE UPDATE EXCLUSIVE MODE"
	if _, err := tx.Exec(t.Context(), vacuum); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, p, "SET statement_timeout = '5s'; "+l.Schema())
}
