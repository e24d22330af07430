package sqlite_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

var errStopped = errors.New("stopped")

// A call may be cut off at any point. It reports why, and what it writes is there as a whole, or not at all.
func TestCancelled(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		s := c.create(t, db, options{age: time.Nanosecond})
		stopped := 0
		for n := range 250 {
			cut := s.cut(t, db, n)
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := time.AfterFunc(rand.N(2*time.Millisecond), func() { cancel(errStopped) })
			err := cut.do(ctx)
			stop.Stop()
			cancel(nil)
			if err != nil {
				stopped++
			}
			if err != nil && !errors.Is(err, errStopped) {
				t.Fatalf("a call that was cut off returns %v", err)
			}
			if cut.now == nil {
				continue
			}
			if now := cut.now(); now != cut.after && (err == nil || now != cut.before) {
				t.Fatalf("after %v there is %s, want %s or %s", err, now, cut.before, cut.after)
			}
		}
		c.wantWhole(t, db)
		if n := db.Stats().InUse; n != 0 {
			t.Errorf("%d connections are in use", n)
		}
		t.Logf("%d calls were cut off", stopped)
	})
}

// A ctx ends the wait for another process, and the wait for another goroutine. Neither leaves the store stuck.
func TestCancelledWaiting(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		dsn := testenv.SQLite(t)
		s := c.create(t, sqlitetest.Open(t, dsn), options{})
		calls := s.ready(t)
		end := beginWriting(t, dsn)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errStopped)
		defer cancel()
		var wg sync.WaitGroup
		for _, call := range calls {
			for range 4 {
				if !call.reads {
					wg.Go(func() { want(t, call.do(ctx), errStopped) })
				}
			}
		}
		wg.Wait() // the writer is there as long
		for _, call := range calls {
			if call.reads { // a reader does not wait for a writer
				want(t, call.do(t.Context()), nil)
			}
		}
		end()
		for _, call := range calls {
			want(t, call.do(t.Context()), nil)
		}
	})
}

// beginWriting makes another process the writer, until end.
func beginWriting(t *testing.T, dsn string) (end func()) {
	t.Helper()
	other, err := sqlitetest.Open(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	exec := func(text string) {
		if _, err := other.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN IMMEDIATE")
	return func() { exec("ROLLBACK") }
}

// The writers of one store queue, so the shortest busy timeout is enough for many of them. Two stores on one pool poll
// for the lock of SQLite, in no order, so they need a longer one.
func TestNobodyBusy(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		for name, k := range map[string]struct {
			timeout  string
			prefixes []string
		}{
			"one store":  {"busy_timeout(1000)", []string{""}},
			"two stores": {"busy_timeout(60000)", []string{"", "b_"}},
		} {
			t.Run(name, func(t *testing.T) {
				db := sqlitetest.Open(t, strings.Replace(testenv.SQLite(t), "busy_timeout(60000)", k.timeout, 1))
				var stores []subject
				for _, prefix := range k.prefixes {
					stores = append(stores, c.create(t, db, options{prefix: prefix}))
				}
				var wg sync.WaitGroup
				for i := range 16 {
					wg.Go(func() {
						for range 3 {
							wantAll(t, "beside others", stores[i%len(stores)])
						}
					})
				}
				wg.Wait()
			})
		}
	})
}
