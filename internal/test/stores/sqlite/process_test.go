package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/boxtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) {
	roles := boxtest.Roles(openInbox)
	for _, c := range contracts {
		maps.Copy(roles, map[string]sqlitetest.Role{
			c.name + " contends": func(dsn string, out io.Writer) error {
				var mu sync.Mutex // protects out
				say := func(v any) {
					mu.Lock()
					defer mu.Unlock()
					_ = json.NewEncoder(out).Encode(v)
				}
				return onFile(dsn, func(db *sql.DB) error { return c.contend(db, say) })
			},
			c.name + " settles": func(dsn string, out io.Writer) error {
				say := func(words ...any) { fmt.Fprintln(out, words...) }
				return onFile(dsn, func(db *sql.DB) error { return c.killed(db, say) })
			},
		})
	}
	sqlitetest.Main(m, roles)
}

// onFile works on a file, on which transactions begin as writers.
func onFile(dsn string, work func(db *sql.DB) error) error {
	db, err := sql.Open("sqlite", dsn+"&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	return work(db)
}

// Processes work on the same things at once. No store contradicts what another process was told.
func TestProcesses(t *testing.T) {
	for _, c := range contracts {
		t.Run(c.name, func(t *testing.T) { // one at a time: they need the machine
			dsn := testenv.SQLite(t)
			db := sqlitetest.Open(t, dsn)
			c.processes(t, c.create(t, db, options{}), db, dsn)
			c.wantWhole(t, db)
		})
	}
}

// contended starts n processes, and returns when they have ended. It gives what they say to hear.
func contended[V any](t *testing.T, contract, dsn string, n int, hear func(V)) {
	t.Helper()
	var children []sqlitetest.Child
	for range n {
		children = append(children, sqlitetest.Start(t, contract+" contends", dsn))
	}
	for _, c := range children {
		for c.Out.Scan() {
			var v V
			if err := json.Unmarshal(c.Out.Bytes(), &v); err != nil {
				t.Fatal(err)
			}
			hear(v)
		}
		if err := c.Cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// contention is how long goroutines contend. On a slow machine they go on until each has made the least calls.
const contention = 2 * time.Second

// together calls once from four goroutines, until enough says that it is enough.
func together(least int, enough func() bool, once func(goroutine int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	deadline := time.Now().Add(contention)
	for i := range errs {
		wg.Go(func() {
			for n := 0; (n < least || time.Now().Before(deadline) || !enough()) && errs[i] == nil; n++ {
				errs[i] = once(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// A process that is killed leaves a file that opens. What the process was told is there, and at most one thing more.
func TestKilled(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		if c.killed == nil {
			t.Skip("its writes are those of the other contracts")
		}
		dsn := testenv.SQLite(t)
		db := sqlitetest.Open(t, dsn)
		s := c.create(t, db, options{})
		check := c.check(t, s, db)
		for range 5 {
			child := sqlitetest.Start(t, c.name+" settles", dsn)
			last := ""
			for more := 1 + rand.N(60); child.Out.Scan(); more-- {
				last = child.Out.Text()
				if more == 0 {
					child.Cmd.Process.Kill()
				}
			}
			if err := child.Cmd.Wait(); child.Cmd.ProcessState.Exited() {
				t.Fatalf("the child ended by itself: %v", err)
			}
			check(last)
			c.wantWhole(t, db)
			var ok string
			if err := sqlitetest.Open(t, dsn).QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
				t.Fatal(ok, err)
			}
		}
	})
}
