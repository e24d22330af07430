package stream_test

import "testing"

// These statements look right, and break the contract.
func TestConvicts(t *testing.T) {
	t.Parallel()
	const (
		chunks   = `DELETE FROM "holdfast_chunks" WHERE orchestrator = $1 AND session = $2 AND EXISTS`
		appended = `h.last, h.first, c.lazy`
		slowly   = `h.last, h.first, c.lazy || pg_sleep(0.003)`
	)
	t.Run("postgres", func(t *testing.T) {
		onPostgres.TestConvicts(t, map[string][]string{
			"any epoch":                      {"append-superseded", `s.epoch <= excluded.epoch AND`, ``},
			"the epoch is the first one":     {"append-new-owner", `epoch = excluded.epoch, status`, `epoch = s.epoch, status`},
			"the run is the first one":       {"read-newest", `run = excluded.run,`, `run = s.run,`},
			"each Append is a run":           {"read-newest", `WHEN s.run = excluded.run THEN s.start`, `WHEN false THEN s.start`},
			"chunks come in any order":       {"append-race", `ORDER BY c.last`, `ORDER BY md5(c.last::text)`},
			"nothing is trimmed":             {"keep", `>= 2 *`, `>= 100000 *`},
			"too much is trimmed":            {"keep", `- $7::bigint + 1 ELSE s.first`, `ELSE s.first`},
			"a run starts where it ends":     {"starts", `min(c.first)`, `max(c.last)`},
			"runs start before what is kept": {"keep", `greatest(min(c.first), min(s.first))`, `min(c.first) - 1`},
			"Delete leaves the chunks":       {"delete-anew", chunks, `SELECT 1 WHERE EXISTS`},
			"all lives are one":              {"delete-next", `s.life::text`, `''`},
			"Delete does not wait":           {"delete-race", `FOR UPDATE`, ``, appended, slowly},
			"Delete removes what it has not locked": {
				"delete-race", `AND current_setting('holdfast.locked') = '1'`, ``,
				`count(*)::text`, `count(*)::text || pg_sleep(0.002)`, appended, slowly,
			},
		})
	})
}
