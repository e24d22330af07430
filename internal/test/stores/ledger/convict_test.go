package ledger_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// pairs are texts in statements, each with what stands for it. The statement looks right, but the database lets a call
// through that the contract refuses.
type pairs = []string

const (
	// PostgreSQL: the fence is looked at, and time passes before the effect is there.
	locked    = `nonce = $4::text FOR SHARE`
	notLocked = `nonce = $4::text AND pg_sleep(0.002) IS NOT NULL`

	andIdle = `AND NOT EXISTS (SELECT FROM {effects} e WHERE e.run_id = f.run_id)`

	// SQLite.
	fenceOfRun = "WHERE run_id = ?4 AND epoch = ?11 AND nonce = ?12"
	undone     = "THEN state = 'issued' OR state = 'unknown' OR state = 'failed' OR state = 'skipped'"
	lastOpen   = "ELSE attempts = ?2 AND (state = 'unknown' OR state = 'issued')"
)

// adopts makes one statement of an Adopt on PostgreSQL. The snapshot of the statement is older than its wait for the
// fence. The Issue takes longer, so that the wait is seen.
var adopts = pairs{
	"INSERT INTO {effect_fences} AS f (run_id, epoch, nonce, since)\n\t\tSELECT $1::text, $2::bigint",
	"WITH a AS (INSERT INTO {effect_fences} AS f (run_id, epoch, nonce, since)\n\t\tSELECT $1::text, $2::bigint",
	"RETURNING current_setting('transaction_isolation'), {durable}", `RETURNING 1), u AS (
		UPDATE {effects} SET state = 'unknown', finished_at = clock_timestamp()
		WHERE run_id = $1::text AND state = 'issued' AND (epoch, nonce) <> ($2::bigint, $3::text)
			AND EXISTS (SELECT FROM a)
	) SELECT 'read committed', '' FROM a`,
	"AND state = 'issued' AND (epoch, nonce) <>", "AND false AND (epoch, nonce) <>",
	"RETURNING issued_at, {durable}", "RETURNING issued_at, pg_sleep(0.005)::text",
}

// If a statement of a ledger loses what it rests on, the suite notices.
func TestConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause           string
		postgres, sqlite pairs
	}{
		"an Adopt that leaves what is Issued": {"adopt-unknown", pairs{"AND state = 'issued' AND (epoch, nonce) <>", "AND false AND (epoch, nonce) <>"}, pairs{"state = 'issued' AND (epoch <> ?2", "state = 'none' AND (epoch <> ?2"}},
		"an Adopt in one statement":           {"adopt-issue-race", adopts, nil},
		"an Adopt that takes its own":         {"issue-of-another-run", nil, pairs{"WHERE run_id = ?1 AND state = 'issued'", "WHERE state = 'issued'"}},
		"an Adopt of any fence":               {"adopt-fenced", pairs{`WHERE f.epoch <`, `WHERE true OR f.epoch <`}, pairs{"WHERE old.epoch < excluded.epoch", "WHERE true"}},
		"an Adopt of an equal epoch":          {"adopt-fenced", pairs{`WHERE f.epoch < `, `WHERE f.epoch <= `}, pairs{"WHERE old.epoch < excluded.epoch", "WHERE old.epoch <= excluded.epoch"}},
		"an Issue that locks no fence":        {"adopt-issue-race", pairs{locked, notLocked}, nil},
		"an Issue under any fence":            {"issue-fenced", pairs{`epoch = $3::bigint AND ` + locked, `$3::bigint > 0 AND $4::text <> ''`}, pairs{fenceOfRun, "WHERE run_id = ?4"}},
		"an Issue that compares the epoch":    {"issue-fenced", nil, pairs{fenceOfRun, "WHERE run_id = ?4 AND epoch = ?11"}},
		"again takes another run's":           {"issue-of-another-run", pairs{` AND e.run_id = excluded.run_id`, ``}, nil},
		"again takes what is final":           {"issue-final", pairs{`e.state IN ('failed', 'unknown')`, `e.state <> 'issued'`}, nil},
		"another run stays the owner":         {"issue-of-another-run", nil, pairs{"run_id = ?3,", ""}},
		"other arguments are taken":           {"issue-changed", pairs{`e.args_sum = excluded.args_sum`, `true`}, nil},
		"the error is kept when issued":       {"issue-failed", nil, pairs{"coalesce(max(r.why), '')", "coalesce(max(r.why), e.error)"}},
		"the second result wins":              {"finish-first-result", pairs{`THEN state IN {undone}`, `THEN true`}, pairs{undone, "THEN true"}},
		"a late failure wins":                 {"finish-late-failure", pairs{`ELSE attempts = $2::integer AND`, `ELSE`}, pairs{lastOpen, "ELSE state = 'unknown' OR state = 'issued'"}},
		"a late result is refused":            {"finish-late-result", pairs{`THEN state IN {undone}`, `THEN state = 'issued'`}, pairs{undone, "THEN state <> 'completed' AND attempts = ?2"}},
		"a failure over what is closed":       {"finish-closed", nil, pairs{lastOpen, "ELSE attempts = ?2 AND state <> 'completed'"}},
		"an answer for what is answered":      {"answer-twice", pairs{`(state = 'unknown' OR`, `(state <> 'issued' OR`}, nil},
		"an answer for what is Issued":        {"answer-issued", pairs{` AND $7::boolean`, ` AND $7::boolean IS NOT NULL`}, pairs{"state = 'issued' AND ?8", "state = 'issued'"}},
		"an answer for an earlier attempt":    {"answer-earlier-attempt", nil, pairs{"THEN attempts = ?2 AND (state", "THEN (state"}},
		"an answer that is lost by a result":  {"answer-late-result", nil, pairs{"THEN answered_by ELSE", "THEN '' ELSE"}},
		"an answer that is kept when issued":  {"answer-issued-anew", nil, pairs{"answered_at = NULL,", "", "answered_by = '',", ""}},
		"a failure is the last word":          {"unsure-failed", pairs{` AND unsure THEN`, ` AND false THEN`}, pairs{"AND ?7 = '' AND unsure", "AND ?7 <> '' AND unsure"}},
		"a failure never ends":                {"unsure-failed-only", pairs{` AND unsure THEN`, ` AND attempts > 1 THEN`}, pairs{"AND ?7 = '' AND unsure", "AND ?7 = '' AND attempts > 1"}},
		"an answer about one attempt":         {"unsure-answer", pairs{` AND $6::text = '' AND unsure`, ` AND unsure`}, pairs{"AND ?7 = '' AND unsure", "AND unsure"}},
		"an attempt that is kept sure":        {"unsure-issue", pairs{`unsure = e.state <> 'failed' AND`, `unsure = false AND`}, pairs{"unsure = state <> 'failed' AND NOT ?12", "redacted = redacted AND ?12 < 2"}},
		"an attempt of what was Issued":       {"unsure-failed", pairs{`unsure = e.state <> 'failed'`, `unsure = e.state = 'unknown'`}, pairs{"unsure = state <> 'failed'", "unsure = state = 'unknown'"}},
		"an attempt after a failure":          {"unsure-failed-only", pairs{`unsure = e.state <> 'failed' AND`, `unsure =`}, pairs{"unsure = state <> 'failed' AND", "unsure ="}},
		"a caller that is not heard":          {"unsure-told", pairs{`AND NOT $16::boolean`, `AND $16::boolean IS NOT NULL`}, pairs{"AND NOT ?12", "AND ?12 < 2"}},
		"a Record that overwrites":            {"record-first", pairs{`WHERE e.state IN {undone}`, ``}, nil},
		"a Record that keeps the error":       {"record-over-failed", nil, pairs{"error = '', result = ?3", "result = ?3"}},
		"a Prune of keys":                     {"prune-keeps", pairs{`key = '' AND`, ``}, pairs{"key = '' AND (state", "(state"}},
		"a Prune of what is open":             {"prune-keeps", nil, pairs{"AND (state = 'completed' OR state = 'failed' OR state = 'skipped')", "AND state <> 'issued'"}},
		"a Prune of fences that count":        {"prune-fences", pairs{andIdle, ``}, pairs{"AND NOT EXISTS (SELECT 1 FROM holdfast_effects e", "AND 1 OR EXISTS (SELECT 1 FROM holdfast_effects e"}},
		"a list in another order":             {"effects", nil, pairs{"ORDER BY number", "ORDER BY id"}},
	} {
		if c.sqlite != nil {
			t.Run("sqlite/"+name, func(t *testing.T) {
				t.Parallel()
				convicted := func(p ...string) bool {
					_, db := sqlitetest.Tamper(t, testenv.SQLite(t), p...)
					open := func() ledger.Ledger { return onFile(t, db, nil) }
					return ledgertest.Violations(t.Context(), open, c.clause)[c.clause] != nil
				}
				if convicted() || !convicted(c.sqlite...) {
					t.Errorf("clause %s does not tell it from the ledger", c.clause)
				}
			})
		}
		if c.postgres != nil {
			t.Run("postgres/"+name, func(t *testing.T) {
				t.Parallel()
				trial := suite.Trial[ledger.Ledger]{Violations: ledgertest.Violations, Tries: 6}
				tampering := filled(t, c.postgres)
				trial.Convict(t, c.clause, func() ledger.Ledger {
					p := pgtest.EmptyPool(t)
					onPool(t, p)
					return pgledger.New(tampering(p), nil)
				})
			})
		}
	}
}

// filled fills in what the statements of the ledger on PostgreSQL have in common. It returns what stands in front of a
// pool. In the end each first text must have been in a statement.
func filled(t *testing.T, p pairs) func(p *pgxpool.Pool) pgtest.DB {
	all := strings.Split(strings.NewReplacer(
		"{undone}", "('issued', 'unknown', 'failed', 'skipped')", "{durable}", pgstate.Durable, "{effects}",
		`"holdfast_effects"`, "{effect_fences}", `"holdfast_effect_fences"`, "{effect_raises}", `"holdfast_effect_raises"`,
	).Replace(strings.Join(p, "\x00")), "\x00")
	seen := new(sync.Map)
	t.Cleanup(func() {
		for part := range slices.Chunk(all, 2) {
			if _, ok := seen.Load(part[0]); !ok && !t.Skipped() {
				t.Errorf("no statement has %q", part[0])
			}
		}
	})
	return func(p *pgxpool.Pool) pgtest.DB { return watched{pgtest.Tamper(p, all...), all, seen} }
}

// A watched database notes which of the first texts of pairs are in statements.
type watched struct {
	pgtest.DB
	pairs pairs
	seen  *sync.Map
}

func (w watched) note(text string) {
	for part := range slices.Chunk(w.pairs, 2) {
		if strings.Contains(text, part[0]) {
			w.seen.Store(part[0], true)
		}
	}
}

func (w watched) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	w.note(sql)
	return w.DB.Query(ctx, sql, args...)
}

func (w watched) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		w.note(q.SQL)
	}
	return w.DB.SendBatch(ctx, b)
}

// These statements on PostgreSQL look right too, and a Raise lets something through.
func TestRaiseConvicts(t *testing.T) {
	const concerned = `NOT EXISTS (SELECT FROM {effect_raises} WHERE epoch >= $3::bigint OR $15::bigint < epoch ` +
		`AND until > clock_timestamp()) AND epoch =`
	for name, c := range map[string]struct {
		clause string
		pairs  pairs
	}{
		"an Issue under any fence":         {"raise-ends", pairs{`epoch >= $3::bigint OR`, `false OR`}},
		"an Issue of a known run":          {"raise-ends", pairs{concerned, `epoch =`}},
		"an Adopt of a raised fence":       {"raise-ends", pairs{`epoch >= $2::bigint`, `false`}},
		"the fences of a clock ahead":      {"raise-ends", pairs{`WHERE f.epoch > r.epoch`, `WHERE false`}},
		"what is Issued stays":             {"raise-issued", pairs{`WHERE state = 'issued' RETURNING`, `WHERE false RETURNING`}},
		"a new effect is in no doubt":      {"raise-run", pairs{`$15::bigint < epoch`, `false`}},
		"what adopts first is in no doubt": {"raise-doubts", pairs{`$17::bigint < epoch`, `false`}},
		"each run may have begun":          {"raise-run", pairs{`$15::bigint < epoch`, `$15::bigint IS NOT NULL`, `$17::bigint < epoch`, `$17::bigint IS NOT NULL`}},
		"the window never ends":            {"raise-window", pairs{` AND until > clock_timestamp()`, ``}},
	} {
		t.Run("postgres/"+name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[ledgertest.Opener]{
				Violations: ledgertest.RaiseViolations, Blocking: []string{"raise-ends"},
			}
			tampering := filled(t, c.pairs)
			trial.Convict(t, c.clause, func() ledgertest.Opener {
				p := pgtest.EmptyPool(t)
				onPool(t, p)
				return func(doubtFor time.Duration) ledgertest.RaisingLedger {
					return pgledger.New(tampering(p), &pgledger.Options{DoubtFor: doubtFor})
				}
			})
		})
	}
}
