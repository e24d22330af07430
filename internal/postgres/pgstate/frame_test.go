package pgstate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
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
	db := pgstate.New(conn, pgstate.Names{})
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

// Results that come as text have times in the style of ISO, whatever the session says. The session keeps its own style.
func TestFrameSetsStyle(t *testing.T) {
	t.Parallel()
	for mode, want := range map[pgx.QueryExecMode]string{
		pgx.QueryExecModeCacheStatement: "German", pgx.QueryExecModeExec: "ISO", pgx.QueryExecModeSimpleProtocol: "ISO",
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			c, err := pgx.ParseConfig(testenv.PostgresURL(t))
			if err != nil {
				t.Fatal(err)
			}
			c.DefaultQueryExecMode, c.RuntimeParams["DateStyle"] = mode, "German"
			conn, err := pgx.ConnectConfig(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			db := pgstate.New(conn, pgstate.Names{})
			var at time.Time
			var style string
			err = db.Again(t.Context(), func() error {
				rows, err := db.Query(t.Context(), "SELECT now(), current_setting('DateStyle')")
				if err != nil {
					return err
				}
				_, err = pgx.ForEachRow(rows, []any{&at, &style}, func() error { return nil })
				return err
			})
			if err != nil || at.IsZero() || !strings.HasPrefix(style, want) {
				t.Errorf("the store reads %v in style %q, %v", at, style, err)
			}
			err = conn.QueryRow(t.Context(), "SELECT current_setting('DateStyle')").Scan(&style)
			if err != nil || !strings.HasPrefix(style, "German") {
				t.Errorf("the style of the session is %q, %v", style, err)
			}
		})
	}
}
