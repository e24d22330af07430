package turnlog_test

import "testing"

// These statements look right, and break the contract.
func TestConvicts(t *testing.T) {
	const openSet = `open = coalesce(greatest(l.settled, excluded.settled) <= greatest(l.started, excluded.started),
				l.settled IS NULL AND excluded.settled IS NULL)`
	const open, settled = `NOT open AND`, `settled = greatest(l.settled, excluded.settled)`
	t.Run("postgres", func(t *testing.T) {
		onPostgres.TestConvicts(t, map[string][]string{
			"order is lost":                      {"restore-order", `ORDER BY p.at, p.phase`, `ORDER BY md5(p.at::text)`},
			"ties are lost":                      {"turns-ties", `ORDER BY p.at, p.phase`, `ORDER BY p.at, p.phase DESC`},
			"the first entry is what came first": {"turns-summary", `least(l.first, excluded.first)`, `l.first`},
			"a list by the last entry":           {"turns", `ORDER BY l.first, l.run`, `ORDER BY z.at, l.run`},
			"the number of the last entry":       {"turns-number", `greatest(l.turn, excluded.turn)`, `excluded.turn`},
			"what has settled stays open":        {"turns", openSet, `open = l.open`},
			"what has settled never opens":       {"turns-anew", openSet, `open = l.open AND excluded.settled IS NULL`},
			"each phase opens":                   {"turns-late", openSet, `open = excluded.settled IS NULL`},
			"the last Settled that came counts": {
				"prune-anew-settled", settled, `settled = coalesce(l.settled, excluded.settled)`,
			},
			"Prune of what is open": {"prune-anew-settled", open, ``},
			"Prune of lines only": {
				"prune-race", `DELETE FROM "holdfast_phases" p USING gone WHERE p.run = gone.run`, `SELECT`,
			},
			"Prune does not wait": {
				"prune-race", `FOR UPDATE`, ``, openSet + "\n\t\tRETURNING", openSet + " RETURNING pg_sleep(0.003) ||",
			},
		})
	})
}
