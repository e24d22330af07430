package pgtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A halt makes commits wait for a standby, in stores of several settings at once.
type halt struct {
	name       string
	stop, goOn func(*testenv.Replicated)
	settings   map[string]setting
}

// A setting says how a store waits for a standby, and how its wait is cut off.
type setting struct {
	configure func(*pgxpool.Config)
	functions bool
}

var halts = []halt{
	{
		"sending", (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending,
		map[string]setting{
			"connections are closed":                     {Commit("on"), false},
			"requests are cancelled":                     {cancelRequests, false},
			"commits are local by default":               {Commit("local"), false},
			"commits are local by default, by functions": {Commit("local"), true},
		},
	},
	{
		"replay", (*testenv.Replicated).PauseReplay, (*testenv.Replicated).ResumeReplay,
		map[string]setting{
			"commits are to be applied":               {Commit("remote_apply"), false},
			"commits are to be applied, by functions": {Commit("remote_apply"), true},
		},
	},
}

func cancelRequests(c *pgxpool.Config) {
	c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
	}
}

// A Stalled is a store on a primary whose standbys stop, and the calls to make then.
type Stalled struct {
	// Unanswered are the calls that wait for a standby, in their order.
	Unanswered []Unanswered
	// Answered makes the calls that wait for none.
	Answered func(t *testing.T)

	cut func(t *testing.T)
}

// cutSQL ends the waits for a standby of one store. A request of a client to do so is ignored if it comes before the
// server has read the statement. Then the commit waits although its client has gone.
const cutSQL = `
	SELECT pg_cancel_backend(pid) FROM pg_stat_activity
	WHERE wait_event = 'SyncRep' AND application_name = $1`

// StopStandbys prepares stores on a primary, stops its standbys and makes the calls of the stores. It checks that the
// calls wait, and what they return after the standbys go on. The stores wait at the same time.
func StopStandbys(t *testing.T, prepare func(t *testing.T, p *pgxpool.Pool, prefix string, functions bool) Stalled) {
	t.Helper()
	// However long the stores wait, a standby must not connect again.
	forever := map[string]string{"wal_receiver_timeout": "0", "wal_sender_timeout": "0"}
	r := testenv.StartReplicated(t, true, &testenv.Options{Settings: forever})
	admin := PoolOn(t, r.URL)
	for _, h := range halts {
		t.Run(h.name, func(t *testing.T) {
			stores := make(map[string]Stalled)
			for name, s := range h.settings {
				prefix := fmt.Sprintf("%s%d_", h.name, len(stores))
				named := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = prefix }
				store := prepare(t, PoolOn(t, r.URL, s.configure, named), prefix, s.functions)
				store.cut = func(t *testing.T) { Exec(t, admin, cutSQL, prefix) }
				stores[name] = store
			}
			h.stop(r)
			t.Run("stopped", func(t *testing.T) { // ends when all its parallel tests have ended
				for name, s := range stores {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						s.stopped(t)
					})
				}
			})
			h.goOn(r)
			for name, s := range stores {
				t.Run(name, s.goesOn)
			}
		})
	}
}

func (s Stalled) stopped(t *testing.T) {
	for _, u := range s.Unanswered {
		u.neverAnswered(t, s.cut)
	}
	s.Answered(t)
}

func (s Stalled) goesOn(t *testing.T) {
	for _, u := range s.Unanswered {
		u.answered(t)
	}
}

// An Unanswered is a call that waits for a standby.
type Unanswered struct {
	What string
	Do   func(context.Context) error
	// Want is the error of a repeat in the end.
	Want error
	// Landed reports whether readers see the effect of the call.
	Landed func(t *testing.T) bool
}

// patience is how long the first call waits.
const patience = 150 * time.Millisecond

// neverAnswered makes the call until its effect is seen, and once more. Each call waits for longer: on a busy machine a
// new connection takes its time.
func (u Unanswered) neverAnswered(t *testing.T, cut func(t *testing.T)) {
	t.Helper()
	wait := patience
	for seen, repeated := false, false; !repeated; seen = u.Landed(t) {
		if !seen && wait > 10*patience {
			cut(t)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		wait *= 2
		err := u.Do(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s, repeated %v: without a standby it returns %v", u.What, seen, err)
		}
		repeated = seen
	}
}

// answered repeats the call after the standby is back.
func (u Unanswered) answered(t *testing.T) {
	t.Helper()
	if err := u.Do(t.Context()); !errors.Is(err, u.Want) {
		t.Errorf("%s: with a standby the repeat returns %v, want %v", u.What, err, u.Want)
	}
}
