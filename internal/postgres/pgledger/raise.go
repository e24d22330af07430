package pgledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/ledger"
)

// Raise implements lock.Raiser, in one transaction. It waits for transactions that issue effects, such as those of
// [Tx], and calls that come later wait for Raise. It returns how many effects were Issued. It looks at all fences.
func (l *Ledger) Raise(ctx context.Context, lost time.Time) (ended int, err error) {
	open, why := ledger.WindowOf(lost, l.doubt)
	since := &lost
	if lost.IsZero() {
		since = nil
	}
	err = l.db.Pipe(ctx, func(b *pgx.Batch) {
		b.Queue(l.sql.lockRaises)
		b.Queue(l.sql.raise, since, open.Microseconds(), why).QueryRow(func(row pgx.Row) error {
			return row.Scan(&ended, nil)
		})
	})
	return ended, l.error(ctx, "raise", "", err)
}
