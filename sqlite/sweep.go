package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/retention"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/store"
)

// Sweep retires what is older than its age: at most limit sessions, and a like amount of everything else. 0 means no
// limit. Any number of processes may call it. Sweep returns how much it has retired of what it has retired most of: if
// that is less than limit, nothing is left for now. After an error it goes on with the rest.
//
// An orchestrator sweeps the stores that it has, so a program calls Sweep only for stores that no orchestrator uses, or
// in place of the orchestrators' sweeps.
func (db *DB) Sweep(ctx context.Context, limit int) (retired int, err error) {
	for _, s := range []store.Sweeper{
		db.checkpoints, db.snapshots, db.stream, db.ledger, db.turnLog, db.workflows,
	} {
		n, failed := s.Sweep(ctx, limit)
		retired, err = max(retired, n), errors.Join(err, failed)
	}
	return retired, err
}

// A ledgerOf is a ledger that is swept. An effect is kept for Ages.Effects.
type ledgerOf struct {
	*sqliteledger.Ledger
	kept retention.Retention
}

// Sweep implements store.Sweeper.
func (l *ledgerOf) Sweep(ctx context.Context, limit int) (retired int, err error) {
	return l.kept.Sweep(ctx, limit, l.Prune)
}

// A logOf is a turn log that is swept. A turn that is over is kept for Ages.TurnLogs.
type logOf struct {
	*sqliteturnlog.Log
	kept retention.Retention
}

// Sweep implements store.Sweeper.
func (l *logOf) Sweep(ctx context.Context, limit int) (retired int, err error) {
	return l.kept.Sweep(ctx, limit, l.Prune)
}

// Raise is for after a restored backup that may lack what was written since lost. The zero time says that nobody knows
// since when. No owner of before may write any more, and no message of a transcript gets the number of one that is
// lost. For as long as doubt, the first Issue of an effect that may have
// happened since lost is unknown until its class or a person decides. 0 means ledger.DefaultDoubt, and less than 0 that
// there is no doubt.
//
// Call it before traffic is let in. It may be repeated, and must be after an error. docs/operations.md has the runbook.
func (db *DB) Raise(ctx context.Context, lost time.Time, doubt time.Duration) error {
	effects := sqliteledger.New(db.db, &sqliteledger.Options{Prefix: db.o.Prefix, DoubtFor: doubt})
	if _, err := db.snapshots.Raise(ctx, lost); err != nil {
		return err
	}
	if _, err := db.checkpoints.Raise(ctx, lost); err != nil {
		return err
	}
	if _, err := effects.Raise(ctx, lost); err != nil {
		return err
	}
	if _, err := db.workflows.Raise(ctx, lost); err != nil {
		return err
	}
	return db.transcripts.Raise(ctx)
}
