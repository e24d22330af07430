package snapshot_test

import (
	"context"
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
		s := pgOn(t, p, pgsnapshot.Options{Prefix: prefix, Functions: functions})
		return pgtest.Stalled{
			Unanswered: unanswered(t, s, func(condition string) bool { // whether readers see a run that fits it
				return pgtest.Value[bool](t, p, "SELECT EXISTS (SELECT FROM "+prefix+"runs WHERE "+condition+")")
			}),
			Answered: func(t *testing.T) {
				if err := remove(t.Context(), s, run("deleted")); err != nil {
					t.Errorf("a delete, which need not survive, waits for a standby: %v", err)
				}
			},
		}
	})
}

// unanswered returns calls for sessions that are prepared for them.
func unanswered(t *testing.T, s snapshot.Store, sees func(condition string) bool) (calls []pgtest.Unanswered) {
	for _, session := range []string{"saved", "parted", "adopted", "spent", "deleted"} {
		begin(t, s, run(session))
	}
	check(t, remove(t.Context(), s, run("spent")))
	begins := func(session string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Begin(ctx, run(session)); return err }
	}
	takes := func(session string) func(context.Context) error {
		return func(ctx context.Context) error { return take(ctx, s, session, 2) }
	}
	saves := func(r snapshot.Run) func(context.Context) error {
		return func(ctx context.Context) error { return s.Save(ctx, r) }
	}
	for _, c := range []struct {
		what   string
		do     func(context.Context) error
		landed string
		want   error
	}{
		{"begin, and begin that finds its run", begins("new"), "session = 'new'", nil},
		{"begin that finds a run", begins("new"), "session = 'new' AND found > 0", nil},
		{"begin that comes too late", begins("spent"), "session = 'spent'", lock.ErrFenced},
		{"save", saves(next(run("saved"))), "session = 'saved' AND seq = 1", nil},
		{"save with a part", saves(adding(run("parted"), "one")), "session = 'parted' AND seq = 1", nil},
		{"adopt", takes("adopted"), "session = 'adopted' AND epoch = 2", nil},
		{"adopt of no run", takes("none"), "session = 'none' AND epoch = 2", snapshot.ErrNotFound},
	} {
		landed := func(*testing.T) bool { return sees(c.landed) }
		calls = append(calls, pgtest.Unanswered{What: c.what, Do: c.do, Landed: landed, Want: c.want})
	}
	return calls
}
