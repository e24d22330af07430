package pgsnapshot_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has the commit, no repeat says that a run was begun, adopted or saved.
func TestStandbyStopped(t *testing.T) {
	t.Parallel()
	pgtest.StopStandbys(t, func(t *testing.T, p *pgxpool.Pool, prefix string, functions bool) pgtest.Stalled {
		w := stalled{create(t, p, &pgsnapshot.Options{Prefix: prefix, Functions: functions}), p}
		return pgtest.Stalled{
			Unanswered: w.calls(t),
			Answered: func(t *testing.T) {
				deleted := run("deleted")
				if err := w.Delete(t.Context(), deleted.Key, deleted.ID, deleted.Fence); err != nil {
					t.Errorf("a delete, which need not survive, waits for a standby: %v", err)
				}
			},
		}
	})
}

// stalled is a store whose standbys will stop.
type stalled struct {
	*pgsnapshot.Store
	pool *pgxpool.Pool
}

// sees returns whether readers see a run that fits an SQL condition.
func (w stalled) sees(condition string) func(t *testing.T) bool {
	sql := w.Fill("SELECT EXISTS (SELECT FROM {runs} WHERE " + condition + ")")
	return func(t *testing.T) bool { return pgtest.Value[bool](t, w.pool, sql) }
}

// calls returns calls for sessions that are prepared for them.
func (w stalled) calls(t *testing.T) (calls []pgtest.Unanswered) {
	for _, session := range []string{"saved", "parted", "adopted", "spent", "deleted"} {
		if _, err := w.Begin(t.Context(), run(session)); err != nil {
			t.Fatal(err)
		}
	}
	spent := run("spent")
	if err := w.Delete(t.Context(), spent.Key, spent.ID, spent.Fence); err != nil {
		t.Fatal(err)
	}
	higher := lock.Fence{Epoch: 2, Nonce: "m"}
	parted := saving(run("parted"))
	parted.Parts = map[string]json.RawMessage{"one": json.RawMessage(`1`)}
	begin := func(r snapshot.Run) func(context.Context) error {
		return func(ctx context.Context) error { _, err := w.Begin(ctx, r); return err }
	}
	adopt := func(session string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := w.Adopt(ctx, run(session).Key, higher, 3); return err }
	}
	save := func(r snapshot.Run) func(context.Context) error {
		return func(ctx context.Context) error { return w.Save(ctx, r) }
	}
	for _, c := range []struct {
		what   string
		do     func(context.Context) error
		landed string
		want   error
	}{
		{"begin, and begin that finds its run", begin(run("new")), "session = 'new'", nil},
		{"begin that finds a run", begin(run("new")), "session = 'new' AND found > 0", nil},
		{"begin that comes too late", begin(spent), "session = 'spent'", lock.ErrFenced},
		{"save", save(saving(run("saved"))), "session = 'saved' AND seq = 1", nil},
		{"save with a part", save(parted), "session = 'parted' AND seq = 1", nil},
		{"adopt", adopt("adopted"), "session = 'adopted' AND epoch = 2", nil},
		{"adopt of no run", adopt("none"), "session = 'none' AND epoch = 2", snapshot.ErrNotFound},
	} {
		calls = append(calls, pgtest.Unanswered{What: c.what, Do: c.do, Landed: w.sees(c.landed), Want: c.want})
	}
	return calls
}
