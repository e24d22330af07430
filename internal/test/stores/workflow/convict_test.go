package workflow_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

// These statements look right, and break the contract. Each has the clause that it breaks, and pairs of texts.
var convicted = map[string][]string{
	"no fence":                   {"write-fenced", `epoch = $2::bigint AND nonce = $3::text AND`, `$2::bigint > 0 AND $3::text <> '' AND`},
	"no nonce":                   {"write-fenced", `nonce = $3::text AND owner`, `$3::text <> '' AND owner`},
	"who gave it back writes":    {"write-given-back", `AND owner <> ''`, ``},
	"mail is not compared":       {"write-mail", `OR mail = $4::bigint)`, `OR true)`},
	"a key forgets its input":    {"start-reused", `AND input = $3::jsonb)`, `AND $3::jsonb IS NOT NULL)`},
	"two owners":                 {"claim", `m.due <= now()`, `(m.due IS NULL OR m.due <= now())`},
	"a wait outlives its claim":  {"claim-wait", `hold = '', error = '', event = NULL, match = NULL`, `hold = '', error = ''`},
	"claims are by id":           {"claim-order", `ORDER BY l.due, l.id LIMIT`, `ORDER BY l.id LIMIT`},
	"Again is of all processes":  {"claim-again", `m.owner = $2::text AND m.nonce =`, `$2::text <> '' AND m.nonce =`},
	"Again is of all nonces":     {"claim-again", `AND m.nonce = $4::text`, `AND $4::text <> ''`},
	"a lease is over at once":    {"claim-lease", `m.since < now() - $5::bigint * interval '1 microsecond' AND`, `$5::bigint > 0 AND`},
	"beats do not matter":        {"claim-lease-beats", `b.process = m.owner AND`, `false AND`},
	"one crash too many":         {"crashes", `crashes >= $4::integer AS held`, `crashes > $4::integer AS held`},
	"progress does not count":    {"crashes-progress", `CASE WHEN crashed = rows THEN crashes + 1 ELSE 1 END`, `crashes + 1`},
	"a try is progress":          {"crashes-tries", `NOT IN ('retrying', 'late')`, `NOT IN ('late')`},
	"Resume forgets no crash":    {"crashes-resumed", `, crashes = 0`, ``},
	"a row that is over changes": {"rows-replaced", `o.outcome IN ('open', 'retrying')`, `o.outcome IN ('open', 'retrying', 'done')`},
	"a late row stays":           {"record-counts-not", `(o.outcome = 'late' OR o.outcome IN`, `(o.outcome IN`},
	"a deadline is forgotten":    {"rows-replaced", `coalesce(excluded.until, o.until)`, `excluded.until`},
	"Started is of the end":      {"rows-replaced", `THEN excluded.started ELSE o.started`, `THEN excluded.started ELSE excluded.started`},
	"a signal of another run":    {"rows-signal", `g.run = $1::text AND g.id = s.signal`, `$1::text <> '' AND g.id = s.signal`},
	"a sleep is cut short":       {"park", `c.now + $6::bigint * interval '1 microsecond'`, `c.now + $6::bigint * interval '0.4 microsecond'`},
	"a match is ignored":         {"signal-other", `$4::jsonb @> m.match`, `$4::jsonb IS NOT NULL`},
	"a match is turned round":    {"match", `$4::jsonb @> m.match`, `$4::jsonb <@ m.match`},
	"an unwanted signal is kept": {"signal-wanted", `o.hit OR NOT $5::boolean`, `o.hit OR $5::boolean IS NOT NULL`},
	"a signal wakes nobody":      {"signal-consumed", `least(m.due, clock_timestamp())`, `m.due`},
	"two waits sleep on":         {"signal-any", `o.hit OR o.looks`, `o.hit`},
	"a pause fences nobody off":  {"write-again", `match = NULL, epoch = m.epoch + 1`, `match = NULL`},
	"a journal is by index":      {"steps-order", `started, idx, name`, `idx, name`},
	"oldest first":               {"runs-order", `m.started DESC, m.id DESC`, `m.started, m.id DESC`},
	"waits are by id":            {"runs-event", `ORDER BY m.since, m.id`, `ORDER BY m.id`},
	"waits are by start":         {"runs-event", `since = c.now, event`, `event`},
	"a child of what is over":    {"child-refused", `WHERE m.id = $11::text AND m.status || '' = 'running' FOR SHARE`, `WHERE m.id = $11::text FOR SHARE`},
	"a copy by time alone":       {"fork", `CASE WHEN rtrim(s.name, replace(s.name, '/', '')) =`, `CASE WHEN '' <>`},
	"a copy of what is open":     {"fork", `s.outcome IN ('done', 'timeout', 'failed')`, `s.outcome <> 'late'`},
	"a copy has its signals":     {"fork", `s.until, '', s.started`, `s.until, s.signal, s.started`},
	"a fork is fresh":            {"fork", `1 + 0 * $9::bigint`, `0 * $9::bigint`},
	"a rewind fences nobody off": {"rewind", `epoch = m.epoch + 1, nonce = $3::text,`, `nonce = $3::text,`},
	"a rewind takes no signal":   {"rewind", `SET taken = '' FROM d`, `SET taken = g.taken FROM d`},
	"a rewind cancels them all":  {"rewind", `AND s.output = to_jsonb(m.id)`, `AND false`},
	"a rewind sees the past":     {"race-rewind", `WHERE id = $1::text FOR NO KEY UPDATE`, `WHERE id = $1::text`},
	"children are by id":         {"child", `ORDER BY m.started DESC, m.id DESC LIMIT`, `ORDER BY m.id DESC LIMIT`},
	"children alone are ended": {"cancel-family", `UNION ALL
			SELECT m.id FROM d, LATERAL`, `UNION ALL SELECT m.id FROM (SELECT id FROM d WHERE false) d, LATERAL`},
	"who was over has children":  {"cancel-not-family", `r.status || '' = 'cancelled'`, `r.status || '' <> 'running'`},
	"a key stays where it was":   {"debounce-begun", `SET key = NULL`, `SET key = key`},
	"what has begun is moved":    {"debounce-begun", `(status <> 'running' OR nonce <> '')`, `status <> 'running'`, `AND status || '' = 'running' AND nonce = ''`, ``},
	"a move forgets its delay":   {"debounce", `ELSE clock_timestamp() + $5::bigint`, `ELSE clock_timestamp() + 0 * $5::bigint`},
	"a move forgets its input":   {"debounce", `SET input = $4::jsonb, due`, `SET input = coalesce(input, $4::jsonb), due`},
	"a move lets go on":          {"debounce-held", `CASE WHEN due = 'infinity' THEN due`, `CASE WHEN due = 'infinity' THEN now()`},
	"a repeat moves":             {"debounce-again", `WHERE id = $1::text)`, `WHERE id = $1::text AND false)`},
	"two have the lock":          {"race-limit", `AND holder = txid_current_if_assigned()`, ``, `ORDER BY due, id LIMIT greatest`, `ORDER BY random() LIMIT greatest`},
	"no lock":                    {"race-limit", `WHERE workflow = $1::text FOR NO KEY UPDATE SKIP LOCKED`, `WHERE false`, `AND holder = txid_current_if_assigned()`, ``},
	"begins at once":             {"race-begins", `AND holder = txid_current_if_assigned()`, ``},
	"versions count apart":       {"limit-runs", `AND m.version = v.version AND m.due IS NULL`, `AND m.version = v.version AND m.version = 1 AND m.due IS NULL`},
	"a group is forgotten":       {"limit-groups", `'=' || $11::text`, `'=' || left($11::text, 0)`},
	"a claim forgets the group":  {"limit-groups", `place = '!' || coalesce(substr(m.place, 2), '')`, `place = '!'`},
	"a wake takes a token":       {"limit-begins", `m.nonce <> '' AS begun`, `false AS begun`},
	"tokens are not taken":       {"limit-begins", `SET tokens = tokens - (`, `SET tokens = tokens - 0 * (`},
	"the first ones block":       {"limit-backlog", `(SELECT count(*) FROM w) >= $8::bigint AND`, `(SELECT count(*) FROM w) < 0 AND`},
	"the limited never wait":     {"limit-runs", `$5::bigint - (SELECT coalesce(sum(owned), 0) FROM o)`, `$5::bigint`},
	"keys are of any workflow":   {"runs-keys", `m.workflow = $1::text AND m.key`, `$1::text <> '' AND m.key`},
	"the least key first":        {"runs-keys", `ORDER BY m.key DESC`, `ORDER BY m.key`},
	"a store is never full":      {"subscribe-most", `) < $6::bigint`, `) < $6::bigint + 1`},
	"subscriptions are unsorted": {"subscribe", `FROM "holdfast_workflow_subscriptions" ORDER BY id`, `FROM "holdfast_workflow_subscriptions" ORDER BY pattern`},
	"all subscriptions go":       {"subscribe", `subscriptions" WHERE id = $1::text`, `subscriptions" WHERE $1::text <> ''`},
}

func TestConvicts(t *testing.T) {
	t.Run("postgres", func(t *testing.T) { onPostgres.TestConvicts(t, convicted) })
}

// tampered returns what makes stores whose statements are changed.
func tampered(t *testing.T, pairs ...string) func() hooked {
	return func() hooked {
		p := pgtest.EmptyPool(t)
		onPostgres.On(t, p, "")
		return onPool(p, pgworkflow.New(pgtest.Tamper(p, pairs...), nil))
	}
}

// These break the clauses about calls that meet an open change, and about long times.
func TestPostgresConvictsHooked(t *testing.T) {
	for name, c := range map[string][]string{
		"a write takes no lock":      {"open-write", `OR mail = $4::bigint) FOR NO KEY UPDATE`, `OR mail = $4::bigint)`},
		"a signal tells of the past": {"open-signal-over", `ELSE 'again' END`, `ELSE 'kept' END`},
		"a child sees no end": {
			"open-child-over", `m.status || '' = 'running' FOR SHARE`, `m.status || '' = 'running'`,
		},
		"a family is not looked at again": {
			"open-cancel-begun-deep", `1 / (count(*) = 0)::integer`, `1 / (count(*) >= 0)::integer`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[workflowtest.OpeningStore]{Violations: workflowtest.OpeningViolations, Tries: 2}
			open := tampered(t, c[1:]...)
			trial.Convict(t, c[0], func() workflowtest.OpeningStore { return open() })
		})
	}
	for name, c := range map[string][]string{
		"a sweep comes early":         {"retention", `< now() AT TIME ZONE 'UTC'`, `< now() AT TIME ZONE 'UTC' + interval '1 hour'`},
		"a sweep comes late":          {"retention", `< now() AT TIME ZONE 'UTC'`, `< now() AT TIME ZONE 'UTC' - interval '1 hour'`},
		"a sweep keeps the journal":   {"retention", `USING d WHERE run = d.id`, `USING d WHERE run = d.id AND false`},
		"a sweep takes a running run": {"retention-running", `m.status <> 'running'`, `true`, `(completed AT`, `(coalesce(completed, started) AT`},
		"a sleep ends early":          {"deadline", `m.due <= now()`, `m.due <= now() + interval '90 minutes'`},
		"a bucket has no bottom":      {"limit-refill", `least(1 + $2::float8 / 10,`, `least(100,`},
		"a bucket stays empty":        {"limit-refill", `$2::float8 * greatest(`, `0 * greatest(`},
		"a wait has no deadline":      {"deadline-wait", `c.now + $6::bigint * interval '1 microsecond'`, `'infinity'::timestamptz + $6::bigint * interval '0'`},
		"a process is known an hour":  {"unknown-not", `n.at > now() - interval '1 day'`, `n.at > now() - interval '1 hour'`},
		"who stops has known nothing": {"unknown-not", `clock_timestamp() - interval '5 minutes'`, `clock_timestamp() - interval '5 days'`},
		"what is due is unknown":      {"unknown", `m.due < now() - interval '1 day'`, `m.due < now()`},
		"a process lives for an hour": {"living", `at > now() - interval '5 minutes'`, `at > now() - interval '1 hour'`},
		"a lease is longer":           {"lease", `m.since < now() - $5::bigint *`, `m.since < now() - 3 * $5::bigint *`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[workflowtest.AgingStore]{Violations: workflowtest.AgingViolations}
			open := tampered(t, c[1:]...)
			trial.Convict(t, c[0], func() workflowtest.AgingStore { return open() })
		})
	}
}

// Statements of SQLite that break the contract.
func TestSQLiteConvicts(t *testing.T) {
	for name, c := range map[string][]string{
		"a wait outlives its claim": {"claim-wait", `due = NULL, event = '', match = NULL
		WHERE id = ?1
		RETURNING`, `due = NULL WHERE id = ?1 RETURNING`},
		"Again is of all nonces":    {"claim-again", `AND nonce = ?4`, `AND ?4 <> ''`},
		"a lease is over at once":   {"claim-lease", `AND since < ?3`, `AND ?3 > 0`},
		"beats do not matter":       {"claim-lease-beats", `WHERE process = owner AND at >=`, `WHERE process = '' AND at >=`},
		"a try is progress":         {"crashes-tries", `outcome <> 'retrying' AND`, ``},
		"Resume forgets no crash":   {"crashes-resumed", `, crashes = 0`, ``},
		"a deadline is forgotten":   {"rows-replaced", `coalesce(excluded.until, until)`, `excluded.until`},
		"a signal of another run":   {"rows-signal", `taken = 1 WHERE run = ?1 AND`, `taken = 1 WHERE ?1 <> '' AND`},
		"a signal does not count":   {"claim", `SET mail = mail + 1 WHERE`, `SET mail = mail WHERE`},
		"a signal wakes nobody":     {"signal-consumed", `due = min(due, ?2)`, `due = coalesce(due, ?2)`},
		"a pause fences nobody":     {"write-again", "match = NULL,\n\t\t\tepoch = epoch + 1", `match = NULL`},
		"a start forgets its keys":  {"start-key", `WHERE workflow = ?1 AND key = ?2`, `WHERE workflow = ?1 AND key = ?2 AND status = 'running'`},
		"waits are by start":        {"runs-event", `match = ?4, since = ?5`, `match = ?4, since = since + 0 * ?5`},
		"a copy by time alone":      {"fork", `iif(rtrim(s.name, replace(s.name, '/', '')) =`, `iif('' <>`},
		"a rewind takes no signal":  {"rewind", `SET taken = 0 WHERE`, `SET taken = taken WHERE`},
		"a rewind cancels no child": {"rewind", `json_extract(output, '$') = m.id`, `json_extract(output, '$') <> ''`},
		"children alone are ended":  {"cancel-family", `ON m.parent = d.id`, `ON m.parent = d.id AND 0`},
		"the least key first":       {"runs-keys", `ORDER BY key DESC`, `ORDER BY key`},
		"all subscriptions go":      {"subscribe", `subscriptions WHERE id = ?1`, `subscriptions WHERE ?1 <> ''`},
		"versions count apart":      {"limit-runs", `AND m.version = v.version AND m.status`, `AND m.version = 1 AND v.version = 1 AND m.status`},
		"a group is forgotten":      {"limit-groups", `(SELECT name FROM holdfast_workflow_groups WHERE run = id)`, `NULL`},
		"a wake takes a token":      {"limit-begins", `SELECT id, due, nonce <> ''`, `SELECT id, due, 0`, `(?6 OR nonce <> '')`, `?6`},
		"what has begun is moved":   {"debounce-begun", `status = 'running' AND nonce = ''`, `status = 'running'`},
		"a move forgets its input":  {"debounce", `SET input = ?2 WHERE`, `SET input = iif(?2 = '', ?2, input) WHERE`},
		"a move lets go on":         {"debounce-held", `iif(due = 4611686018427387904, due, ?2)`, `?2`},
		"tokens are not kept":       {"limit-begins", `tokens, at) VALUES (?1, ?2, ?3)`, `tokens, at) VALUES (?1, ?2 + 1, ?3)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[workflow.Store]{Violations: workflowtest.Violations, Tries: 2}
			trial.Convict(t, c[0], func() workflow.Store {
				_, db := sqlitetest.Tamper(t, testenv.SQLite(t), c[1:]...)
				return onSQLite(t, db, "")
			})
		})
	}
}

// These break the clauses about calls that meet an open change, and about long times.
func TestSQLiteConvictsHooked(t *testing.T) {
	tampered := func(t *testing.T, pairs ...string) func() hooked {
		return func() hooked {
			_, db := sqlitetest.Tamper(t, testenv.SQLite(t), pairs...)
			return hooks(db, onSQLite(t, db, "").(*sqliteworkflow.Store))
		}
	}
	for name, c := range map[string][]string{
		"a write sees no end":        {"open-write-over", `SELECT status, owner, epoch`, `SELECT 'running', owner, epoch`},
		"a write sees no takeover":   {"open-write", `owner, epoch, nonce, mail`, `owner, 1, 'start of r', mail`},
		"a signal sees no end":       {"open-signal-over", `SELECT status, due IS NOT NULL`, `SELECT 'running', due IS NOT NULL`},
		"a signal counts once more":  {"open-signal-again", `ON CONFLICT (run, id) DO NOTHING`, `ON CONFLICT (run, id) DO UPDATE SET at = at`},
		"a claim takes what is over": {"open-claim", `status = 'running' AND due IS NULL`, `status <> '' AND due IS NULL`, `AND owner = ?3`, `AND ?3 <> ''`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[workflowtest.OpeningStore]{Violations: workflowtest.OpeningViolations}
			open := tampered(t, c[1:]...)
			trial.Convict(t, c[0], func() workflowtest.OpeningStore { return open() })
		})
	}
	for name, c := range map[string][]string{
		"a sweep comes early":         {"retention", `WHERE expires < ?1`, `WHERE expires - 3600000000 < ?1`, `AND expires < ?2`, `AND ?2 > 0`},
		"a sweep comes late":          {"retention", `WHERE expires < ?1`, `WHERE expires + 3600000000 < ?1`},
		"a sweep keeps the journal":   {"retention", `DELETE FROM holdfast_workflow_steps WHERE`, `DELETE FROM holdfast_workflow_steps WHERE 0 AND`},
		"a sweep takes a running run": {"retention-running", `WHERE expires < ?1`, `WHERE iif(status = 'running', 0, expires) < ?1`, `AND expires < ?2`, `AND ?2 > 0`},
		"a sweep heeds no limit":      {"retention-limit", `ORDER BY expires LIMIT ?2`, `AND ?2 > 0`},
		"a sleep ends early":          {"deadline", `SELECT due FROM`, `SELECT due - 5400000000 FROM`, `AND due <= ?3`, `AND due - 5400000000 <= ?3`},
		"a process is known an hour":  {"unknown-not", `version = ?2 AND at > ?3`, `version = ?2 AND at - 82800000000 > ?3`},
		"who stops has known nothing": {"unknown-not", `SET at = ?2 WHERE process`, `SET at = 0 * ?2 WHERE process`},
		"what is due is unknown":      {"unknown", `AND due < ?3 AND hold = ''`, `AND due - 86400000000 < ?3 AND hold = ''`},
		"a process lives for an hour": {"living", `workflow = ?1 AND at > ?2`, `workflow = ?1 AND at + 3300000000 > ?2`},
		"a lease is longer":           {"lease", `AND since < ?3`, `AND since + 60000000 < ?3`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[workflowtest.AgingStore]{Violations: workflowtest.AgingViolations}
			open := tampered(t, c[1:]...)
			trial.Convict(t, c[0], func() workflowtest.AgingStore { return open() })
		})
	}
}
