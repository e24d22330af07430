package sqliteledger

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/ledger"
)

// A known effect keeps its attempt and its arguments.
const completeSQL = `
		UPDATE {prefix}effects SET state = 'completed', finished_at = ?2, error = '', result = ?3, redacted = ?4
		WHERE id = ?1
		RETURNING ` + columns

// Record writes a new effect and its result in one statement. Otherwise it goes on as Issue does.
func (l *Ledger) Record(ctx context.Context, e ledger.Effect) (now ledger.Effect, err error) {
	now, err = l.record(ctx, e)
	if err != nil {
		return now, fmt.Errorf("sqliteledger: record %q: %w", e.ID, l.db.Explain(ctx, err))
	}
	return now, nil
}

func (l *Ledger) record(ctx context.Context, e ledger.Effect) (now ledger.Effect, err error) {
	st, err := l.db.Start(ctx, e.ValidateRecord())
	if err != nil {
		return ledger.Effect{}, err
	}
	fresh := first(e, ledger.Completed)
	f, _, err := l.put(ctx, st, put{
		fresh: fresh,
		takes: func(known ledger.Effect) bool { return known.State != ledger.Completed },
		over:  completeSQL,
		args:  []any{e.ID, fresh.FinishedAt.UnixMicro(), orNull(e.Result), e.Redacted},
	})
	return f.Effect, err
}
