package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/workflow"
)

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has the commit, no repeat and no other call tells of what it did. A claim and the reads wait for no standby.
func TestPostgresStandbyStopped(t *testing.T) {
	t.Parallel()
	pgtest.StopStandbys(t, func(t *testing.T, p *pgxpool.Pool, prefix string, _ bool) pgtest.Stalled {
		s := onPostgres.On(t, p, prefix)
		check(t, caller{t, s}.start(
			begun("r"), begun("ends"), begun("parks"), begun("over"), begun("held"), keyed("due", "k"))())
		is := func(sql string) func(t *testing.T) bool {
			return func(t *testing.T) bool {
				return pgtest.Value[bool](t, p, "SELECT EXISTS (SELECT FROM "+prefix+"workflow_"+sql+")")
			}
		}
		starts := func(what string, n workflow.NewRun) pgtest.Unanswered {
			return pgtest.Unanswered{
				What: what, Landed: is("runs WHERE id = 'new'"),
				Do: func(ctx context.Context) error {
					started, err := s.Start(ctx, []workflow.NewRun{n})
					if err == nil && (started[0].New || started[0].ID != "new") {
						err = fmt.Errorf("started %+v", started[0])
					}
					return err
				},
			}
		}
		writes := func(what, landed string, want error, e workflow.Entry) pgtest.Unanswered {
			return pgtest.Unanswered{
				What: what, Landed: is(landed), Want: want,
				Do: func(ctx context.Context) error {
					verdicts, err := s.Write(ctx, []workflow.Entry{e})
					return errors.Join(append(verdicts, err)...)
				},
			}
		}
		sends := func(what, landed string, want workflow.Receipt, m workflow.Message) pgtest.Unanswered {
			return pgtest.Unanswered{
				What: what, Landed: is(landed),
				Do: func(ctx context.Context) error {
					receipts, err := s.Send(ctx, []workflow.Message{m})
					if err == nil && receipts[0] != want {
						err = fmt.Errorf("receipt %s, want %s", receipts[0], want)
					}
					return err
				},
			}
		}
		return pgtest.Stalled{
			Unanswered: []pgtest.Unanswered{
				starts("start", keyed("new", "new")), starts("start of another with its key", keyed("x", "new")),
				writes("step", "steps WHERE run = 'r'", nil, entryOf("r", workflow.Stay, stepOf("s"))),
				writes("park", "runs WHERE id = 'parks' AND owner = ''", nil, entryOf("parks", workflow.Park)),
				writes("end", "runs WHERE id = 'ends' AND status <> 'running'", nil, entryOf("ends", workflow.End)),
				writes("step after it", "runs WHERE id = 'ends' AND status <> 'running'", workflow.ErrOver,
					entryOf("ends", workflow.Stay, stepOf("late"))),
				writes("late row", "steps WHERE run = 'ends'", nil, entryOf("ends", workflow.Record, stepOf("late"))),
				sends("signal", "signals WHERE run = 'r'", workflow.Kept, signalTo("r", "1")),
				sends("cancel", "runs WHERE status = 'cancelled'", workflow.Over, workflow.Message{
					Run: "over", Action: workflow.Cancel,
				}),
				sends("pause", "runs WHERE hold = 'paused'", workflow.Applied, workflow.Message{
					Run: "held", Action: workflow.Pause,
				}),
			},
			Answered: func(t *testing.T) {
				c := caller{t, s}
				for _, do := range []func() error{
					c.list(workflow.Query{Workflow: "w"}, 10, 7), c.steps("r", 2), c.claim(2, claimOf("b")),
					func() error { _, err := s.Counts(t.Context()); return err },
				} {
					if err := do(); err != nil {
						t.Error(err)
					}
				}
			},
		}
	})
}
