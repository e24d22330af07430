package transcript_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/transcript"
)

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has the commit, no repeat says that something was appended, copied or deleted.
func TestPostgresStandbyStopped(t *testing.T) {
	t.Parallel()
	pgtest.StopStandbys(t, func(t *testing.T, p *pgxpool.Pool, prefix string, _ bool) pgtest.Stalled {
		s := onPostgres.On(t, p, prefix)
		for _, session := range []string{"s", "trimmed", "deleted"} {
			say(t, s, session, "old", "kept")
		}
		there := func(session string, first, want int) func(t *testing.T) bool {
			sql := "SELECT count(*) FROM " + prefix + "messages WHERE session = $1 AND first = $2"
			return func(t *testing.T) bool { return pgtest.Value[int](t, p, sql, session, first) == want }
		}
		return pgtest.Stalled{
			Unanswered: []pgtest.Unanswered{
				{What: "append", Landed: there("s", 3, 1), Do: func(ctx context.Context) error {
					said, err := s.Append(ctx, key("s"), "new", messages(1))
					if err == nil && said != span(3, 3) {
						return fmt.Errorf("it has the numbers %v", said)
					}
					return err
				}},
				{What: "copy", Landed: there("t", 1, 1), Do: func(ctx context.Context) error {
					return s.Copy(ctx, key("s"), key("t"), []transcript.Span{span(1, 2)})
				}},
				{What: "trim", Landed: there("trimmed", 1, 0), Do: func(ctx context.Context) error {
					_, err := s.Trim(ctx, key("trimmed"), nil, time.Now().Add(time.Hour))
					return err
				}},
				{What: "trim of all", Landed: there("deleted", 1, 0), Do: func(ctx context.Context) error {
					_, err := s.Trim(ctx, key("deleted"), nil, time.Time{})
					return err
				}},
			},
			Answered: func(t *testing.T) {
				if got := heard(t, s, "s"); got != "old kept 0" {
					t.Errorf("messages are %q", got)
				}
			},
		}
	})
}
