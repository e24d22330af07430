package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func bot(session string) checkpoint.Key { return checkpoint.Key{Orchestrator: "bot", Session: session} }

func turn(n int) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Turn: n, RunID: fmt.Sprintf("run-%d", n), State: json.RawMessage(`{}`), Signature: "sig",
	}
}

var nonces atomic.Int64

func request() checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "test", Nonce: fmt.Sprintf("nonce-%d", nonces.Add(1)), TTL: time.Hour}
}

func mustClaim(t *testing.T, s checkpoint.Store, session string) checkpoint.Claimed {
	t.Helper()
	c, err := s.Claim(t.Context(), bot(session), request())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rob claims a session, also from its owner.
func rob(
	ctx context.Context, s checkpoint.Store, session string, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Claim(ctx, bot(session), r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok {
		r.From = held.Fence
		c, err = s.Claim(ctx, bot(session), r)
	}
	return c, err
}

// claim claims a session and gives it back.
func claim(t *testing.T, s checkpoint.Store) error {
	t.Helper()
	c, err := s.Claim(t.Context(), bot("a"), request())
	if err != nil {
		return err
	}
	return s.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true})
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

// callAll calls every method once and returns their errors by name.
func callAll(ctx context.Context, s *sqlitecheckpoint.Store) map[string]error {
	errs := make(map[string]error)
	c, err := s.Claim(ctx, bot("all"), request())
	errs["Claim"] = err
	l := c.Lease
	if err != nil {
		l = checkpoint.Lease{Key: bot("a")}
		l.Fence.Nonce = "none"
	}
	errs["Append"] = s.Append(ctx, l, turn(0), checkpoint.AppendOptions{})
	_, errs["Renew"] = s.Renew(ctx, time.Hour, []checkpoint.Lease{l})
	errs["Mark"] = s.Mark(ctx, l, checkpoint.Marks{Summarized: 1})
	for _, err := range s.Turns(ctx, bot("a"), checkpoint.Newest) {
		errs["Turns"] = err
	}
	for _, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot"}) {
		errs["Sessions"] = err
	}
	_, errs["Sweep"] = s.Sweep(ctx, 0)
	errs["Delete"] = s.Delete(ctx, l)
	return errs
}

func newStore(tb testing.TB, o *sqlitecheckpoint.Options) *sqlitecheckpoint.Store {
	tb.Helper()
	return create(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

func create(tb testing.TB, db *sql.DB, o *sqlitecheckpoint.Options) *sqlitecheckpoint.Store {
	tb.Helper()
	s := sqlitecheckpoint.New(db, o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}

func sessions(t *testing.T, s checkpoint.Store, q checkpoint.SessionQuery) (ids []string) {
	t.Helper()
	for id, err := range s.Sessions(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}
