package pgworkflow

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// A Pool lends connections for transactions. It is a *pgxpool.Pool.
type Pool interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// WriteTx runs f in a transaction, and writes the entry that f returns in it: package postgres says how. The run is
// locked after f: neither a signal nor a claim waits for f.
func (s *Store) WriteTx(
	ctx context.Context, pool Pool, f func(tx pgx.Tx) (workflow.Entry, error),
) (verdict, err error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, s.error(ctx, "write", "", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	e, err := f(tx)
	if err == nil {
		err = workflow.ValidateWrite([]workflow.Entry{e})
	}
	if err != nil {
		return nil, err
	}
	wrote, rows, err := s.writeIn(ctx, tx, &e)
	switch {
	case err != nil:
	case wrote && rows == len(e.Steps):
		err = pgstate.CutOff(ctx, tx.Commit(ctx))
	case wrote:
		err = fmt.Errorf("%w: the journal has the step already", workflow.ErrInvalid)
	default:
		if err = tx.Rollback(context.WithoutCancel(ctx)); err == nil { // refusal may need the connection
			verdict, err = s.refusal(ctx, &e)
		}
	}
	if pgstate.Aborted(err) {
		err = fmt.Errorf("%w: %w", workflow.ErrAborted, err)
	}
	return verdict, s.error(ctx, "write", e.Run, err)
}

// standstill bounds how long a process may stand still between the entry and the commit. It has locked its run by then,
// and no other process can take the run over.
const standstill = "SELECT set_config('idle_in_transaction_session_timeout', '5s', true)"

// writeIn writes an entry in tx, and returns how many rows the journal has got.
func (s *Store) writeIn(ctx context.Context, tx pgx.Tx, e *workflow.Entry) (wrote bool, rows int, err error) {
	var n int
	in := &front{db: s.db.In(tx), sql: s.sql, texts: s.texts, counting: true}
	calls := in.writes(nil, e, nil)
	for i := range calls {
		calls[i].read = each(func() { wrote, rows = true, rows+n }, &n, nil)
	}
	var set string
	calls = append([]call{{sql: standstill, read: each(func() {}, &set)}}, calls...)
	err = in.pipe(ctx, calls)
	return wrote, rows, err
}

// refusal says why an entry was not written: nil if it has been written before.
func (s *Store) refusal(ctx context.Context, e *workflow.Entry) (verdict, err error) {
	found, err := s.why(ctx, []string{e.Run})
	st, ok := found[e.Run]
	if err != nil {
		return nil, err
	}
	if !ok {
		return workflow.ErrNotFound, nil
	}
	_, verdict = st.verdict(e)
	return verdict, nil
}

// In returns what starts, signals and reads runs in a transaction of the caller: package postgres says how.
func (s *Store) In(tx pgx.Tx) workflow.Front {
	f := &front{db: s.db.In(tx), sql: s.sql, most: s.most, texts: s.texts, conn: tx.Conn()}
	f.note = func(ctx context.Context, notes ...workflow.Note) error {
		if s.ear.Open == nil || len(notes) == 0 {
			return nil
		}
		_, err := tx.Exec(ctx, s.sql.announce, s.ear.Channel, texts("", notes))
		return err
	}
	return f
}

// readable refuses a connection of the caller whose times come as text in another style than ISO. A store sets the
// style for itself. In a transaction of the caller that would change what the caller reads.
func (f *front) readable() error {
	if f.conn == nil {
		return nil
	}
	style := f.conn.PgConn().ParameterStatus("DateStyle")
	if style == "" || strings.HasPrefix(style, "ISO") {
		return nil
	}
	switch f.conn.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return fmt.Errorf("%w: the DateStyle of the transaction is %q, and its times are read as text: set it to ISO",
			workflow.ErrInvalid, style)
	}
	return nil
}
