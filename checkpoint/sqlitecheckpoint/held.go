package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlitestore"
)

const heldSQL = `
		SELECT session FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session IN (SELECT value FROM json_each(?2)) AND nonce <> '' AND lease_until > ?3`

// Held is one statement.
func (s *Store) Held(ctx context.Context, orchestrator string, sessions []string) (held []string, err error) {
	st, err := s.db.Start(ctx, checkpoint.ValidateHeld(orchestrator, sessions))
	var list []byte
	if err == nil {
		list, err = json.Marshal(sessions)
	}
	if err == nil {
		rows, e := st[heldSQL].QueryContext(ctx, orchestrator, string(list), time.Now().UnixMicro())
		held, err = sqlitestore.Collect(rows, e, scanSession)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlitecheckpoint: held: %w", s.db.Explain(ctx, err))
	}
	return held, nil
}

func scanSession(rows *sql.Rows) (session string, err error) {
	err = rows.Scan(&session)
	return session, err
}
