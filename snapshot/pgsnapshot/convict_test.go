package pgsnapshot_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Statements that look right, and that PostgreSQL lets through where it should not.
func TestSuiteConvicts(t *testing.T) {
	const values = `($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::jsonb, $13, $14)`
	const insert = `INSERT INTO {runs} (orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, payload, error, not_before) VALUES ` + values
	for name, c := range map[string]struct{ statement, sql, clause string }{
		"a conflict that does nothing, and a SELECT beside it": {"begin", `
			WITH i AS (` + insert + ` ON CONFLICT DO NOTHING RETURNING {columns})
			SELECT {columns}, false, '' FROM i
			UNION ALL
			SELECT {columns}, true, '' FROM {runs} WHERE orchestrator = $1 AND session = $2`, "begin-race"},
		"a conflict that overwrites": {"begin", insert + `
			ON CONFLICT (orchestrator, session) DO UPDATE SET id = excluded.id, epoch = excluded.epoch, nonce = excluded.nonce, payload = excluded.payload
			RETURNING {columns}, met, ''`, "begin-in-flight"},
		"a save that creates": {"save", `
			INSERT INTO {runs} (orchestrator, session, id, epoch, nonce, request_id, turn, attempt, base, status, seq, payload, error, not_before)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::jsonb, $13, $14)
			ON CONFLICT (orchestrator, session) DO UPDATE SET seq = excluded.seq, payload = excluded.payload, status = excluded.status
			WHERE runs.id = $3 AND runs.epoch = $4 AND runs.nonce = $5 AND runs.seq < $11`, "save-never-creates"},
		"a save by a fence that is not lower": {"save", `
			UPDATE {runs} SET request_id = $6, turn = $7, attempt = $8, base = $9, status = $10, seq = $11, payload = $12::jsonb, error = $13, not_before = $14
			WHERE orchestrator = $1 AND session = $2 AND id = $3 AND epoch <= $4 AND $5 <> '' AND seq <= $11`, "save-very-fence"},
		"a save that ignores seq": {"save", `
			UPDATE {runs} SET request_id = $6, turn = $7, attempt = $8, base = $9, status = $10, seq = $11, payload = $12::jsonb, error = $13, not_before = $14
			WHERE orchestrator = $1 AND session = $2 AND id = $3 AND epoch = $4 AND nonce = $5`, "save-seq"},
		"a delete without the id": {"delete", `
			DELETE FROM {runs} WHERE orchestrator = $1 AND session = $2 AND $3 <> '' AND epoch = $4 AND nonce = $5`, "delete-id"},
		"an adoption that lets an equal epoch in": {"adopt", `
			UPDATE {runs} SET attempt = attempt + least($5::integer, 1), epoch = $3, nonce = $4
			WHERE orchestrator = $1 AND session = $2 AND epoch <= $3 RETURNING {columns}, met, ''`, "adopt-fenced"},
		"an adoption that is fenced by what began since": {"inFlight", `
			SELECT id, 9223372036854775807, nonce, seq FROM {runs} WHERE orchestrator = $1 AND session = $2`, "adopt-begin-race"},
		"an adoption that returns what it read first": {"adopt", `
			WITH seen AS MATERIALIZED (SELECT * FROM {runs} WHERE orchestrator = $1 AND session = $2), waited AS (SELECT pg_sleep(0.002) FROM seen),
			u AS (
				UPDATE {runs} r SET epoch = $3, nonce = $4, attempt = r.attempt + least($5::integer, 1)
				FROM waited WHERE r.orchestrator = $1 AND r.session = $2 AND r.epoch < $3 RETURNING r.epoch)
			SELECT s.orchestrator, s.session, s.id, s.request_id, s.turn, s.attempt + 1, s.base, s.status, s.seq, $3::bigint, $4::text, s.payload, s.error, s.not_before, s.started_at, s.saved_at, s.met, ''
			FROM seen s, u`, "adopt-save-race"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for tries := 0; ; tries++ { // a race is lost soon, but not each time
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				found := snapshottest.Violations(ctx, func() snapshot.Store { return open(t, nil, nil).Broken(c.statement, c.sql) }, c.clause)
				cancel()
				if found[c.clause] != nil {
					return
				}
				if tries == 5 {
					t.Fatalf("clause %s accepts it", c.clause)
				}
			}
		})
	}
}
