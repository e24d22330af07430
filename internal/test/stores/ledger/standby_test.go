package ledger_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/ledger"
)

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has the commit, no repeat says that an effect was issued, finished or recorded, or a run adopted.
func TestStandbyStopped(t *testing.T) {
	t.Parallel()
	pgtest.StopStandbys(t, func(t *testing.T, p *pgxpool.Pool, prefix string, _ bool) pgtest.Stalled {
		w := stalled{onPostgres.On(t, p, prefix), p, prefix}
		return pgtest.Stalled{Unanswered: w.calls(t), Answered: func(*testing.T) {}}
	})
}

// stalled is a ledger whose standbys will stop.
type stalled struct {
	ledger.Ledger
	pool   *pgxpool.Pool
	prefix string
}

// sees returns whether readers see a row that fits an SQL condition.
func (w stalled) sees(from string) func(t *testing.T) bool {
	sql := named(w.prefix, "SELECT EXISTS (SELECT FROM "+from+")")
	return func(t *testing.T) bool { return pgtest.Value[bool](t, w.pool, sql) }
}

// calls returns calls about effects that are prepared for them.
func (w stalled) calls(t *testing.T) (calls []pgtest.Unanswered) {
	for _, id := range []string{"finished", "answered", "repeated", "adopted"} {
		issue(t, w, effect("run of "+id, id, 1))
	}
	issued := func(e ledger.Effect, again bool) func(context.Context) error {
		return func(ctx context.Context) error { _, _, err := w.Issue(ctx, e, again); return err }
	}
	finished := func(id string, o ledger.Outcome) func(context.Context) error {
		return func(ctx context.Context) error { _, err := w.Finish(ctx, id, 1, o); return err }
	}
	pure := effect("run of pure", "pure", 1)
	pure.Class, pure.Result = ledger.Pure, paid.Result
	skip := ledger.Outcome{State: ledger.Skipped, By: "Ann", Sure: true}
	for _, c := range []struct {
		what   string
		do     func(context.Context) error
		landed string
		want   error
	}{
		{"issue", issued(effect("new", "new", 1), false), "{effects} WHERE id = 'new'", nil},
		{"issue again", issued(effect("run of repeated", "repeated", 1), true), "{effects} WHERE id = 'repeated'", nil},
		{"finish", finished("finished", paid), "{effects} WHERE id = 'finished' AND state = 'completed'", nil},
		{"answer", finished("answered", skip), "{effects} WHERE id = 'answered' AND state = 'skipped'", ledger.ErrAnswered},
		{"record", func(ctx context.Context) error { _, err := w.Record(ctx, pure); return err }, "{effects} WHERE id = 'pure'", nil},
		{
			"adopt", func(ctx context.Context) error { return w.Adopt(ctx, "run of adopted", fence(2)) },
			"{effects} WHERE id = 'adopted' AND state = 'unknown'", nil,
		},
		{
			"adopt of a run without effects", func(ctx context.Context) error { return w.Adopt(ctx, "none", fence(2)) },
			"{effect_fences} WHERE run_id = 'none'", nil,
		},
	} {
		calls = append(calls, pgtest.Unanswered{What: c.what, Do: c.do, Landed: w.sees(c.landed), Want: c.want})
	}
	return calls
}
