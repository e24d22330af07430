package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func BenchmarkCheckpoint(b *testing.B) { checkpointtest.Bench(b, fresh(b, turns).(turnStore)) }

func BenchmarkSnapshot(b *testing.B) { snapshottest.Bench(b, fresh(b, runs).(runStore)) }

func fresh(b *testing.B, c contract) store {
	return c.create(b, sqlitetest.Open(b, testenv.SQLite(b)), options{})
}

// BenchmarkAgainstUnfenced settles turns. It compares with a load, an insert and a prune that protect nothing: as
// people write them, and at their best.
func BenchmarkAgainstUnfenced(b *testing.B) {
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("prepared=%t", prepared), func(b *testing.B) {
			for b.Loop() {
				compare(b, 1, 100, fencedTurns(b), unfencedTurns(b, prepared))
			}
		})
	}
}

// BenchmarkAgainstBare issues and finishes 10 effects of a new run. It compares with 20 bare commits of one row, which
// wait for one another in memory too.
func BenchmarkAgainstBare(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				compare(b, workers, 24, issuedTurns(b), bareTurns(b))
			}
		})
	}
}

// compare works in rounds. In each, workers make turns of theirs, and then of ours. It reports the pace of ours, also
// in relation to that of theirs.
func compare(b *testing.B, workers, turns int, ours, theirs func(turn int) error) {
	const rounds = 40
	var ratios, paces []float64
	for r := range rounds + 1 {
		slow, fast := pace(b, workers, r*turns, turns, theirs), pace(b, workers, r*turns, turns, ours)
		if r > 0 {
			ratios, paces = append(ratios, fast/slow), append(paces, fast)
		}
	}
	slices.Sort(ratios)
	slices.Sort(paces)
	b.ReportMetric(ratios[rounds/2], "ratio")
	b.ReportMetric(ratios[rounds/4], "ratio-p25")
	b.ReportMetric(paces[rounds/2], "turns/s")
}

func pace(b *testing.B, workers, first, turns int, settle func(turn int) error) float64 {
	var wg sync.WaitGroup
	errs := make([]error, workers)
	start := time.Now()
	for w := range workers {
		wg.Go(func() {
			for turn := first + w; turn < first+turns; turn += workers {
				errs[w] = errors.Join(errs[w], settle(turn))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	return float64(turns) / time.Since(start).Seconds()
}

var benchState = json.RawMessage(fmt.Sprintf(`{"messages":[%q]}`,
	strings.Repeat("Where is my order? It should have been here by now. ", 78)))

const benchKeep = 50

func fencedTurns(b *testing.B) func(int) error {
	s := fresh(b, turns).(turnStore)
	k := checkpoint.Key{Orchestrator: "bench", Session: "s"}
	return func(turn int) error {
		run := fmt.Sprintf("run-%d", turn)
		c, err := s.Claim(b.Context(), k, checkpoint.ClaimRequest{Nonce: run, TTL: time.Minute})
		if err != nil {
			return err
		}
		cp := checkpoint.Checkpoint{Turn: turn, State: benchState, Signature: "bench", RunID: run}
		return s.Append(b.Context(), c.Lease, cp, checkpoint.AppendOptions{Keep: benchKeep, Release: true})
	}
}

const (
	unfencedLoadSQL   = `SELECT turn, state, signature, saved_at FROM turns WHERE session = ? ORDER BY turn DESC LIMIT 1`
	unfencedInsertSQL = `INSERT INTO turns (session, turn, state, signature, saved_at) VALUES (?, ?, ?, ?, ?)`
	unfencedPruneSQL  = `DELETE FROM turns WHERE session = ? AND turn <= ?`
)

func unfencedTurns(b *testing.B, prepared bool) func(int) error {
	db := sqlitetest.Open(b, testenv.SQLite(b))
	sqlitetest.Exec(b, db, `CREATE TABLE turns (session TEXT, turn INTEGER, state TEXT, signature TEXT, saved_at INTEGER,
		PRIMARY KEY (session, turn))`)
	query, exec := db.QueryRowContext, db.ExecContext
	if prepared {
		load, insert, prune := prepare(b, db, unfencedLoadSQL), prepare(b, db, unfencedInsertSQL),
			prepare(b, db, unfencedPruneSQL)
		stmts := map[string]*sql.Stmt{unfencedLoadSQL: load, unfencedInsertSQL: insert, unfencedPruneSQL: prune}
		query = func(ctx context.Context, text string, args ...any) *sql.Row {
			return stmts[text].QueryRowContext(ctx, args...)
		}
		exec = func(ctx context.Context, text string, args ...any) (sql.Result, error) {
			return stmts[text].ExecContext(ctx, args...)
		}
	}
	return func(turn int) error {
		var last, savedAt int64
		var state, signature string
		err := query(b.Context(), unfencedLoadSQL, "s").Scan(&last, &state, &signature, &savedAt)
		if err != nil && turn > 0 {
			return err
		}
		now := time.Now().UnixMicro()
		if _, err := exec(b.Context(), unfencedInsertSQL, "s", turn, string(benchState), "bench", now); err != nil {
			return err
		}
		_, err = exec(b.Context(), unfencedPruneSQL, "s", turn-benchKeep)
		return err
	}
}

func prepare(tb testing.TB, db *sql.DB, text string) *sql.Stmt {
	tb.Helper()
	stmt, err := db.PrepareContext(tb.Context(), text)
	if err != nil {
		tb.Fatal(err)
	}
	return stmt
}

const benchEffects = 10

func issuedTurns(b *testing.B) func(turn int) error {
	l := fresh(b, effects).(effectStore)
	return func(turn int) error {
		for i := range benchEffects {
			e := effect(fmt.Sprint("run ", turn), fmt.Sprintf("run %d effect %d", turn, i))
			e.Fence = lock.Fence{Epoch: 1, Nonce: e.RunID}
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

func bareTurns(b *testing.B) func(turn int) error {
	db := sqlitetest.Open(b, testenv.SQLite(b))
	sqlitetest.Exec(b, db, `CREATE TABLE bare (id TEXT PRIMARY KEY, doc TEXT NOT NULL) STRICT`)
	stmt := prepare(b, db, `INSERT INTO bare (id, doc) VALUES (?1, ?2)`)
	var queue sync.Mutex
	return func(turn int) error {
		for i := range 2 * benchEffects {
			queue.Lock()
			_, err := stmt.ExecContext(b.Context(), fmt.Sprintf("%d row %d", turn, i), `{"cents":100}`)
			queue.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	}
}
