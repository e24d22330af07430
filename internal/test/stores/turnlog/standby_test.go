package turnlog_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/turnlog"
)

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has the commit, no repeat says that an entry was recorded.
func TestPostgresStandbyStopped(t *testing.T) {
	t.Parallel()
	pgtest.StopStandbys(t, func(t *testing.T, p *pgxpool.Pool, prefix string, _ bool) pgtest.Stalled {
		l := onPostgres.On(t, p, prefix)
		record(t, l, entry("known", turnlog.Started, 0))
		changed := entry("changed", turnlog.Started, 0)
		changed.State = []byte(`"another"`)
		sees := func(run, phase string) func(t *testing.T) bool {
			sql := "SELECT EXISTS (SELECT FROM " + prefix + "phases WHERE run = $1 AND phase = $2)"
			return func(t *testing.T) bool { return pgtest.Value[bool](t, p, sql, run, phase) }
		}
		calls := func(e turnlog.Entry, want error) pgtest.Unanswered {
			return pgtest.Unanswered{
				What: e.Phase + " of " + e.Run, Landed: sees(e.Run, e.Phase), Want: want,
				Do: func(ctx context.Context) error { return l.Record(ctx, e) },
			}
		}
		return pgtest.Stalled{
			Unanswered: []pgtest.Unanswered{
				calls(entry("new", turnlog.Started, 0), nil),
				calls(entry("known", turnlog.Settled, 1), nil),
				calls(entry("changed", turnlog.Started, 0), nil),
				calls(changed, turnlog.ErrChanged),
			},
			Answered: func(t *testing.T) {
				if got := runs(t, l, turnlog.Query{Open: true}); len(got) != 2 {
					t.Errorf("open are %q", got)
				}
			},
		}
	})
}
