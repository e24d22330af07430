package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

const (
	unfencedLoadSQL   = `SELECT turn, state, signature, saved_at FROM turns WHERE session = ? ORDER BY turn DESC LIMIT 1`
	unfencedInsertSQL = `INSERT INTO turns (session, turn, state, signature, saved_at) VALUES (?, ?, ?, ?, ?)`
	unfencedPruneSQL  = `DELETE FROM turns WHERE session = ? AND turn <= ?`
)

func BenchmarkStore(b *testing.B) { checkpointtest.Bench(b, newStore(b, nil)) }

// BenchmarkAgainstUnfenced settles turns in rounds. Each round alternates with a load, an insert and a prune that
// protect nothing. The benchmark reports how many turns the store settles in the time of one of these: as people write
// them, and at their best.
func BenchmarkAgainstUnfenced(b *testing.B) {
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("prepared=%t", prepared), func(b *testing.B) {
			for b.Loop() {
				compare(b, fencedTurns(b), unfencedTurns(b, prepared))
			}
		})
	}
}

func compare(b *testing.B, fenced, unfenced func(turn int) error) {
	const rounds, turns = 40, 100
	var ratios, paces []float64
	for r := range rounds + 1 {
		u, f := pace(b, unfenced, r*turns, turns), pace(b, fenced, r*turns, turns)
		if r > 0 {
			ratios, paces = append(ratios, f/u), append(paces, f)
		}
	}
	slices.Sort(ratios)
	slices.Sort(paces)
	b.ReportMetric(ratios[rounds/2], "ratio")
	b.ReportMetric(ratios[rounds/4], "ratio-p25")
	b.ReportMetric(paces[rounds/2], "turns/s")
}

func pace(b *testing.B, settle func(turn int) error, first, n int) float64 {
	start := time.Now()
	for turn := first; turn < first+n; turn++ {
		if err := settle(turn); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(start).Seconds()
}

var benchState = json.RawMessage(fmt.Sprintf(`{"messages":[%q]}`,
	strings.Repeat("Where is my order? It should have been here by now. ", 78)))

const benchKeep = 50

func fencedTurns(b *testing.B) func(int) error {
	s := newStore(b, nil)
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

func unfencedTurns(b *testing.B, prepared bool) func(int) error {
	db := sqlitetest.Open(b, testenv.SQLite(b))
	sqlitetest.Exec(b, db, `CREATE TABLE turns (session TEXT, turn INTEGER, state TEXT, signature TEXT, saved_at INTEGER, PRIMARY KEY (session, turn))`)
	load, insert, prune := prepare(b, db, unfencedLoadSQL), prepare(b, db, unfencedInsertSQL),
		prepare(b, db, unfencedPruneSQL)
	row, run := load.QueryRowContext, func(text string, stmt *sql.Stmt, args ...any) error {
		_, err := stmt.ExecContext(b.Context(), args...)
		return err
	}
	if !prepared {
		row = func(ctx context.Context, args ...any) *sql.Row {
			return db.QueryRowContext(ctx, unfencedLoadSQL, args...)
		}
		run = func(text string, _ *sql.Stmt, args ...any) error {
			_, err := db.ExecContext(b.Context(), text, args...)
			return err
		}
	}
	return func(turn int) error {
		var last, savedAt int64
		var state, signature string
		if err := row(b.Context(), "s").Scan(&last, &state, &signature, &savedAt); err != nil && turn > 0 {
			return err
		}
		now := time.Now().UnixMicro()
		if err := run(unfencedInsertSQL, insert, "s", turn, string(benchState), "bench", now); err != nil {
			return err
		}
		return run(unfencedPruneSQL, prune, "s", turn-benchKeep)
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
