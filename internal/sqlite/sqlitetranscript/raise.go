package sqlitetranscript

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const raiseSQL = `INSERT INTO {prefix}message_raises (number) VALUES (?1) ON CONFLICT (number) DO NOTHING`

// Raise implements [transcript.Raiser]. It writes one row.
func (s *Store) Raise(ctx context.Context) error {
	st, err := s.db.Start(ctx)
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			_, err := sqlitestore.Within(tx, st).Wrote(ctx, raiseSQL, time.Now().UnixMicro())
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("sqlitetranscript: raise: %w", s.explain(ctx, err))
	}
	return nil
}
