package pgsnapshot_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func open(t *testing.T) *pgsnapshot.Store {
	return pgsnapshot.New(pgtest.PoolWith(t, pgsnapshot.New(nil, nil).Schema()), nil)
}

// These statements look right, but PostgreSQL lets a call through that the contract refuses.
const (
	insertRun = `
		INSERT INTO {runs} AS r (orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce,
			found, payload, error, not_before, parts, payload_version, started_at, saved_at)
		SELECT $1, $2, $3, $4, $5::integer, $6::integer, $7, $8, $9::bigint, $10::bigint, $11,
			0, $12::jsonb, $13, {later}, false, {clock}, clock_timestamp(), clock_timestamp() `

	overwrite = `
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			id = excluded.id, epoch = excluded.epoch, nonce = excluded.nonce, payload = excluded.payload,
			status = excluded.status, seq = excluded.seq, attempt = excluded.attempt, deleted_at = NULL `

	beginRun = `
		UPDATE {runs} SET id = $3, request_id = $4, turn = $5, attempt = $6, base = $7, status = $8, seq = $9, epoch = $10,
			nonce = $11, payload = $12::jsonb, error = $13, not_before = {later}, deleted_at = NULL
		WHERE orchestrator = $1 AND session = $2 AND deleted_at IS NOT NULL `

	saveRun = `
		UPDATE {runs} SET request_id = $6, turn = $7, attempt = $8, base = $9, status = $10, seq = $11,
			payload = coalesce($12::jsonb, payload), error = $13, not_before = {later}
		WHERE orchestrator = $1 AND session = $2 AND id = $3 AND %s
		RETURNING 0::bigint, ''`

	byOwner = `epoch = $4 AND nonce = $5 AND seq < $11`

	saveThatCreates = `
		INSERT INTO {runs} AS r (orchestrator, session, id, epoch, nonce, request_id, turn, attempt, base, status, seq,
			found, payload, error, not_before, parts, payload_version, started_at, saved_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
			0, $12::jsonb, $13, {later}, false, 1, clock_timestamp(), clock_timestamp())
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			seq = excluded.seq, payload = excluded.payload, status = excluded.status
		WHERE r.id = $3 AND r.epoch = $4 AND r.nonce = $5 AND r.seq < $11
		RETURNING 0::bigint, ''`

	partsOfAnyOwner = `
		WITH r AS (
			UPDATE {runs} SET request_id = $6, turn = $7, attempt = $8, base = $9, status = $10, seq = $11,
				payload = coalesce($12::jsonb, payload), error = $13, not_before = {later}, parts = true
			WHERE orchestrator = $1 AND session = $2 AND id = $3 AND epoch = $4 AND nonce = $5 AND seq < $11
			RETURNING payload_version
		), p AS (
			INSERT INTO {run_parts} (orchestrator, session, payload_version, name, doc)
			SELECT $1, $2, h.payload_version, n.name, n.doc::jsonb
			FROM {runs} h, unnest($15::text[], $16::text[]) AS n (name, doc)
			WHERE h.orchestrator = $1 AND h.session = $2
			ON CONFLICT (orchestrator, session, payload_version, name) DO UPDATE SET doc = excluded.doc
		)
		SELECT payload_version, '' FROM r`

	deleteWithoutID = `
		UPDATE {runs} SET deleted_at = clock_timestamp(), status = 'deleted', payload = NULL
		WHERE orchestrator = $1 AND session = $2 AND $3 <> '' AND epoch = $4 AND nonce = $5
		RETURNING 0::bigint, ''`

	adoptEqualEpoch = `
		UPDATE {runs} SET attempt = attempt + least($5::integer, 1), epoch = $3, nonce = $4
		WHERE orchestrator = $1 AND session = $2 AND epoch <= $3
		RETURNING {columns}, ''`

	adoptOnlyRuns = `
		WITH u AS (
			UPDATE {runs} SET attempt = attempt + least($5::integer, 1), epoch = $3, nonce = $4
			WHERE orchestrator = $1 AND session = $2 AND deleted_at IS NULL AND (epoch < $3 OR epoch = $3 AND nonce = $4)
			RETURNING {columns}
		)
		SELECT *, '' FROM u
		UNION ALL
		SELECT $1::text, $2::text, '', '', 0, 0, '', 'deleted', 0::bigint, $3::bigint, $4::text, NULL::jsonb, '',
			NULL::timestamptz, clock_timestamp(), clock_timestamp(), 0::bigint, false, ''
		WHERE NOT EXISTS (SELECT FROM u)`

	adoptWhatWasRead = `
		WITH seen AS MATERIALIZED (
			SELECT * FROM {runs} WHERE orchestrator = $1 AND session = $2
		), waited AS (
			SELECT pg_sleep(0.002) FROM seen
		), u AS (
			UPDATE {runs} r SET epoch = $3, nonce = $4, attempt = r.attempt + least($5::integer, 1)
			FROM waited
			WHERE r.orchestrator = $1 AND r.session = $2 AND r.epoch < $3
			RETURNING r.epoch
		)
		SELECT s.orchestrator, s.session, s.id, s.request_id, s.turn, s.attempt + 1, s.base, s.status, s.seq, $3::bigint,
			$4::text, s.payload, s.error, s.not_before, s.started_at, s.saved_at, 0::bigint, true, ''
		FROM seen s, u`
)

func TestSuiteConvicts(t *testing.T) {
	for name, c := range map[string]struct{ statement, sql, clause string }{
		"a conflict that overwrites": {"create", insertRun + overwrite, "begin-in-flight"},
		"a Begin that looks before it waits": {"create", insertRun + `
			WHERE NOT EXISTS (SELECT FROM {runs} WHERE orchestrator = $1 AND session = $2) ` + overwrite, "begin-race"},
		"a Begin that looks at the fence before it waits": {
			"begin", beginRun + `
			AND pg_sleep(0.002) IS NOT NULL AND EXISTS (
				SELECT FROM {runs}
				WHERE orchestrator = $1 AND session = $2 AND (epoch < $10 OR epoch = $10 AND nonce = $11 AND id <> $3))`,
			"adopt-kept-race",
		},
		"a Begin under any fence": {"begin", beginRun, "begin-late"},
		"a Begin that forgets which run was deleted": {"begin", beginRun + `
			AND (epoch < $10 OR epoch = $10 AND nonce = $11)`, "begin-copy"},
		"a save that creates": {"save", saveThatCreates, "save-never-creates"},
		"a save by a fence that is not lower": {
			"save",
			fmt.Sprintf(saveRun, `epoch <= $4 AND $5 <> '' AND seq <= $11`), "save-very-fence",
		},
		"a save that ignores seq":       {"save", fmt.Sprintf(saveRun, `epoch = $4 AND nonce = $5`), "save-seq"},
		"a save of a run that is over":  {"save", fmt.Sprintf(saveRun, byOwner), "save-late"},
		"a save that keeps other parts": {"save", fmt.Sprintf(saveRun, byOwner), "parts-replaced"},
		"parts of any owner":            {"saveParts", partsOfAnyOwner, "parts-fenced"},
		"a delete without the id":       {"delete", deleteWithoutID, "delete-id"},

		"an adoption that lets an equal epoch in":          {"adopt", adoptEqualEpoch, "adopt-fenced"},
		"an adoption that finds no run and keeps no fence": {"adopt", adoptOnlyRuns, "adopt-kept-race"},
		"an adoption that returns what it read first":      {"adopt", adoptWhatWasRead, "adopt-save-race"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			convict(t, c.clause, func() snapshot.Store { return open(t).Broken(c.statement, c.sql) })
		})
	}
}

// convict fails unless the clause catches the store. A race shows the fault soon, but not each time.
func convict(t *testing.T, clause string, newStore func() snapshot.Store) {
	t.Helper()
	suite.Trial[snapshot.Store]{Violations: snapshottest.Violations, Tries: 6}.Convict(t, clause, newStore)
}

// cleansNothing stands for a clean that never comes.
const cleansNothing = `SELECT $1::text, $2::text, $3::bigint`

// No part of a former payload is read, although the part is still there.
func TestPartsThatAreNotCleaned(t *testing.T) {
	t.Parallel()
	newStore := func() *pgsnapshot.Store { return open(t).Broken("clean", cleansNothing) }
	for clause, err := range snapshottest.Violations(t.Context(), func() snapshot.Store { return newStore() }) {
		t.Errorf("%s: %v", clause, err)
	}
	const ofAnyPayload = `
		SELECT name, doc FROM {run_parts} WHERE orchestrator = $1 AND session = $2 AND $3::bigint > 0 AND $4 <> ''`
	for _, clause := range []string{"parts-replaced", "parts-deleted"} {
		convict(t, clause, func() snapshot.Store { return newStore().Broken("parts", ofAnyPayload) })
	}
}
