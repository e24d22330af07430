package workflow_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

// ageFile makes all times of a file older. A run that is never due stays so.
var ageFile = []string{
	`UPDATE holdfast_workflow_runs SET due = CASE WHEN due < 1 << 61 THEN due - $1 ELSE due END, since = since - $1,
		started = started - $1, completed = completed - $1, expires = expires - $1`,
	`UPDATE holdfast_workflow_steps SET until = until - $1, started = started - $1, completed = completed - $1`,
	`UPDATE holdfast_workflow_signals SET at = at - $1`,
	`UPDATE holdfast_workflow_definitions SET at = at - $1`,
	`UPDATE holdfast_workflow_limits SET at = at - $1`,
	`UPDATE holdfast_beats SET at = at - $1`,
}

func hookedFile(t *testing.T) hooked {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	return hooks(db, onSQLite(t, db, "").(*sqliteworkflow.Store))
}

var forFile = strings.NewReplacer("{never}", "1 << 62", "{input}", "", "{value}", "", "{lock}",
	"INSERT INTO holdfast_workflow_inputs VALUES ('begun', '{}' || substr($1, 1, 0))")

func hooks(db *sql.DB, s *sqliteworkflow.Store) hooked {
	return hooked{
		store: s,
		age: func(ctx context.Context, d time.Duration) (err error) {
			for _, text := range ageFile {
				_, e := db.ExecContext(ctx, text, d.Microseconds())
				err = errors.Join(err, e)
			}
			return err
		},
		open: func(ctx context.Context, run string, c workflowtest.Change) (commit func() error, err error) {
			conn, err := db.Conn(ctx)
			if err != nil {
				return nil, err
			}
			_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
			for _, text := range changes[c] {
				_, e := conn.ExecContext(ctx, forFile.Replace(text), run)
				err = errors.Join(err, e)
			}
			return func() error {
				_, err := conn.ExecContext(ctx, "COMMIT")
				return errors.Join(err, conn.Close())
			}, err
		},
	}
}

// TestSQLiteDamaged damages each column in ways that the constraints of the tables would not let pass.
func TestSQLiteDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ run, step string }{
		{"input = '{'", "output = '{'"},
		{"input = CAST(x'ff' AS TEXT)", "output = CAST(x'ff' AS TEXT)"},
		{"completed = 5", "outcome = 'odd'"},
		{"hold = 'odd'", "kind = 'odd'"},
		{"started = -1", "started = -1"},
		{"version = 0", "idx = -1"},
		{"started = 9e17", "completed = 9e17"},
		{"input = ''", "output = ''"},
	} {
		t.Run(c.run, func(t *testing.T) {
			t.Parallel()
			workflowtest.RunDamaged(t, func(t *testing.T) workflowtest.DamagingStore {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				h := hooks(db, onSQLite(t, db, "").(*sqliteworkflow.Store))
				h.damage = func(ctx context.Context, run, step string) error {
					text := "UPDATE holdfast_workflow_runs SET " + c.run + " WHERE id = ? AND '' = ?"
					switch {
					case step != "":
						text = "UPDATE holdfast_workflow_steps SET " + c.step + " WHERE run = ? AND name = ?"
					case strings.HasPrefix(c.run, "input"):
						text = "UPDATE holdfast_workflow_inputs SET " + c.run + " WHERE run = ? AND '' = ?"
					}
					return spoilFile(ctx, db, text, run, step)
				}
				return h
			})
		})
	}
}

// spoilFile executes a statement that the constraints of the tables would not let pass.
func spoilFile(ctx context.Context, db *sql.DB, text string, args ...any) error {
	_, err := db.ExecContext(ctx, "PRAGMA ignore_check_constraints = on")
	if err == nil {
		_, err = db.ExecContext(ctx, text, args...)
	}
	_, off := db.ExecContext(ctx, "PRAGMA ignore_check_constraints = off")
	return errors.Join(err, off)
}
