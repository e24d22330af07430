package transcript_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

// These statements look right, and break the contract.
func TestPostgresConvicts(t *testing.T) {
	onPostgres.TestConvicts(t, map[string][]string{
		"who comes second overwrites": {"append-other", `AND NOT EXISTS (SELECT FROM added)`, `AND false`},
		"an id is that of all sessions": {
			"sessions-apart", `session = $2::text AND id = $3::text`, `$2::text IS NOT NULL AND id = $3::text`,
		},
		"numbers of the newest row": {
			"append-once", `DO UPDATE SET last = greatest(t.last + $4::bigint, excluded.last)`, `DO UPDATE SET last = excluded.last + (
				SELECT count(*) FROM "holdfast_messages" WHERE orchestrator = $1 AND session = $2)`,
		},
		"Read leaves out the entry that the span begins in": {"read", `AND m.last >= `, `AND m.first >= `},
		"Copy does so":                            {"copy-part", `AND m.last >= `, `AND m.first >= `},
		"Copy finds what is there":                {"copy-again", `WHERE NOT there AND`, `WHERE`},
		"Copy overlaps":                           {"copy-taken", `bool_and(fits)`, `bool_or(fits)`},
		"Copy copies an entry of two spans twice": {"copy-part", `m.first > s.before`, `s.before >= 0`},
		"Copy copies what fits":                   {"copy-taken", `AND (SELECT fits FROM verdict)`, ``},
		"Copy leaves the newest number":           {"copy-then-append", `t.last < a.last`, `t.last > a.last`},
		"Copy lowers the newest number":           {"copy-then-append", `t.last < a.last`, `t.last <> a.last`},
		"Copy keeps ids": {
			"copy-ids", `(orchestrator, session, first, last, at, body)
			SELECT $3::text, $4::text, first, last, clock_timestamp()`,
			`(orchestrator, session, first, last, id, at, body)
			SELECT $3::text, $4::text, first, last, chr(96 + first::int), clock_timestamp()`,
		},
		"Trim looks at one end":              {"trim-part", `width_bucket(last, `, `width_bucket(first, `},
		"Trim takes the newest":              {"trim-newest", `AND first < (`, `AND first <= (`},
		"Trim is late":                       {"trim-before", `at < $5::timestamptz`, `at <= $5::timestamptz + interval '1 day'`},
		"Trim counts entries":                {"trim", `sum(messages)`, `count(messages)`},
		"numbers go on after all is deleted": {"trim-all", `(t.last = 0 OR $3::boolean)`, `t.last = 0`},
		"a copy of nothing is a session":     {"trim-all", `t.last = 0 OR $3::boolean`, `false`},
	})
}

// These statements look right too, and give a number again after a Raise.
func TestPostgresRaiseConvicts(t *testing.T) {
	raising := onPostgres
	raising.Violations = func(ctx context.Context, open func() transcript.Store, names ...string) map[string]error {
		return transcripttest.RaiseViolations(ctx, func() transcripttest.RaisingStore {
			return open().(transcripttest.RaisingStore)
		}, names...)
	}
	raising.TestConvicts(t, map[string][]string{
		"a session that is known goes on": {
			"raise", `greatest(t.last + $4::bigint, excluded.last)`, `t.last + $4::bigint`,
		},
		"a session that is unknown begins at 1": {
			"raise-unknown", `r.orchestrator = '' AND r.session = ''`,
			`r.orchestrator = '' AND EXISTS (SELECT FROM "holdfast_transcripts" k
				WHERE k.orchestrator = $1::text AND k.session = $2::text)`,
		},
		"a second Raise does nothing": {
			"raise-again", `DO UPDATE SET last = greatest(t.last, excluded.last)`, `DO UPDATE SET last = t.last`,
		},
		"the next one leaps too": {
			"raise", `greatest(t.last + $4::bigint, excluded.last)`, `t.last + excluded.last`,
		},
	})
}
