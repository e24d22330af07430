package pgledger_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// These statements look right, but PostgreSQL lets a call through that the contract refuses.
const (
	locked = `nonce = $4::text FOR SHARE`

	// The fence is looked at, and time passes before the effect is there.
	notLocked = `nonce = $4::text AND pg_sleep(0.002) IS NOT NULL`

	// The snapshot of the statement is older than its wait for the fence.
	adoptAtOnce = `
		WITH a AS (
			INSERT INTO {effect_fences} AS f (run_id, epoch, nonce, since)
			VALUES ($1, $2, $3, clock_timestamp())
			ON CONFLICT (run_id) DO UPDATE SET epoch = excluded.epoch, nonce = excluded.nonce
			WHERE f.epoch < excluded.epoch OR f.epoch = excluded.epoch AND f.nonce = excluded.nonce
			RETURNING 1
		), u AS (
			UPDATE {effects} SET state = 'unknown', finished_at = clock_timestamp()
			WHERE run_id = $1::text AND state = 'issued' AND (epoch, nonce) <> ($2::bigint, $3::text)
				AND EXISTS (SELECT FROM a)
		)
		SELECT 'read committed', '' FROM a`

	andIdle = `AND NOT EXISTS (SELECT FROM {effects} e WHERE e.run_id = f.run_id)`

	noUnknown = `SELECT $1::text, $2::bigint, $3::text`
)

// A change replaces a part of a statement.
type change struct{ statement, part, instead string }

func TestSuiteConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause  string
		changes []change
	}{
		"an Adopt that leaves what is Issued": {"adopt-unknown", []change{{"unknown", "", noUnknown}}},
		"an Adopt in one statement": {"adopt-issue-race", []change{
			{"adopt", "", adoptAtOnce},
			{"unknown", "", noUnknown},
			// The Issue takes longer, so that the wait is seen.
			{"issue", `RETURNING issued_at, {durable}`, `RETURNING issued_at, pg_sleep(0.005)::text`},
		}},
		"an Adopt of a lower fence":      {"adopt-fenced", []change{{"adopt", `WHERE f.epoch <`, `WHERE true OR f.epoch <`}}},
		"an Adopt of an equal epoch":     {"adopt-fenced", []change{{"adopt", `WHERE f.epoch < `, `WHERE f.epoch <= `}}},
		"an Issue that locks no fence":   {"adopt-issue-race", []change{{"issue", locked, notLocked}}},
		"an Issue under any fence":       {"issue-fenced", []change{{"issue", `epoch = $3::bigint AND ` + locked, `$3::bigint > 0 AND $4::text <> ''`}}},
		"again takes another run's":      {"issue-of-another-run", []change{{"issueKnown", ` AND e.run_id = excluded.run_id`, ``}}},
		"again takes what is final":      {"issue-final", []change{{"issueKnown", `e.state IN ('failed', 'unknown')`, `e.state <> 'issued'`}}},
		"other arguments are taken":      {"issue-changed", []change{{"issueKnown", `e.args_sum = excluded.args_sum`, `true`}}},
		"the second result wins":         {"finish-first-result", []change{{"finish", `THEN state IN {undone}`, `THEN true`}}},
		"a late failure wins":            {"finish-late-failure", []change{{"finish", `ELSE attempts = $2::integer AND`, `ELSE`}}},
		"a late result is refused":       {"finish-late-result", []change{{"finish", `THEN state IN {undone}`, `THEN state = 'issued'`}}},
		"an answer for what is answered": {"answer-twice", []change{{"finish", `(state = 'unknown' OR`, `(state <> 'issued' OR`}}},
		"an answer for what is Issued":   {"answer-issued", []change{{"finish", ` AND $7::boolean`, ` AND $7::boolean IS NOT NULL`}}},
		"a failure is the last word":     {"unsure-failed", []change{{"finish", ` AND unsure THEN`, ` AND false THEN`}}},
		"a failure never ends":           {"unsure-failed-only", []change{{"finish", ` AND unsure THEN`, ` AND attempts > 1 THEN`}}},
		"an answer about one attempt":    {"unsure-answer", []change{{"finish", ` AND $6::text = '' AND unsure`, ` AND unsure`}}},
		"an attempt that is kept sure":   {"unsure-issue", []change{{"issueKnown", `unsure = e.state <> 'failed' AND`, `unsure = false AND`}}},
		"an attempt of what was Issued":  {"unsure-failed", []change{{"issueKnown", `unsure = e.state <> 'failed'`, `unsure = e.state = 'unknown'`}}},
		"an attempt after a failure":     {"unsure-failed-only", []change{{"issueKnown", `unsure = e.state <> 'failed' AND`, `unsure =`}}},
		"a caller that is not heard":     {"unsure-told", []change{{"issueKnown", `AND NOT $16::boolean`, `AND $16::boolean IS NOT NULL`}}},
		"a Record that overwrites":       {"record-first", []change{{"recordKnown", `WHERE e.state IN {undone}`, ``}}},
		"a Prune of keys":                {"prune-keeps", []change{{"prune", `key = '' AND`, ``}}},
		"a Prune of fences that count":   {"prune-fences", []change{{"idle", andIdle, ``}, {"forget", andIdle, ``}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[ledger.Ledger]{Violations: ledgertest.Violations, Tries: 6}
			trial.Convict(t, c.clause, func() ledger.Ledger {
				l := open(t)
				for _, change := range c.changes {
					l = l.Broken(change.statement, change.part, change.instead)
				}
				return l
			})
		})
	}
}

// These look right too, and a Raise lets something through.
func TestRaiseConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause  string
		changes []change
	}{
		"an Issue under any fence":         {"raise-ends", []change{{"issue", `epoch >= $3::bigint OR`, `false OR`}}},
		"an Issue of a known run":          {"raise-ends", []change{{"issue", `{unconcerned} AND epoch =`, `epoch =`}}},
		"an Adopt of a raised fence":       {"raise-ends", []change{{"adopt", `epoch >= $2::bigint`, `false`}}},
		"the fences of a clock ahead":      {"raise-ends", []change{{"raise", `WHERE f.epoch > r.epoch`, `WHERE false`}}},
		"what is Issued stays":             {"raise-issued", []change{{"raise", `WHERE state = 'issued' RETURNING`, `WHERE false RETURNING`}}},
		"a new effect is in no doubt":      {"raise-run", []change{{"issue", `$15::bigint < epoch`, `false`}}},
		"what adopts first is in no doubt": {"raise-doubts", []change{{"issueKnown", `$17::bigint < epoch`, `false`}}},
		"each run may have begun": {"raise-run", []change{
			{"issue", `$15::bigint < epoch`, `$15::bigint IS NOT NULL`},
			{"issueKnown", `$17::bigint < epoch`, `$17::bigint IS NOT NULL`},
		}},
		"the window never ends": {"raise-window", []change{
			{"issue", ` AND until > clock_timestamp()`, ``}, {"issueKnown", ` AND until > clock_timestamp()`, ``},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[ledgertest.Opener]{
				Violations: ledgertest.RaiseViolations, Blocking: []string{"raise-ends"},
			}
			trial.Convict(t, c.clause,
				func() ledgertest.Opener {
					p := pgtest.EmptyPool(t)
					create(t, p, nil)
					return func(doubtFor time.Duration) ledgertest.RaisingLedger {
						l := pgledger.New(p, &pgledger.Options{DoubtFor: doubtFor})
						for _, change := range c.changes {
							l = l.Broken(change.statement, change.part, change.instead)
						}
						return l
					}
				})
		})
	}
}
