package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const raiseSQL = `
		UPDATE {prefix}sessions SET epoch = max(epoch + 1, ?1), nonce = '', lease_until = min(lease_until, ?1)
		WHERE nonce <> ''`

// Raise implements lock.Raiser, in one statement. It returns how many sessions had an owner.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	st, err := s.db.Start(ctx)
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[raiseSQL]).ExecContext(ctx, time.Now().UnixMicro()))
			ended = int(n)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("sqlitecheckpoint: raise: %w", s.db.Explain(ctx, err))
	}
	return ended, nil
}
