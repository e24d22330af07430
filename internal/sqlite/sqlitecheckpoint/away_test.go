package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A divided store cannot write some of its rows: a trigger refuses them. What only reads finds them.
type divided struct {
	*sqlitecheckpoint.Store
	db *sql.DB
}

func (d divided) TakeAway(
	ctx context.Context, _ string, sessions []string,
) (away []string, back func(), err error) {
	for i, id := range sessions {
		if i%3 == 1 {
			away = append(away, id)
			if _, err := d.db.ExecContext(ctx, "INSERT INTO down VALUES (?)", id); err != nil {
				return nil, nil, err
			}
		}
	}
	return away, func() { _, _ = d.db.ExecContext(ctx, "DELETE FROM down") }, nil
}

func TestRowsAway(t *testing.T) {
	t.Parallel()
	checkpointtest.RunDivided(t, func(t *testing.T) checkpointtest.DividedStore {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		s := create(t, db, nil)
		_, err := db.ExecContext(t.Context(), `
			CREATE TABLE down (session TEXT PRIMARY KEY);
			CREATE TRIGGER bad BEFORE UPDATE ON holdfast_sessions
			WHEN EXISTS (SELECT 1 FROM down WHERE session = OLD.session) BEGIN SELECT RAISE(ABORT, 'bad row'); END`)
		if err != nil {
			t.Fatal(err)
		}
		return divided{s, db}
	})
}
