package workflow_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
)

// A database with FailUnknown ends as failed what it would hold as unknown. The former owner is told that the run is
// over, and nothing wakes the run. A run that is known, or that waits, goes on.
func TestFailUnknown(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) hooked{
		"postgres": func(t *testing.T) hooked {
			p := pgtest.EmptyPool(t)
			onPostgres.On(t, p, "")
			return onPool(p, pgworkflow.New(p, &pgworkflow.Options{FailUnknown: true}))
		},
		"sqlite": func(t *testing.T) hooked {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			onSQLite(t, db, "")
			return hooks(db, sqliteworkflow.New(db, &sqliteworkflow.Options{FailUnknown: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			c := caller{t, h}
			known := keyed("known", "")
			known.Version = 2
			check(t, c.start(begun("lost"), begun("waits"), begun("owned"), known)())
			parked := entryOf("lost", workflow.Park)
			parked.After = 1
			waits := entryOf("waits", workflow.Park)
			waits.Event = "e"
			check(t, c.write(nil, parked, waits)())
			check(t, h.age(t.Context(), 25*time.Hour))
			living := claimOf("p")
			living.Lease, living.Limit, living.Definitions[0].Version = 100*time.Hour, 0, 2
			check(t, c.claim(0, living)())
			check(t, c.sweep(0)())
			check(t, c.write(workflow.ErrOver, parked)())
			check(t, c.claim(0, claimOf("q"))())
			check(t, c.list(workflow.Query{Status: workflow.Running}, 10, 3)())
			r, err := workflow.NewClient(h).Get(t.Context(), "lost")
			if err != nil || r.Status != workflow.Failed || r.Error != workflow.UnknownError("w", 1) || r.Hold != "" ||
				!r.Due.IsZero() || r.Completed.IsZero() {
				t.Errorf("%+v, %v", r, err)
			}
			check(t, h.age(t.Context(), 31*24*time.Hour))
			if n, err := h.Sweep(t.Context(), 0); n != 1 || err != nil {
				t.Errorf("swept %d, %v", n, err)
			}
		})
	}
}
