package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
)

// The errors of drivers whose servers have no space left.
type (
	pgFull     struct{}
	sqliteFull struct{}
)

func (pgFull) Error() string     { return "could not extend file" }
func (pgFull) SQLState() string  { return "53100" }
func (sqliteFull) Error() string { return "database or disk is full" }
func (sqliteFull) Code() int     { return 13 }

// A client hears a status and a sentence, and nothing of the error.
func TestPublic(t *testing.T) {
	secret := errors.New("dial tcp db.internal:5432")
	of := func(op string, errs ...error) error {
		all := secret
		for _, err := range errs {
			all = fmt.Errorf("%w: %w", err, all)
		}
		return fmt.Errorf("handler: %w", &orchestrator.Error{Op: op, Session: "s", Err: all})
	}
	for _, c := range []struct {
		err    error
		status int
		again  bool
	}{
		{nil, 200, false},
		{secret, 500, false},
		{of("claim", orchestrator.ErrBusy), 409, true},
		{of("begin", orchestrator.ErrInterrupted), 409, true},
		{of("claim", orchestrator.ErrUnavailable), 503, true},
		{of("claim", orchestrator.ErrUnavailable, context.DeadlineExceeded), 503, true},
		{of("claim", orchestrator.ErrTooManyStuck), 503, true},
		{of("claim", orchestrator.ErrShuttingDown), 503, true},
		{of("begin", orchestrator.ErrOwed, orchestrator.ErrBusy), 409, true},
		{of("begin", orchestrator.ErrIndeterminate, orchestrator.ErrOwed), 504, true},
		{of("adopt", orchestrator.ErrParked), 409, false},
		{of("adopt", orchestrator.ErrSuspended), 409, false},
		{of("intent", orchestrator.ErrSuspended), 202, false},
		{of("resume", orchestrator.ErrNothingToResume), 404, false},
		{of("fork", checkpoint.ErrNotFound), 404, false},
		{of("fork", checkpoint.ErrConflict), 409, false},
		{of("input", orchestrator.ErrRequestReused), 422, false},
		{of("input", &orchestrator.InputError{Field: "text", Reason: "empty"}), 422, false},
		{of("begin", &orchestrator.InputError{Field: "text", Reason: "empty"}), 422, false},
		{of("begin", orchestrator.ErrIndeterminate, &orchestrator.InputError{Field: "text", Reason: "empty"}), 504, true},
		{of("drift", &orchestrator.DriftError{}), 409, true},
		{of("settle", orchestrator.ErrIndeterminate, lock.ErrFenced), 504, true},
		{of("settle", orchestrator.ErrIndeterminate, orchestrator.ErrAbandoned), 409, false},
		{of("follow", stream.ErrGone), 410, false},
		{of("follow", orchestrator.ErrNoStream), 404, false},
		{of("settle", checkpoint.ErrRefused), 503, true},
		{of("claim", orchestrator.ErrUnavailable, pgFull{}), 507, true},
		{of("settle", orchestrator.ErrIndeterminate, sqliteFull{}), 507, true},
		{of("intent", pgFull{}), 502, false},
		{of("save", snapshot.ErrRefused), 503, true},
		{of("settle", &orchestrator.StateError{Err: secret}), 500, false},
		{of("route", orchestrator.ErrMaxIterations), 502, false},
		{of("claim", orchestrator.ErrReentrant), 500, false},
		{of("claim", context.Canceled), 499, true},
		{of("claim", context.DeadlineExceeded), 504, true},
		{of("intent", orchestrator.ErrTurnTimeout), 504, true},
		{of("intent", orchestrator.ErrIntentTimeout), 504, true},
		{of("intent", orchestrator.ErrIndeterminate), 504, true},
		{of("intent", orchestrator.ErrBusy), 502, false}, // of a bot that it has called
		{of("intent", &orchestrator.InputError{Field: "text", Reason: "of the child"}), 502, false},
		{of("intent", checkpoint.ErrNotFound), 502, false},
		{of("intent"), 502, false},
		{of("merge", orchestrator.ErrMerge), 502, false},
	} {
		p := orchestrator.Public(c.err)
		if p.Status != c.status || p.Retryable != c.again || p.Text == "" {
			t.Errorf("%v: %+v, want status %d, retryable %v", c.err, p, c.status, c.again)
		}
		if p.RetryAfter > 0 && !p.Retryable || p.RetryAfter%time.Second != 0 || p.RetryAfter > 5*time.Second {
			t.Errorf("%v: retry after %v", c.err, p.RetryAfter)
		}
		if p.Type == "" {
			t.Errorf("%v: no type", c.err)
		}
		holdsNone(t, p.Text, "db.internal", "of the child")
	}
	own := &orchestrator.Error{Op: "begin", Session: "s", RunID: "r", Err: orchestrator.ErrSuspended}
	if p := orchestrator.Public(own); p.Status != 202 || p.Type != "suspended" {
		t.Errorf("a turn of the client that is suspended: %+v, want 202", p)
	}
	in := orchestrator.Public(of("begin", &orchestrator.InputError{Field: "text", Reason: "no\ngood"}))
	if in.Text != "text: no; good" {
		t.Errorf("an InputError says %q", in.Text)
	}
}
