package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/lock"
)

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has it, no repeat says that it is settled, claimed or deleted.
func TestPostgresStandbyStopped(t *testing.T) {
	t.Parallel()
	pgtest.StopStandbys(t, func(t *testing.T, p *pgxpool.Pool, prefix string, functions bool) pgtest.Stalled {
		w := &stalled{pg: pgOn(t, p, pgcheckpoint.Options{Prefix: prefix, Functions: functions}), t: t}
		w.calls()
		return pgtest.Stalled{Unanswered: w.unanswered, Answered: w.answered}
	})
}

// stalled is a store whose standbys will stop, and the calls to make then.
type stalled struct {
	pg
	t          *testing.T // prepares the calls
	marked     checkpoint.Lease
	renewed    checkpoint.Lease
	unanswered []pgtest.Unanswered
}

func (w *stalled) answered(t *testing.T) {
	if err := w.Mark(t.Context(), w.marked, release); err != nil {
		t.Errorf("a mark, which need not survive, waits for a standby: %v", err)
	}
	lost, err := w.Renew(t.Context(), time.Hour, []checkpoint.Lease{w.renewed})
	if err != nil || len(lost) > 0 {
		t.Errorf("a renewal, which need not survive, waits for a standby: %v, %v", lost, err)
	}
}

func (w *stalled) calls() {
	w.marked, w.renewed = claim(w.t, w, "marked").Lease, claim(w.t, w, "renewed").Lease
	w.settle("appended", "append", none, nil)
	w.settle("appended afresh", "append afresh", checkpoint.AppendOptions{Fresh: true}, checkpoint.ErrConflict)
	w.settle("answered", "append with a request", checkpoint.AppendOptions{Release: true}, nil)
	w.settle("owing", "append that owes", checkpoint.AppendOptions{Release: true, Owes: true}, nil)
	w.claim("answered", "claim that finds the answer", "answered", lock.Fence{})
	w.claim("owing", "claim that finds a reply that is owed", "", lock.Fence{})
	w.claim("new", "first claim of a session", "", lock.Fence{})
	w.claim("owned", "claim from an owner", "", claim(w.t, w, "owned").Fence)
	l := claim(w.t, w, "deleted").Lease
	w.unanswered = append(w.unanswered, pgtest.Unanswered{
		What:   "delete",
		Do:     func(ctx context.Context) error { return w.Delete(ctx, l) },
		Landed: func(t *testing.T) bool { return !w.sees(t, "{sessions} WHERE session = 'deleted'") },
	})
}

// settle adds an Append, which is repeated until it returns want.
func (w *stalled) settle(session, what string, o checkpoint.AppendOptions, want error) {
	l := claim(w.t, w, session).Lease
	cp := turn(0)
	cp.RequestID = session
	w.unanswered = append(w.unanswered, pgtest.Unanswered{
		What:   what,
		Do:     func(ctx context.Context) error { return w.Append(ctx, l, cp, o) },
		Want:   want,
		Landed: func(t *testing.T) bool { return w.sees(t, "{turns} WHERE session = '"+session+"'") },
	})
}

// claim adds a claim, which has to find the turn that request has opened.
func (w *stalled) claim(session, what, request string, from lock.Fence) {
	r := checkpoint.ClaimRequest{
		Owner: "test", Nonce: "of " + session, TTL: time.Hour, RequestID: request, From: from,
	}
	w.unanswered = append(w.unanswered, pgtest.Unanswered{
		What: what,
		Do: func(ctx context.Context) error {
			c, err := w.Claim(ctx, key(session), r)
			if err == nil && request != "" && c.Answered == nil {
				return errors.New("the claim finds no answer")
			}
			return err
		},
		Landed: func(t *testing.T) bool { return w.sees(t, "{sessions} WHERE nonce = '"+r.Nonce+"'") },
	})
}

func (w *stalled) sees(t *testing.T, rows string) bool {
	t.Helper()
	return pgtest.Value[bool](t, w.pool, w.Fill("SELECT EXISTS (SELECT FROM "+rows+")"))
}
