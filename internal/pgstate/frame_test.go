package pgstate_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A frame that fails leaves no failed transaction to the others on its connection.
func TestFrameFails(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	db := pgstate.New(conn)
	db.Frame()
	for name, fail := range map[string]func() error{
		"exec": func() error {
			_, err := db.Exec(t.Context(), "SELECT 1/0")
			return err
		},
		"query": func() error {
			rows, err := db.Query(t.Context(), "SELECT 1/0")
			if err == nil {
				_, err = pgx.CollectRows(rows, pgx.RowTo[int])
			}
			return err
		},
		"batch": func() error {
			var b pgx.Batch
			b.Queue("SELECT 1")
			b.Queue("SELECT 1/0")
			return db.SendBatch(t.Context(), &b).Close()
		},
	} {
		if err := fail(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := conn.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("%s: the next statement on the connection: %v", name, err)
		}
		if _, err := db.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("%s: the next frame: %v", name, err)
		}
	}
}
