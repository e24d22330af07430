package sqliteledger

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast/ledger"
)

// If a Raise came after an attempt that has Failed, and its window is open, the next one may be lost. ?13 is what
// Effect.DoubtedAfter returns.
const reissueSQL = `
		UPDATE {prefix}effects AS e SET
			session = ?2,
			run_id = ?3,
			iteration = ?4,
			intent = ?5,
			class = ?6,
			attempts = attempts + 1,
			epoch = ?7,
			nonce = ?8,
			args_sum = ?9,
			issued_at = ?10,
			answered_by = '',
			answered_at = NULL,
			args = ?11,
			unsure = state <> 'failed' AND NOT ?12,
			(state, finished_at, error) = (
				SELECT iif(count(*) = 0, 'issued', 'unknown'), iif(count(*) = 0, NULL, ?10), coalesce(max(r.why), '')
				FROM {prefix}effect_raises r
				WHERE ?13 < r.epoch AND r.until > ?10 AND e.state = 'failed' AND NOT ?12 AND r.epoch > e.finished_at)
		WHERE id = ?1
		RETURNING ` + columns

// Issue writes a new effect in one statement. If the effect is known, a second one reads it. The first Issue of a fence
// is a transaction, which adopts the run. So is an Issue that makes another attempt.
func (l *Ledger) Issue(ctx context.Context, e ledger.Effect, again bool) (now ledger.Effect, issued bool, err error) {
	now, issued, err = l.issue(ctx, e, again)
	if err != nil {
		return now, false, fmt.Errorf("sqliteledger: issue %q: %w", e.ID, l.db.Explain(ctx, err))
	}
	return now, issued, nil
}

func (l *Ledger) issue(ctx context.Context, e ledger.Effect, again bool) (now ledger.Effect, issued bool, err error) {
	st, err := l.db.Start(ctx, e.ValidateIssue())
	if err != nil {
		return ledger.Effect{}, false, err
	}
	after, concerned := e.DoubtedAfter()
	doubt := sql.NullInt64{Int64: after, Valid: concerned}
	f, written, err := l.put(ctx, st, issuing(e, follows(e, again), again && e.State == ledger.Failed, doubt))
	if err != nil || written {
		return f.Effect, written && f.State == ledger.Issued, err
	}
	// The fence has issued the effect before, and the answer may have been lost. What another fence has issued to the
	// run is Unknown by now.
	repeated := f.State == ledger.Issued && f.RunID == e.RunID && f.Attempts == follows(e, again)+1
	return f.Effect, repeated, changed(e, f.Effect)
}

// follows returns the attempt that an Issue follows; 0 if it is the first.
func follows(e ledger.Effect, again bool) int {
	if again {
		return e.Attempts
	}
	return 0
}

// issuing makes the attempt that follows another one. none says that no attempt so far has happened. doubt is that
// of put.
func issuing(e ledger.Effect, follows int, none bool, doubt sql.NullInt64) put {
	fresh := first(e, ledger.Issued)
	return put{
		fresh: fresh,
		doubt: doubt,
		takes: func(known ledger.Effect) bool {
			mine := known.State == ledger.Issued && known.RunID == e.RunID
			return changed(e, known) == nil && known.Attempts == follows &&
				(known.State == ledger.Failed || known.State == ledger.Unknown || mine)
		},
		over: reissueSQL,
		args: []any{
			e.ID, e.Session, e.RunID, e.Iteration, e.Intent, int(e.Class), e.Fence.Epoch, e.Fence.Nonce, e.ArgsSum,
			fresh.IssuedAt.UnixMicro(), orNull(e.Args), none, doubt,
		},
	}
}

// changed returns ErrChanged if the known effect has other arguments than e.
func changed(e, known ledger.Effect) error {
	if known.Class != ledger.Pure && !ledger.SameArgs(known.ArgsSum, e.ArgsSum) {
		return ledger.ErrChanged
	}
	return nil
}
