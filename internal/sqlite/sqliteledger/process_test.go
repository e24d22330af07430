package sqliteledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	processes  = 3
	goroutines = 4
	contention = time.Second
	leastCalls = 40 // of each goroutine, also on a slow machine
	leastMet   = 7  // of each op in each process, however long that takes
)

var ops = []string{"issued", "fenced", "kept", "booked"}

// An event is one reply to a contending process.
type event struct {
	Op, ID  string
	Attempt int
	Result  string // what is kept as the result
}

// Processes issue, adopt and finish the same effects at random. Each attempt is issued once, and each is told of the
// same result. What Tx has booked, it has booked once.
func TestProcesses(t *testing.T) {
	dsn := testenv.SQLite(t)
	db := sqlitetest.Open(t, dsn)
	l := create(t, db, nil)
	sqlitetest.Exec(t, db, "CREATE TABLE bookings (id TEXT)")
	var children []sqlitetest.Child
	for range processes {
		children = append(children, sqlitetest.Start(t, "contend", dsn))
	}
	issued := make(map[string]int)
	results := make(map[string]string)
	counts := make(map[string]int)
	for _, c := range children {
		for c.Out.Scan() {
			var e event
			if err := json.Unmarshal(c.Out.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			counts[e.Op]++
			switch e.Op {
			case "issued":
				issued[fmt.Sprint(e.ID, " ", e.Attempt)]++
			case "kept":
				if known, ok := results[e.ID]; ok && known != e.Result {
					t.Errorf("effect %s has the results %s and %s", e.ID, known, e.Result)
				}
				results[e.ID] = e.Result
			}
		}
		if err := c.Cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for attempt, n := range issued {
		if n != 1 {
			t.Errorf("attempt %s is issued %d times", attempt, n)
		}
	}
	for id, result := range results {
		if e := kept(t, l, id); e == nil || e.State != ledger.Completed || string(e.Result) != result {
			t.Errorf("effect %s is kept as %+v, want the result %s", id, e, result)
		}
	}
	var twice int
	err := db.QueryRowContext(t.Context(), `SELECT count(*) - count(DISTINCT id) FROM bookings`).Scan(&twice)
	if err != nil || twice != 0 {
		t.Errorf("%d bookings too many, %v", twice, err)
	}
	for _, op := range ops {
		if counts[op] < 20 {
			t.Error("they hardly met")
		}
	}
	t.Log(counts)
}

// contend uses a ledger from several goroutines, until each op has happened.
func contend(dsn string, out io.Writer) error {
	db, err := sql.Open("sqlite", dsn+"&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	var mu sync.Mutex // protects what follows
	w := json.NewEncoder(out)
	counts := make(map[string]int)
	say := func(e event) {
		mu.Lock()
		defer mu.Unlock()
		counts[e.Op]++
		_ = w.Encode(e)
	}
	met := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !slices.ContainsFunc(ops, func(op string) bool { return counts[op] < leastMet })
	}
	l := sqliteledger.New(db, nil)
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	deadline := time.Now().Add(contention)
	for i := range errs {
		wg.Go(func() {
			for n := 0; (n < leastCalls || time.Now().Before(deadline) || !met()) && errs[i] == nil; n++ {
				errs[i] = errors.Join(contendOnce(l, say), bookOnce(l, db, say))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// contendOnce owns a run for one effect, if it can. It may go away in the middle.
func contendOnce(l *sqliteledger.Ledger, say func(event)) error {
	ctx := context.Background()
	slot := rand.N(3)
	minute := time.Now().UnixMilli() / 100
	id := fmt.Sprintf("effect %d of %d", slot, minute)
	e := effect(fmt.Sprintf("run %d of %d", slot, minute), id)
	nonce := fmt.Sprintf("%016x", rand.Uint64())
	e.Fence = lock.Fence{Epoch: time.Now().Add(-rand.N(10 * time.Millisecond)).UnixNano(), Nonce: nonce}
	now, issued, err := l.Issue(ctx, e, false)
	if err == nil && !issued {
		e.Attempts = now.Attempts
		now, issued, err = l.Issue(ctx, e, true)
	}
	switch {
	case errors.Is(err, lock.ErrFenced):
		say(event{Op: "fenced", ID: id})
		return nil
	case err != nil:
		return err
	case !issued:
		say(event{Op: "kept", ID: id, Result: string(now.Result)})
		return nil
	}
	say(event{Op: "issued", ID: id, Attempt: now.Attempts})
	if rand.N(2) == 0 {
		return nil
	}
	o := ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"` + nonce + `"`)}
	if now, err = l.Finish(ctx, id, now.Attempts, o); err == nil {
		say(event{Op: "kept", ID: id, Result: string(now.Result)})
	}
	return err
}

// bookOnce books what another goroutine or process may be booking as well, under a Key.
func bookOnce(l *sqliteledger.Ledger, db *sql.DB, say func(event)) error {
	ctx := context.Background()
	id := fmt.Sprintf("booking %d of %d", rand.N(3), time.Now().UnixMilli()/10)
	e := effect(fmt.Sprintf("run %016x", rand.Uint64()), id)
	e.Key = id
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := sqliteledger.Tx(ctx, l, tx, e, book(tx, id)); err != nil {
		return err
	}
	if rand.N(3) == 0 {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	say(event{Op: "booked", ID: id})
	return nil
}
