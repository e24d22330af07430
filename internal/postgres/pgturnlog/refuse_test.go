package pgturnlog_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, c := range pgtest.Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turnlogtest.RunUnreachable(t, pgturnlog.New(pgtest.PoolOn(t, c.URL, c.Configure), nil))
		})
	}
}

// everyMethod returns the error of each method. The first one writes.
func everyMethod(ctx context.Context, l *pgturnlog.Log) []error {
	_, restored := l.Restore(ctx, "run")
	_, pruned := l.Prune(ctx, at(0))
	all := []error{l.Record(ctx, entry("run", turnlog.Started, 0)), restored, pruned, nil}
	for _, err := range l.Turns(ctx, turnlog.Query{}) {
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
			if !errors.Is(err, pgturnlog.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s, method %d: %v, want %v", encoding, i, err, pgturnlog.ErrEncoding)
			}
		}
	}
}

func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	l := pgturnlog.New(testenv.Postgres(t), &pgturnlog.Options{Prefix: "none_"})
	for i, err := range everyMethod(t.Context(), l) {
		if !errors.Is(err, turnlog.ErrSchema) || !strings.Contains(err.Error(), "none_phases") ||
			!strings.Contains(err.Error(), "migrations.Up") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// A standby that is taken for the primary writes nothing, and says that it is a standby. It can be read.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := create(t, p, nil)
	record(t, l, entry("run", turnlog.Started, 0), entry("run", turnlog.Settled, 1))
	c := p.Config()
	c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	onStandby, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer onStandby.Close()
	l = pgturnlog.New(onStandby, nil)
	_, pruned := l.Prune(t.Context(), at(5000))
	for i, err := range []error{l.Record(t.Context(), entry("run", turnlog.Started, 0)), pruned} {
		if !errors.Is(err, turnlog.ErrRefused) || !strings.Contains(err.Error(), "read-only standby") {
			t.Errorf("method %d: %v", i, err)
		}
	}
	all, err := l.Restore(t.Context(), "run")
	if err != nil || len(all) != 2 || len(runs(t, l, turnlog.Query{})) != 1 {
		t.Errorf("restored %v, %v", all, err)
	}
}

// The schema may be run again beside readers, writers and a vacuum. It waits for none of them.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	_, p, l := private(t, nil)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	// A vacuum takes this lock. A writer takes a weaker one.
	const vacuum = "LOCK TABLE holdfast_phases, holdfast_logged IN SHARE UPDATE EXCLUSIVE MODE"
	if _, err := tx.Exec(t.Context(), vacuum); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, p, "SET statement_timeout = '5s'; "+l.Schema())
}
