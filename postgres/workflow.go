package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/workflow"
)

// Workflows keeps the runs of durable functions.
func (db *DB) Workflows() workflow.Store { return db.workflows }

// WriteTx runs f in a transaction at READ COMMITTED, and writes the entry that f returns in the same transaction. Both
// commit together, durably, or neither does. So what f writes in this database happens exactly once. WriteTx implements
// flow.Transactor.
//
// If the entry is refused, verdict says why, as that of Store.Write, and the transaction is rolled back. So it is with
// an error. If the journal has a step of the entry already, the error is workflow.ErrInvalid. If the server has
// certainly rolled the transaction back because of what f did, the error is workflow.ErrAborted. An error of f is
// returned as it is. The row of the run is locked after f: no signal and no cancel waits for f. f must neither commit
// nor roll back.
func (db *DB) WriteTx(ctx context.Context, f func(tx pgx.Tx) (workflow.Entry, error)) (verdict, err error) {
	return db.workflows.WriteTx(ctx, db.pool, f)
}

// In returns what starts and signals runs in a transaction of the caller. What it does is there if tx commits, and
// durable then. What it reads, it reads in tx. If Options.Listen is set, the commit tells the engines. Otherwise they
// find out when they next look.
//
// After any error the caller has to roll tx back. A signal locks the row of its run until the end of tx, so that the
// owner of the run waits for it. A start with a key makes a second start with the key wait, and one of a child its
// parent. At REPEATABLE READ a Cancel does not see children that were started after the transaction began, so it leaves
// them running: cancel at READ COMMITTED. If the connection of tx uses QueryExecModeExec or the simple protocol, its
// DateStyle has to be ISO: see [Once].
func (db *DB) In(tx pgx.Tx) workflow.Front { return db.workflows.In(tx) }
