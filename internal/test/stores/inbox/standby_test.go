package inbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
)

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has the commit, no repeat says that an item was posted or removed, and nobody is told that another was first.
func TestPostgresStandbyStopped(t *testing.T) {
	t.Parallel()
	pgtest.StopStandbys(t, func(t *testing.T, p *pgxpool.Pool, prefix string, _ bool) pgtest.Stalled {
		s := onPostgres.On(t, p, prefix)
		post(t, s, item("s", "taken", "ada"), item("kind", "taken", "ada"), item("all", "taken", "ada"))
		there := func(session, id string, want bool) func(t *testing.T) bool {
			sql := "SELECT EXISTS (SELECT FROM " + prefix + "inbox WHERE session = $1 AND id = $2)"
			return func(t *testing.T) bool { return pgtest.Value[bool](t, p, sql, session, id) == want }
		}
		posts := func(id, by string, first bool) pgtest.Unanswered {
			return pgtest.Unanswered{
				What: id + " by " + by, Landed: there("s", id, true),
				Do: func(ctx context.Context) error {
					got, err := s.Post(ctx, item("s", id, by))
					if err == nil && got != first {
						return fmt.Errorf("first is %t", got)
					}
					return err
				},
			}
		}
		removes := func(session string, kind inbox.Kind, ids ...string) pgtest.Unanswered {
			return pgtest.Unanswered{
				What: "removal of " + session, Landed: there(session, "taken", false),
				Do: func(ctx context.Context) error { return s.Remove(ctx, key(session), kind, ids...) },
			}
		}
		return pgtest.Stalled{
			Unanswered: []pgtest.Unanswered{
				posts("new", "ada", true), posts("new", "bob", false),
				removes("s", inbox.Answer, "taken"), removes("kind", inbox.Answer), removes("all", ""),
			},
			Answered: func(t *testing.T) {
				if got := ids(t, s, ""); len(got) != 1 || got[0] != "new" {
					t.Errorf("items are %q", got)
				}
			},
		}
	})
}
