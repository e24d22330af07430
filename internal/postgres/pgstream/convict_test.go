package pgstream_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

// A change replaces a part of a statement.
type change struct{ statement, part, instead string }

// These statements look right, and break the contract.
func TestSuiteConvicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		clause  string
		changes []change
	}{
		"any epoch":                  {"append-superseded", []change{{"append", `s.epoch <= excluded.epoch AND`, ``}}},
		"the epoch is the first one": {"append-new-owner", []change{{"append", `epoch = excluded.epoch, status`, `epoch = s.epoch, status`}}},
		"the run is the first one":   {"read-newest", []change{{"append", `run = excluded.run,`, `run = s.run,`}}},
		"each Append is a run":       {"read-newest", []change{{"append", `WHEN s.run = excluded.run THEN s.start`, `WHEN false THEN s.start`}}},
		"chunks come in any order":   {"append-race", []change{{"page", `ORDER BY c.last`, `ORDER BY md5(c.last::text)`}}},
		"nothing is trimmed":         {"keep", []change{{"append", `>= 2 *`, `>= 100000 *`}}},
		"too much is trimmed":        {"keep", []change{{"append", `- $7::bigint + 1 ELSE s.first`, `ELSE s.first`}}},
		"Delete leaves the chunks":   {"delete-anew", []change{{"forget", `DELETE FROM {chunks} WHERE`, `SELECT FROM {chunks} WHERE`}}},
		"all lives are one":          {"delete-next", []change{{"page", `s.life::text`, `''`}}},
		"Delete does not wait": {"delete-race", []change{
			{"lock", `FOR UPDATE`, ``}, {"append", `h.last, h.first, c.lazy`, `h.last, h.first, c.lazy || pg_sleep(0.003)`},
		}},
		"Delete removes what it has not locked": {"delete-race", []change{
			{"forget", `AND current_setting('holdfast.locked') = '1'`, ``},
			{"lock", `count(*)::text`, `count(*)::text || pg_sleep(0.002)`},
			{"append", `h.last, h.first, c.lazy`, `h.last, h.first, c.lazy || pg_sleep(0.003)`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[stream.Store]{Violations: streamtest.Violations, Tries: 6}
			trial.Convict(t, c.clause, func() stream.Store {
				s := open(t)
				for _, change := range c.changes {
					s = s.Broken(change.statement, change.part, change.instead)
				}
				return s
			})
		})
	}
}
