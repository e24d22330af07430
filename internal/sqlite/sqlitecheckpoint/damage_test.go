package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A spoiled store damages sessions by hand, past the checks of the tables.
type spoiled struct {
	*sqlitecheckpoint.Store
	db         *sql.DB
	head, turn string
}

func (s spoiled) by(ctx context.Context, format string, args ...any) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, text := range []string{
		"PRAGMA ignore_check_constraints = on", fmt.Sprintf(format, args...), "PRAGMA ignore_check_constraints = off",
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (s spoiled) DamageHead(ctx context.Context, k checkpoint.Key) error {
	return s.by(ctx, "UPDATE holdfast_sessions SET %s WHERE session = '%s'", s.head, k.Session)
}

func (s spoiled) LoseHead(ctx context.Context, k checkpoint.Key) error {
	return s.by(ctx, "DELETE FROM holdfast_sessions WHERE session = '%s'", k.Session)
}

func (s spoiled) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	return s.by(ctx, "UPDATE holdfast_turns SET %s WHERE session = '%s' AND turn = %d", s.turn, k.Session, turn)
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ head, turn string }{
		{"born = 0", "state = '{'"},
		{"summarized = -1", "payload = '['"},
		{"failed = -1", "route = 'x'"},
		{"summarized = 99", "run_id = ''"},
	} {
		t.Run(c.head, func(t *testing.T) {
			checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				return spoiled{create(t, db, nil), db, c.head, c.turn}
			})
		})
	}
}

func TestOutgrown(t *testing.T) {
	t.Parallel()
	checkpointtest.RunOutgrown(t, func(t *testing.T) checkpointtest.DamagingStore {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		const large = "state = '[' || replace(hex(zeroblob(400000)), '00', '{},') || '{}]'"
		return spoiled{create(t, db, nil), db, "", large}
	})
}
