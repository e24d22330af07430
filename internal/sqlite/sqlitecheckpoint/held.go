package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const heldSQL = `
		SELECT session, owner FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session IN (SELECT value FROM json_each(?2)) AND nonce <> '' AND lease_until > ?3`

// Held is one statement.
func (s *Store) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (owners map[string]string, err error) {
	st, err := s.db.Start(ctx, checkpoint.ValidateHeld(orchestrator, sessions))
	var list []byte
	var held [][2]string
	if err == nil {
		list, err = json.Marshal(sessions)
	}
	if err == nil {
		rows, e := st[heldSQL].QueryContext(ctx, orchestrator, string(list), time.Now().UnixMicro())
		held, err = sqlitestore.Collect(rows, e, scanHeld)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlitecheckpoint: held: %w", s.db.Explain(ctx, err))
	}
	owners = make(map[string]string, len(held))
	for _, h := range held {
		owners[h[0]] = h[1]
	}
	return owners, nil
}

// scanHeld returns a session and its owner.
func scanHeld(rows *sql.Rows) (held [2]string, err error) {
	err = rows.Scan(&held[0], &held[1])
	return held, err
}
