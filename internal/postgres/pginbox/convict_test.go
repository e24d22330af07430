package pginbox_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// A change replaces a part of a statement.
type change struct{ statement, part, instead string }

// These statements look right, and break the contract.
func TestSuiteConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause  string
		changes []change
	}{
		"the last one stays": {"post-second", []change{{
			"post", `DO NOTHING`, `DO UPDATE SET posted_by = excluded.posted_by, data = excluded.data`,
		}}},
		"who comes second is the first": {"race", []change{{"post", `posted_by = $5::text, ''`, `true, $5::text`}}},
		"who repeats is not the first":  {"post-again", []change{{"post", `posted_by = $5::text, ''`, `posted_by <> $5::text, ''`}}},
		"order is by id":                {"items-order", []change{{"list", `session, at, id`, `session, id`}}},
		"order is by time":              {"items-sessions", []change{{"list", `BY session, at, id`, `BY at, id`}}},
		"all kinds":                     {"kinds-apart", []change{{"list", `kind = $2::text`, `($2::text IS NOT NULL)`}}},
		"Remove of a kind takes all":    {"remove-kind", []change{{"remove kind", `kind = $3::text`, `($3::text IS NOT NULL)`}}},
		"Remove takes patterns":         {"remove-literally", []change{{"remove ids", `id = ANY`, `id LIKE ANY`}}},
		"Remove of answers only":        {"remove-all", []change{{"remove all", `session = $2::text`, `session = $2::text AND kind = 'answer'`}}},
		"Remove takes all sessions":     {"sessions-apart", []change{{"remove all", `session = $2::text`, `lower(session) = lower($2::text)`}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[inbox.Store]{Violations: inboxtest.Violations, Tries: 6}
			trial.Convict(t, c.clause, func() inbox.Store {
				s := open(t)
				for _, change := range c.changes {
					s = s.Broken(change.statement, change.part, change.instead)
				}
				return s
			})
		})
	}
}
