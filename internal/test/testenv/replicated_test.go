package testenv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// If a standby has acknowledged a commit, the commit survives the primary. If no standby has, the client gets no reply.
func TestFailover(t *testing.T) {
	t.Parallel()
	r := testenv.StartReplicated(t, true, nil)
	p := newPool(t, r.Server)
	mustExec(t, p, "CREATE TABLE x (n int)")
	mustExec(t, p, "INSERT INTO x VALUES (1)")
	r.StopSending()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Exec(ctx, "INSERT INTO x VALUES (2)"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a standby an INSERT returns %v", err)
	}
	r.ContinueSending()
	mustExec(t, p, "INSERT INTO x VALUES (3)")
	promoted := newPool(t, r.Failover())
	mustExec(t, promoted, "INSERT INTO x VALUES (4)")
	var kept []int
	if err := promoted.QueryRow(t.Context(),
		"SELECT array_agg(n) FROM x WHERE n IN (1, 3, 4)").Scan(&kept); err != nil || len(kept) != 3 {
		t.Errorf("after the failover %v are kept: %v", kept, err)
	}
}

func TestFailoverAsynchronous(t *testing.T) {
	t.Parallel()
	r := testenv.StartReplicated(t, false, nil)
	p := newPool(t, r.Server)
	r.StopSending()
	mustExec(t, p, "CREATE TABLE x (n int)")
	if _, err := newPool(t, r.Failover()).Exec(t.Context(), "INSERT INTO x VALUES (1)"); err == nil {
		t.Error("a standby that was sent nothing has the table")
	}
}
