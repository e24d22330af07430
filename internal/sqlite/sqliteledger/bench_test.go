package sqliteledger_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// BenchmarkAgainstBare issues and finishes 10 effects of a new run, in rounds. Each round alternates with 20 bare
// commits of one row, which wait for one another in memory too. The benchmark reports the pace of the effects in
// relation to that of the commits.
func BenchmarkAgainstBare(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				compare(b, workers)
			}
		})
	}
}

const (
	benchEffects = 10
	benchTurns   = 24 // of all workers in a round
	benchRounds  = 40
)

func compare(b *testing.B, workers int) {
	ledger, bare := effects(b), commits(b)
	var ratios, paces []float64
	for r := range benchRounds + 1 {
		slow, fast := pace(b, workers, r, bare), pace(b, workers, r, ledger)
		if r > 0 {
			ratios, paces = append(ratios, fast/slow), append(paces, fast)
		}
	}
	slices.Sort(ratios)
	slices.Sort(paces)
	b.ReportMetric(ratios[benchRounds/2], "ratio")
	b.ReportMetric(ratios[benchRounds/4], "ratio-p25")
	b.ReportMetric(paces[benchRounds/2], "turns/s")
}

func pace(b *testing.B, workers, round int, turn func(id string) error) float64 {
	var wg sync.WaitGroup
	errs := make([]error, workers)
	start := time.Now()
	for w := range workers {
		wg.Go(func() {
			for i := range benchTurns / workers {
				errs[w] = errors.Join(errs[w], turn(fmt.Sprintf("run %d %d %d", round, w, i)))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return float64(benchTurns) / time.Since(start).Seconds()
}

func effects(b *testing.B) func(run string) error {
	l := newLedger(b, nil)
	return func(run string) error {
		for i := range benchEffects {
			e := effect(run, fmt.Sprintf("%s effect %d", run, i))
			e.Fence = lock.Fence{Epoch: 1, Nonce: run}
			now, _, err := l.Issue(b.Context(), e, false)
			if err == nil {
				_, err = l.Finish(b.Context(), e.ID, now.Attempts, paid)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func commits(b *testing.B) func(id string) error {
	db := sqlitetest.Open(b, testenv.SQLite(b))
	sqlitetest.Exec(b, db, `CREATE TABLE bare (id TEXT PRIMARY KEY, doc TEXT NOT NULL) STRICT`)
	stmt, err := db.PrepareContext(b.Context(), `INSERT INTO bare (id, doc) VALUES (?1, ?2)`)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stmt.Close() })
	var queue sync.Mutex
	return func(id string) error {
		for i := range 2 * benchEffects {
			queue.Lock()
			_, err := stmt.ExecContext(b.Context(), fmt.Sprintf("%s row %d", id, i), `{"cents":100}`)
			queue.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	}
}
