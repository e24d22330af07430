package pgturnlog_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// A change replaces a part of a statement.
type change struct{ statement, part, instead string }

// These statements look right, and break the contract.
func TestSuiteConvicts(t *testing.T) {
	const openSet = `open = coalesce(greatest(l.settled, excluded.settled) <= greatest(l.started, excluded.started),
				l.settled IS NULL AND excluded.settled IS NULL)`
	for name, c := range map[string]struct {
		clause  string
		changes []change
	}{
		"order is lost":                      {"restore-order", []change{{"restore", `ORDER BY p.at, p.phase`, `ORDER BY md5(p.at::text)`}}},
		"ties are lost":                      {"turns-ties", []change{{"restore", `p.at, p.phase`, `p.at, p.phase DESC`}}},
		"the first entry is what came first": {"turns-summary", []change{{"record", `least(l.first, excluded.first)`, `l.first`}}},
		"a list by the last entry":           {"turns", []change{{"list", `ORDER BY l.first, l.run`, `ORDER BY z.at, l.run`}}},
		"the number of the last entry":       {"turns-number", []change{{"record", `greatest(l.turn, excluded.turn)`, `excluded.turn`}}},
		"what has settled stays open":        {"turns", []change{{"record", openSet, `open = l.open`}}},
		"what has settled never opens":       {"turns-anew", []change{{"record", openSet, `open = l.open AND excluded.settled IS NULL`}}},
		"each phase opens":                   {"turns-late", []change{{"record", openSet, `open = excluded.settled IS NULL`}}},
		"the last Settled that came counts":  {"prune-anew-settled", []change{{"record", `settled = greatest(l.settled, excluded.settled)`, `settled = coalesce(l.settled, excluded.settled)`}}},
		"Prune of what is open":              {"prune-anew-settled", []change{{"idle", `NOT open AND`, ``}, {"forget", `NOT open AND`, ``}}},
		"Prune of lines only":                {"prune-race", []change{{"forget", `DELETE FROM {phases} p USING gone WHERE p.run = gone.run`, `SELECT`}}},
		"Prune does not wait":                {"prune-race", []change{{"lock", `FOR UPDATE`, ``}, {"record", `RETURNING {durable}`, `RETURNING {durable} || pg_sleep(0.003)`}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[turnlog.Log]{Violations: turnlogtest.Violations, Tries: 6}
			trial.Convict(t, c.clause, func() turnlog.Log {
				l := open(t)
				for _, change := range c.changes {
					l = l.Broken(change.statement, change.part, change.instead)
				}
				return l
			})
		})
	}
}
