package sqliteledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
)

const (
	raiseSQL = `
		INSERT INTO {prefix}effect_raises (epoch, lost, until, why)
		SELECT max(?1, 1 + ` + floor + `), ?2, ?3, ?4`

	// aheadSQL ends the fences of a clock that is ahead of this one. The table takes no empty nonce. No caller has this
	// one: nonces are random.
	aheadSQL = `UPDATE {prefix}effect_fences SET nonce = 'raised' WHERE epoch > ` + floor

	endSQL = `
		UPDATE {prefix}effects INDEXED BY {prefix}effects_open SET state = 'unknown', finished_at = ?1
		WHERE state = 'issued' AND ` + open
)

// Raise implements lock.Raiser, in one transaction. It returns how many effects were Issued. It looks at all fences.
func (l *Ledger) Raise(ctx context.Context, lost time.Time) (ended int, err error) {
	st, err := l.db.Start(ctx)
	if err == nil {
		err = l.db.Write(ctx, func(tx *sql.Tx) (err error) {
			ended, err = l.raise(ctx, run{sqlitestore.Within(tx, st)}, lost)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("sqliteledger: raise: %w", l.db.Explain(ctx, err))
	}
	return ended, nil
}

func (l *Ledger) raise(ctx context.Context, do run, lost time.Time) (ended int, err error) {
	open, why := ledger.WindowOf(lost, l.doubt)
	now := time.Now()
	since := sql.NullInt64{Int64: lost.UnixMicro(), Valid: !lost.IsZero()}
	if _, err := do.Wrote(ctx, raiseSQL, now.UnixMicro(), since, now.Add(open).UnixMicro(), why); err != nil {
		return 0, err
	}
	if _, err := do.Wrote(ctx, aheadSQL); err != nil {
		return 0, err
	}
	n, err := sqlitestore.Affected(do.Exec(ctx, endSQL, now.UnixMicro()))
	return int(n), err
}
