package sqliteledger

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// carriedSQL is finishSQL for an effect that the fence has issued, and whose other attempts did not happen.
const carriedSQL = `
		UPDATE {prefix}effects SET state = ?3, result = ?4, redacted = ?7, error = ?5, finished_at = ?6
		WHERE id = ?1 AND attempts = ?2 AND state = 'issued' AND unsure = 0 AND run_id = ?8 AND epoch = ?9 AND nonce = ?10`

// DB returns the database of the ledger.
func (l *Ledger) DB() *sqlitestore.DB { return l.db }

// CarryIn writes b for the run under f, in a transaction of the store of runs that has written. If b is not plain, as
// snapshot.SaveEffects says, taken is false, and the caller rolls the transaction back.
func (l *Ledger) CarryIn(
	ctx context.Context, tx *sql.Tx, runID string, f lock.Fence, b ledger.Batch,
) (taken bool, err error) {
	st, err := l.db.Start(ctx)
	if err != nil {
		return false, err
	}
	do := run{sqlitestore.Within(tx, st)}
	for _, o := range b.Finish {
		taken, err := do.Wrote(ctx, carriedSQL, o.ID, o.Attempt, string(o.Outcome.State), orNull(o.Outcome.Result),
			o.Outcome.Error, time.Now().UnixMicro(), o.Outcome.Redacted, runID, f.Epoch, f.Nonce)
		if !taken || err != nil {
			return false, err
		}
	}
	adopted := false
	for _, e := range b.Issue {
		taken, err := do.addPlain(ctx, e)
		if !taken && !adopted && err == nil { // the first effect of a run brings the fence with it
			if err = do.adopt(ctx, runID, f); err == nil {
				taken, err = do.addPlain(ctx, e)
			}
			adopted = true
		}
		if !taken || err != nil {
			return false, err
		}
	}
	return true, nil
}

// addPlain adds e as Issued. If the effect is known, or a Raise puts it in doubt, or another fence is the run's,
// addPlain reports false.
func (do run) addPlain(ctx context.Context, e ledger.Effect) (bool, error) {
	after, concerned := e.DoubtedAfter()
	p := put{fresh: first(e, ledger.Issued), doubt: sql.NullInt64{Int64: after, Valid: concerned}}
	f, written, err := do.insert(ctx, p)
	return written && f.State == ledger.Issued, err
}
