package pgstate_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A level that a role asks for is raised to the level of a durable commit, and never lowered.
func TestLevel(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	for level, want := range map[string]string{
		"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply",
	} {
		c, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		c.RuntimeParams["synchronous_commit"] = level
		conn, err := pgx.ConnectConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		var first, again string
		var firm bool
		// A batch is one transaction.
		var b pgx.Batch
		b.Queue("SELECT " + pgstate.Durable).QueryRow(func(row pgx.Row) error { return row.Scan(&first) })
		b.Queue("SELECT set_config('synchronous_commit', 'off', true)")
		b.Queue("SELECT " + pgstate.DurableAgain).QueryRow(func(row pgx.Row) error { return row.Scan(&again) })
		b.Queue("SELECT " + pgstate.Firm).QueryRow(func(row pgx.Row) error { return row.Scan(&firm) })
		if err := conn.SendBatch(t.Context(), &b).Close(); err != nil {
			t.Fatal(err)
		}
		var left string
		if err := conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&left); err != nil {
			t.Fatal(err)
		}
		if first != want || again != want || !firm || left != level {
			t.Errorf("%s becomes %s, %s and %s, want %s; firm is %v", level, first, again, left, want, firm)
		}
	}
}
