package sqliteledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	adoptSQL = `
		INSERT INTO {prefix}effect_fences AS old (run_id, epoch, nonce, since)
		SELECT ?1, ?2, ?3, ?4 WHERE ?2 > ` + floor + `
		ON CONFLICT (run_id) DO UPDATE SET
			epoch = excluded.epoch,
			nonce = excluded.nonce,
			since = excluded.since
		WHERE old.epoch < excluded.epoch`

	fenceSQL = `
		SELECT epoch, nonce FROM {prefix}effect_fences
		WHERE run_id = ?1 AND epoch > ` + floor

	// INDEXED BY is needed: an analyzed SQLite may prefer the index of what is open.
	unknownSQL = `
		UPDATE {prefix}effects INDEXED BY {prefix}effects_run SET state = 'unknown', finished_at = ?4
		WHERE run_id = ?1 AND state = 'issued' AND (epoch <> ?2 OR nonce <> ?3)`
)

// Adopt is one transaction: it writes the fence, and makes Unknown what other fences have left Issued to the run.
func (l *Ledger) Adopt(ctx context.Context, runID string, f lock.Fence) error {
	if err := l.adopt(ctx, runID, f); err != nil {
		return fmt.Errorf("sqliteledger: adopt %q: %w", runID, l.db.Explain(ctx, err))
	}
	return nil
}

func (l *Ledger) adopt(ctx context.Context, runID string, f lock.Fence) error {
	st, err := l.db.Start(ctx, ledger.ValidateAdopt(runID, f))
	if err != nil {
		return err
	}
	return l.db.Write(ctx, func(tx *sql.Tx) error { return run{sqlitestore.Within(tx, st)}.adopt(ctx, runID, f) })
}

// adopt makes f the fence of the run. Its first statement writes, so that a transaction may begin with it.
func (do run) adopt(ctx context.Context, runID string, f lock.Fence) error {
	now := time.Now().UnixMicro()
	adopted, err := do.Wrote(ctx, adoptSQL, runID, f.Epoch, f.Nonce, now)
	if err != nil {
		return err
	}
	if adopted {
		_, err = do.Wrote(ctx, unknownSQL, runID, f.Epoch, f.Nonce, now)
		return err
	}
	known, err := sqlitestore.One(ctx, do.Runner, scanFence, fenceSQL, runID)
	if err == nil && (known == nil || *known != f) {
		err = lock.ErrFenced
	}
	return err
}

func scanFence(rows *sql.Rows) (f lock.Fence, err error) {
	if err := rows.Scan(&f.Epoch, &f.Nonce); err != nil {
		return f, fmt.Errorf("%w: stored fence: %w", ledger.ErrDamaged, err)
	}
	return f, nil
}
