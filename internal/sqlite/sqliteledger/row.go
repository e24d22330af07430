package sqliteledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

const effectSQL = `
		SELECT ` + columns + ` FROM {prefix}effects
		WHERE id = ?1`

// A run executes the statements of the layout.
type run struct{ sqlitestore.Runner }

// write executes f, which is one statement that writes by itself.
func (l *Ledger) write(ctx context.Context, f func() error) error {
	leave, err := l.db.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := f(); err != nil {
		return err
	}
	return l.db.There() // an error if the file is gone, and the write with it
}

// A finding is an effect, and its damage if no ledger wrote it.
type finding struct {
	ledger.Effect
	number int64
	damage error
}

// scan reads an effect, and judges it. The error of scan is that of the database.
func scan(rows *sql.Rows) (f finding, err error) {
	f.read(rows)
	return f, rows.Err()
}

// read reads the columns, and others after them. If one cannot be read, the columns before it are read. The number and
// the id are the first.
func (f *finding) read(rows *sql.Rows, others ...any) {
	e := &f.Effect
	var issued, finished, answered sql.NullInt64
	err := rows.Scan(append([]any{
		&f.number, &e.ID, &e.Orchestrator, &e.Session, &e.RunID, &e.Iteration, &e.Intent, &e.Name, &e.Each, &e.Key,
		(*int)(&e.Class), (*string)(&e.State), &e.Attempts, &e.Fence.Epoch, &e.Fence.Nonce, &e.ArgsSum, &issued,
		&finished, &e.AnsweredBy, &answered, &e.Redacted, &e.Unsure, &e.Error, (*[]byte)(&e.Args),
		(*[]byte)(&e.Result),
	}, others...)...)
	e.Unsure = e.Unsure && e.State.Open()
	e.IssuedAt, e.FinishedAt, e.AnsweredAt = at(issued), at(finished), at(answered)
	if issued.Valid {
		e.Age = max(0, time.Since(e.IssuedAt))
	}
	if err != nil {
		f.damage = ledger.Damaged(e.ID, err)
		return
	}
	f.damage = e.Intact()
}

// at returns a time as it is kept.
func at(micro sql.NullInt64) time.Time {
	if !micro.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micro.Int64).UTC()
}

// A meeting is a known effect, and the fence of the run that asked for it. The fence is zero if the run has none.
type meeting struct {
	finding
	fence lock.Fence
}

func scanMeeting(rows *sql.Rows) (m meeting, err error) {
	var epoch sql.NullInt64
	var nonce sql.NullString
	m.read(rows, &epoch, &nonce)
	m.fence = lock.Fence{Epoch: epoch.Int64, Nonce: nonce.String}
	return m, rows.Err()
}

func orNull(doc json.RawMessage) sql.NullString {
	return sql.NullString{String: string(doc), Valid: doc != nil}
}
