package pgledger

import (
	"math"

	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
	"github.com/holdfast-go/holdfast/ledger"
)

// carried says that the effect e is one that the fence has issued, and that its other attempts did not happen.
const carried = `e.id = f.id AND e.attempts = f.attempt AND e.state = 'issued' AND NOT e.unsure
			AND e.run_id = $3::text AND e.epoch = $4::bigint AND e.nonce = $5::text`

// The statements of a batch. They read the parameters of a Save: $1 and $2 name the session, $3 is
// the id of the run, and $4 and $5 are the fence.
const (
	// A Raise that comes meanwhile waits, as for issue.
	carryReady = `
		NOT EXISTS (SELECT FROM {effects} WHERE id = ANY ($17::text[]))
		AND NOT EXISTS (SELECT FROM {effect_fences} WHERE run_id = $3::text AND (epoch, nonce) <> ($4::bigint, $5::text))
		AND NOT EXISTS (SELECT FROM {effect_raises} r WHERE epoch >= $4::bigint OR until > clock_timestamp()
			AND EXISTS (SELECT FROM unnest($26::bigint[]) AS d (after) WHERE d.after < r.epoch))
		AND coalesce(cardinality($27::text[]), 0) = (
			SELECT count(*) FROM {effects} e, unnest($27::text[], $28::integer[]) AS f (id, attempt) WHERE ` + carried + `)`

	carryWrite = `
		held AS (
			SELECT 1 FROM {effect_fences}
			WHERE run_id = $3::text AND epoch = $4::bigint AND nonce = $5::text AND EXISTS (SELECT FROM r) FOR SHARE
		), first AS (
			INSERT INTO {effect_fences} AS f (run_id, epoch, nonce, since)
			SELECT $3::text, $4::bigint, $5::text, clock_timestamp() FROM r WHERE NOT EXISTS (SELECT FROM held)
			ON CONFLICT (run_id) DO UPDATE SET since = f.since WHERE f.epoch = excluded.epoch AND f.nonce = excluded.nonce
			RETURNING 1
		), issued AS (
			INSERT INTO {effects} (` + columns + `, state, attempts, issued_at)
			SELECT i.id, $3::text, $4::bigint, $5::text, $1::text, $2::text, i.iteration, i.intent, i.name, i.each, i.key, i.class,
				i.args_sum, nullif(i.args, '')::jsonb, false, 'issued', 1, clock_timestamp()
			FROM (SELECT 1 FROM held UNION ALL SELECT 1 FROM first) AS owner, unnest(
				$17::text[], $18::integer[], $19::text[], $20::text[], $21::text[], $22::text[], $23::integer[], $24::text[], $25::text[]
			) WITH ORDINALITY AS i (id, iteration, intent, name, each, key, class, args_sum, args, place)
			ORDER BY i.place
			ON CONFLICT (id) DO NOTHING
			RETURNING 1
		), finished AS (
			UPDATE {effects} e SET
				state = f.state, result = nullif(f.result, '')::jsonb, redacted = f.redacted, error = f.error, finished_at = clock_timestamp()
			FROM r, unnest(
				$27::text[], $28::integer[], $29::text[], $30::text[], $31::text[], $32::boolean[]
			) AS f (id, attempt, state, result, error, redacted)
			WHERE ` + carried + `
			RETURNING 1
		)`

	carryDone = `(SELECT count(*) FROM issued) = coalesce(cardinality($17::text[]), 0)
		AND (SELECT count(*) FROM finished) = coalesce(cardinality($27::text[]), 0)`
)

// BatchPart returns the part of this ledger. BatchArgs are its parameters.
func (l *Ledger) BatchPart() pgjoin.Cargo {
	fill := whole(l.db)
	return pgjoin.Cargo{DB: l.db, Ready: fill.Replace(carryReady), Write: fill.Replace(carryWrite), Done: carryDone}
}

// BatchArgs returns the parameters of BatchPart. There is no NULL in an array, which not all modes of the driver
// can send: "" is no document.
func BatchArgs(b ledger.Batch) []any {
	var issue struct {
		ids, intents, names, eaches, keys, sums, args []string
		iterations, classes                           []int
		doubts                                        []int64
	}
	for _, e := range b.Issue {
		issue.ids, issue.intents = append(issue.ids, e.ID), append(issue.intents, e.Intent)
		issue.names, issue.eaches = append(issue.names, e.Name), append(issue.eaches, e.Each)
		issue.keys, issue.sums = append(issue.keys, e.Key), append(issue.sums, e.ArgsSum)
		issue.iterations, issue.classes = append(issue.iterations, e.Iteration), append(issue.classes, int(e.Class))
		after := int64(math.MaxInt64) // no Raise concerns it
		if us, ok := e.DoubtedAfter(); ok {
			after = us
		}
		issue.args, issue.doubts = append(issue.args, string(e.Args)), append(issue.doubts, after)
	}
	var finish struct {
		ids, states, results, errors []string
		attempts                     []int
		redacted                     []bool
	}
	for _, f := range b.Finish {
		o := f.Outcome
		finish.ids, finish.attempts = append(finish.ids, f.ID), append(finish.attempts, f.Attempt)
		finish.states, finish.errors = append(finish.states, string(o.State)), append(finish.errors, o.Error)
		finish.results, finish.redacted = append(finish.results, string(o.Result)), append(finish.redacted, o.Redacted)
	}
	return []any{
		issue.ids, issue.iterations, issue.intents, issue.names, issue.eaches, issue.keys, issue.classes, issue.sums,
		issue.args, issue.doubts,
		finish.ids, finish.attempts, finish.states, finish.results, finish.errors, finish.redacted,
	}
}
