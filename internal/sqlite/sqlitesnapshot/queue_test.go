package sqlitesnapshot_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The writers of one store queue, so the shortest busy timeout is enough for many of them. Two stores on one pool poll
// for the lock of SQLite, in no order, so they need a longer one.
func TestNobodyBusy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout  string
		prefixes []string
	}{
		"one store":  {"busy_timeout(1000)", []string{""}},
		"two stores": {"busy_timeout(60000)", []string{"", "b_"}},
	} {
		t.Run(name, func(t *testing.T) {
			db := sqlitetest.Open(t, strings.Replace(testenv.SQLite(t), "busy_timeout(60000)", c.timeout, 1))
			var stores []*sqlitesnapshot.Store
			for _, prefix := range c.prefixes {
				stores = append(stores, create(t, db, &sqlitesnapshot.Options{Prefix: prefix}))
			}
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() { wantLife(t, stores[i%len(stores)], fmt.Sprint(i)) })
			}
			wg.Wait()
		})
	}
}

// Writers queue before they ask for a connection. So none of them waits for the only one.
func TestWritersQueue(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	s := create(t, db, nil)
	begin(t, s, "first") // the first call prepares the statements, outside the queue
	before := db.Stats().WaitCount
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := run(fmt.Sprint(i))
			_, err := s.Begin(t.Context(), r)
			want(t, err, nil)
			for range 12 {
				r = next(r)
				want(t, s.Save(t.Context(), r), nil)
			}
			want(t, s.Save(t.Context(), withPart(r, "a")), nil)
		})
	}
	wg.Wait()
	if waited := db.Stats().WaitCount - before; waited > 0 {
		t.Errorf("writers have waited for a connection %d times", waited)
	}
}

// wantLife takes a run from Begin to Delete. It stops at the first error, because the later ones follow from it.
func wantLife(t *testing.T, s *sqlitesnapshot.Store, session string) {
	r := run(session)
	if in, err := s.Begin(t.Context(), r); in != nil || err != nil {
		t.Errorf("Begin finds %v, %v", in, err)
		return
	}
	for range 2 {
		part := withPart(r, "a")
		r = next(part)
		r.Parts = nil
		for _, saved := range []snapshot.Run{part, r} {
			if err := s.Save(t.Context(), saved); err != nil {
				t.Errorf("%v; in flight is %s", err, inFlightText(t, s, session))
				return
			}
		}
	}
	want(t, s.Delete(t.Context(), r.Key, r.ID, r.Fence), nil)
}

// inFlightText describes the session's run for a message. It may run on any goroutine of a test.
func inFlightText(t *testing.T, s snapshot.Store, session string) string {
	text := "no run"
	for r, err := range s.Runs(t.Context(), snapshot.Query{Key: bot(session)}) {
		text = fmt.Sprintf("run %q, %s, seq %d, fence %v, %v", r.ID, r.Status, r.Seq, r.Fence, err)
	}
	return text
}
