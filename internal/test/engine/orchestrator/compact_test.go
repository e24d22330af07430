package orchestrator_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// An archive is a user's own message store, in SQL.
type archive struct {
	db *sql.DB
	ph func(n int) string // placeholder
}

func newArchive(t *testing.T, db *sql.DB, ph func(int) string) *archive {
	t.Helper()
	_, err := db.ExecContext(t.Context(),
		`CREATE TABLE messages (session text, turn integer, text text, PRIMARY KEY (session, turn))`)
	if err != nil {
		t.Fatal(err)
	}
	return &archive{db, ph}
}

// deliver stores a turn's messages. Repeated deliveries store them once.
func (a *archive) deliver(ctx context.Context, r *Result) error {
	_, err := a.db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO messages VALUES (%s, %s, %s) ON CONFLICT DO NOTHING`,
		a.ph(1), a.ph(2), a.ph(3)),
		r.Session, r.Turn, r.Input.Text)
	return err
}

// summarize replaces a range by one row, in one transaction. Repeated calls replace it once.
func (a *archive) summarize(ctx context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return orchestrator.Usage{}, err
	}
	defer tx.Rollback()
	where := fmt.Sprintf(` WHERE session = %s AND turn <= %s`, a.ph(1), a.ph(2))
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM messages`+where, r.Session,
		r.Through).Scan(&n); err != nil {
		return orchestrator.Usage{}, err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM messages`+where, r.Session, r.Through); err != nil {
		return orchestrator.Usage{}, err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO messages VALUES (%s, %s, %s)`, a.ph(1), a.ph(2), a.ph(3)),
		r.Session, r.Through, "summary")
	if err != nil {
		return orchestrator.Usage{}, err
	}
	return orchestrator.Usage{Input: n}, tx.Commit()
}

func (a *archive) texts(t *testing.T) []string {
	t.Helper()
	rows, err := a.db.QueryContext(t.Context(), `SELECT text FROM messages ORDER BY turn`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Forty turns, with the messages in the same database as the session.
func TestCompactionInSQL(t *testing.T) {
	worlds := map[string]func(t *testing.T) (checkpoint.Store, *archive){
		"sqlite": func(t *testing.T) (checkpoint.Store, *archive) {
			db, err := sql.Open("sqlite", testenv.SQLite(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			store := sqlitecheckpoint.New(db, nil)
			if _, err := db.ExecContext(t.Context(), store.Schema()); err != nil {
				t.Fatal(err)
			}
			return store, newArchive(t, db, func(n int) string { return fmt.Sprint("?", n) })
		},
		"postgres": func(t *testing.T) (checkpoint.Store, *archive) {
			pool := testenv.Postgres(t)
			db := stdlib.OpenDBFromPool(pool)
			t.Cleanup(func() { _ = db.Close() })
			return pgcheckpoint.New(pool, nil), newArchive(t, db, func(n int) string { return fmt.Sprint("$", n) })
		},
	}
	for name, open := range worlds {
		t.Run(name, func(t *testing.T) {
			store, messages := open(t)
			d := echo()
			d.Deliver = messages.deliver
			bot := world{Checkpoints: store}.Start(t, d,
				Options{Compaction: orchestrator.Compaction{After: 12, Run: messages.summarize}})
			most := 0
			for i := range 40 {
				execute(t, bot, Input{Text: fmt.Sprint(i)})
				most = max(most, len(messages.texts(t)))
			}
			got := messages.texts(t)
			if most > 13 || got[0] != "summary" ||
				!slices.Equal(got[len(got)-8:], []string{"32", "33", "34", "35", "36", "37", "38", "39"}) {
				t.Errorf("at most %d messages; in the end %q", most, got)
			}
		})
	}
}
