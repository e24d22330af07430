package pgcheckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// stops are ways in which a commit waits for a standby, and its wait is cut off.
var stops = map[string]struct {
	configure  func(*pgxpool.Config)
	stop, goOn func(*testenv.Replicated)
}{
	"connections are closed": {at("on"), (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending},
	"requests are cancelled": {
		func(c *pgxpool.Config) {
			c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
				return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
			}
		}, (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending,
	},
	"commits are local by default": {at("local"), (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending},
	"commits are to be applied":    {at("remote_apply"), (*testenv.Replicated).PauseReplay, (*testenv.Replicated).ResumeReplay},

	"commits are local by default" + byFunctions: {
		at("local"), (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending,
	},
	"commits are to be applied" + byFunctions: {
		at("remote_apply"), (*testenv.Replicated).PauseReplay, (*testenv.Replicated).ResumeReplay,
	},
}

// byFunctions ends the name of a stop that is tried on a store with functions.
const byFunctions = ", by functions"

// at makes a level of synchronous_commit the default, as a role or a database may.
func at(level string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = level }
}

// If a commit is cancelled while it waits for a standby, readers see it, and it is lost with the primary. As long as no
// standby has it, no repeat says that it is settled, claimed or deleted.
func TestStandbyStopped(t *testing.T) {
	t.Parallel()
	r := testenv.StartReplicated(t, true, nil)
	n := 0
	for name, c := range stops {
		n++
		o := pgcheckpoint.Options{Prefix: fmt.Sprintf("s%d_", n)}
		if strings.HasSuffix(name, byFunctions) {
			o.Functions = true
		}
		t.Run(name, func(t *testing.T) {
			w := newStalled(t, r, c.configure, o)
			w.calls()
			c.stop(r)
			for _, c := range w.unanswered {
				c.neverAnswered(t)
			}
			if err := w.Mark(t.Context(), w.marked, checkpoint.Marks{Release: true}); err != nil {
				t.Errorf("a mark, which need not survive, waits for a standby: %v", err)
			}
			lost, err := w.Renew(t.Context(), time.Hour, []checkpoint.Lease{w.renewed})
			if err != nil || len(lost) > 0 {
				t.Errorf("a renewal, which need not survive, waits for a standby: %v, %v", lost, err)
			}
			c.goOn(r)
			for _, c := range w.unanswered {
				if err := c.do(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("%s: with a standby the repeat returns %v, want %v", c.what, err, c.want)
				}
			}
		})
	}
}

// A call waits for a standby.
type call struct {
	what   string
	do     func(context.Context) error
	want   error       // of a later repeat
	landed func() bool // whether readers see its effect
}

const patience = 150 * time.Millisecond

// neverAnswered makes the call until its effect is seen, and once more. Each call waits for longer: on a busy machine a
// new connection takes its time, and after a minute the standbys connect again.
func (c call) neverAnswered(t *testing.T) {
	t.Helper()
	wait := patience
	for seen, repeated := false, false; !repeated; seen = c.landed() {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		wait *= 2
		err := c.do(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s, repeated %v: without a standby it returns %v", c.what, seen, err)
		}
		repeated = seen
	}
}

// stalled is a store whose standbys will stop, and the calls to make then.
type stalled struct {
	*pgcheckpoint.Store
	t          *testing.T
	pool       *pgxpool.Pool
	marked     checkpoint.Lease
	renewed    checkpoint.Lease
	unanswered []call
}

func newStalled(
	t *testing.T, r *testenv.Replicated, configure func(*pgxpool.Config), o pgcheckpoint.Options,
) *stalled {
	p := poolOn(t, r.URL, configure)
	w := &stalled{Store: pgcheckpoint.New(p, &o), t: t, pool: p}
	create(t, p, w.Store)
	return w
}

func (w *stalled) calls() {
	w.marked, w.renewed = claim(w.t, w, "marked").Lease, claim(w.t, w, "renewed").Lease
	w.settle("appended", "append", checkpoint.AppendOptions{}, nil)
	w.settle("appended afresh", "append afresh", checkpoint.AppendOptions{Fresh: true}, checkpoint.ErrConflict)
	w.settle("answered", "append with a request", checkpoint.AppendOptions{Release: true}, nil)
	w.settle("owing", "append that owes", checkpoint.AppendOptions{Release: true, Owes: true}, nil)
	w.claim("answered", "claim that finds the answer", "answered", lock.Fence{})
	w.claim("owing", "claim that finds a reply that is owed", "", lock.Fence{})
	w.claim("new", "first claim of a session", "", lock.Fence{})
	w.claim("owned", "claim from an owner", "", claim(w.t, w, "owned").Fence)
	l := claim(w.t, w, "deleted").Lease
	w.unanswered = append(w.unanswered, call{
		what:   "delete",
		do:     func(ctx context.Context) error { return w.Delete(ctx, l) },
		landed: func() bool { return !w.sees("{sessions} WHERE session = 'deleted'") },
	})
}

// settle adds an Append, which is repeated until it returns want.
func (w *stalled) settle(session, what string, o checkpoint.AppendOptions, want error) {
	l := claim(w.t, w, session).Lease
	cp := turn(0)
	cp.RequestID = session
	w.unanswered = append(w.unanswered, call{
		what:   what,
		do:     func(ctx context.Context) error { return w.Append(ctx, l, cp, o) },
		want:   want,
		landed: func() bool { return w.sees("{turns} WHERE session = '" + session + "'") },
	})
}

// claim adds a claim, which has to find the turn that request has opened.
func (w *stalled) claim(session, what, request string, from lock.Fence) {
	r := checkpoint.ClaimRequest{
		Owner: "test", Nonce: "of " + session, TTL: time.Hour, RequestID: request, From: from,
	}
	w.unanswered = append(w.unanswered, call{
		what: what,
		do: func(ctx context.Context) error {
			c, err := w.Claim(ctx, key(session), r)
			if err == nil && request != "" && c.Answered == nil {
				return errors.New("the claim finds no answer")
			}
			return err
		},
		landed: func() bool { return w.sees("{sessions} WHERE nonce = '" + r.Nonce + "'") },
	})
}

func (w *stalled) sees(rows string) (there bool) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), w.Fill("SELECT EXISTS (SELECT FROM "+rows+")")).Scan(&there); err != nil {
		w.t.Fatal(err)
	}
	return there
}
