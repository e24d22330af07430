package pgsnapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
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
// standby has the commit, no repeat says that a run was begun, adopted or saved.
func TestStandbyStopped(t *testing.T) {
	t.Parallel()
	r := testenv.StartReplicated(t, true, nil)
	n := 0
	for name, c := range stops {
		n++
		o := pgsnapshot.Options{Prefix: fmt.Sprintf("s%d_", n), Functions: strings.HasSuffix(name, byFunctions)}
		t.Run(name, func(t *testing.T) {
			p := poolOn(t, r.URL, c.configure)
			w := stalled{create(t, p, &o), p}
			calls := w.calls(t)
			c.stop(r)
			for _, c := range calls {
				c.neverAnswered(t, w)
			}
			if err := w.Delete(t.Context(), run("deleted").Key, run("deleted").ID, run("deleted").Fence); err != nil {
				t.Errorf("a delete, which need not survive, waits for a standby: %v", err)
			}
			c.goOn(r)
			for _, c := range calls {
				if err := c.do(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("%s: with a standby the repeat returns %v, want %v", c.what, err, c.want)
				}
			}
		})
	}
}

// A call is a call of the store that waits for a standby.
type call struct {
	what string
	do   func(context.Context) error
	// landed is an SQL condition on the runs: readers see the effect of the call.
	landed string
	// want is the error of a repeat in the end.
	want error
}

const patience = 150 * time.Millisecond

// stalled is a store whose standbys will stop.
type stalled struct {
	*pgsnapshot.Store
	pool *pgxpool.Pool
}

// neverAnswered makes the call until its effect is seen, and once more. It waits longer each time. On a busy machine a
// new connection takes its time, and after a minute the standbys connect again.
func (c call) neverAnswered(t *testing.T, w stalled) {
	t.Helper()
	landed := w.Fill("SELECT EXISTS (SELECT FROM {runs} WHERE " + c.landed + ")")
	wait := patience
	for seen, repeated := false, false; !repeated; {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		wait *= 2
		err := c.do(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s, repeated %v: without a standby it returns %v", c.what, seen, err)
		}
		repeated = seen
		if err := w.pool.QueryRow(t.Context(), landed).Scan(&seen); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
	}
}

// calls returns calls for sessions that are prepared for them.
func (w stalled) calls(t *testing.T) []call {
	for _, session := range []string{"saved", "parted", "adopted", "spent", "deleted"} {
		if _, err := w.Begin(t.Context(), run(session)); err != nil {
			t.Fatal(err)
		}
	}
	spent := run("spent")
	if err := w.Delete(t.Context(), spent.Key, spent.ID, spent.Fence); err != nil {
		t.Fatal(err)
	}
	higher := lock.Fence{Epoch: 2, Nonce: "m"}
	parted := saving(run("parted"))
	parted.Parts = map[string]json.RawMessage{"one": json.RawMessage(`1`)}
	begin := func(r snapshot.Run) func(context.Context) error {
		return func(ctx context.Context) error { _, err := w.Begin(ctx, r); return err }
	}
	adopt := func(session string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := w.Adopt(ctx, run(session).Key, higher, 3); return err }
	}
	save := func(r snapshot.Run) func(context.Context) error {
		return func(ctx context.Context) error { return w.Save(ctx, r) }
	}
	return []call{
		{"begin, and begin that finds its run", begin(run("new")), "session = 'new'", nil},
		{"begin that finds a run", begin(run("new")), "session = 'new' AND found > 0", nil},
		{"begin that comes too late", begin(spent), "session = 'spent'", lock.ErrFenced},
		{"save", save(saving(run("saved"))), "session = 'saved' AND seq = 1", nil},
		{"save with a part", save(parted), "session = 'parted' AND seq = 1", nil},
		{"adopt", adopt("adopted"), "session = 'adopted' AND epoch = 2", nil},
		{"adopt of no run", adopt("none"), "session = 'none' AND epoch = 2", snapshot.ErrNotFound},
	}
}
