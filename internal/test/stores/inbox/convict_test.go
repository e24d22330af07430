package inbox_test

import "testing"

// These statements look right, and break the contract.
func TestConvicts(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		onPostgres.TestConvicts(t, map[string][]string{
			"the last one stays": {
				"post-second",
				`DO NOTHING`, `DO UPDATE SET posted_by = excluded.posted_by, data = excluded.data`,
			},
			"who comes second is the first": {"race", `posted_by = $5::text, ''`, `true, $5::text`},
			"who repeats is not the first":  {"post-again", `posted_by = $5::text, ''`, `posted_by <> $5::text, ''`},
			"order is by id":                {"items-order", `BY session, at, id`, `BY session, id`},
			"order is by time":              {"items-sessions", `BY session, at, id`, `BY at, id`},
			"all kinds":                     {"kinds-apart", `kind = $2::text`, `($2::text IS NOT NULL)`},
			"Remove of a kind takes all": {
				"remove-kind",
				"kind = $3::text\n\t\t\tRETURNING", "($3::text IS NOT NULL) RETURNING",
			},
			"Remove takes patterns": {"remove-literally", `id = ANY`, `id LIKE ANY`},
			"Remove of answers only": {
				"remove-all",
				"session = $2::text\n\t\t\tRETURNING", "session = $2::text AND kind = 'answer' RETURNING",
			},
			"Remove takes all sessions": {
				"sessions-apart",
				"session = $2::text\n\t\t\tRETURNING", "lower(session) = lower($2::text) RETURNING",
			},
		})
	})
}
