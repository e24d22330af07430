package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A Stop is a way in which a commit waits for a standby, and its wait is cut off.
type Stop struct {
	Configure  func(*pgxpool.Config)
	Stop, GoOn func(*testenv.Replicated)
	Functions  bool // tried on a store with functions
}

// Stops are the ways by name.
var Stops = map[string]Stop{
	"connections are closed": {Commit("on"), (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending, false},
	"requests are cancelled": {
		func(c *pgxpool.Config) {
			c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
				return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
			}
		}, (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending, false,
	},
	"commits are local by default": {
		Commit("local"), (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending, false,
	},
	"commits are to be applied": {
		Commit("remote_apply"), (*testenv.Replicated).PauseReplay, (*testenv.Replicated).ResumeReplay, false,
	},
	"commits are local by default, by functions": {
		Commit("local"), (*testenv.Replicated).StopSending, (*testenv.Replicated).ContinueSending, true,
	},
	"commits are to be applied, by functions": {
		Commit("remote_apply"), (*testenv.Replicated).PauseReplay, (*testenv.Replicated).ResumeReplay, true,
	},
}

// An Unanswered is a call that waits for a standby.
type Unanswered struct {
	What string
	Do   func(context.Context) error
	// Want is the error of a repeat in the end.
	Want error
	// Landed reports whether readers see the effect of the call.
	Landed func() bool
}

// patience is how long the first call waits.
const patience = 150 * time.Millisecond

// NeverAnswered makes the call until its effect is seen, and once more. Each call waits for longer: on a busy machine a
// new connection takes its time, and after a minute the standbys connect again.
func (u Unanswered) NeverAnswered(t *testing.T) {
	t.Helper()
	wait := patience
	for seen, repeated := false, false; !repeated; seen = u.Landed() {
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

// Answered repeats the call after the standby is back.
func (u Unanswered) Answered(t *testing.T) {
	t.Helper()
	if err := u.Do(t.Context()); !errors.Is(err, u.Want) {
		t.Errorf("%s: with a standby the repeat returns %v, want %v", u.What, err, u.Want)
	}
}
