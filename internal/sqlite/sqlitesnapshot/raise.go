package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// No caller has this nonce, because nonces are random.
const raiseSQL = `
		UPDATE {prefix}runs SET epoch = max(epoch, ?1), nonce = 'raised'
		WHERE nonce <> 'raised'`

// Raise implements lock.Raiser, in one statement. It returns of how many sessions a fence was known.
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
		return 0, fmt.Errorf("sqlitesnapshot: raise: %w", s.db.Explain(ctx, err))
	}
	return ended, nil
}
