package sqlitesnapshot

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitejoin"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// errNotPlain ends the transaction of a SaveEffects whose effects are not plain.
var errNotPlain = errors.New("the effects are not plain")

// A carrier is a [sqliteledger.Ledger], or what embeds one.
type carrier interface {
	DB() *sqlitestore.DB
	CarryIn(ctx context.Context, tx *sql.Tx, runID string, f lock.Fence, b ledger.Batch) (bool, error)
}

// JoinEffects joins with a carrier and a turn log on the same *sql.DB. A SaveEffects then is one transaction.
func (s *Store) JoinEffects(effects ledger.Ledger, log turnlog.Log) snapshot.SaveEffects {
	l, ok := effects.(carrier)
	logs, logged := log.(sqlitejoin.Log)
	if !ok || !l.DB().Beside(s.db) || log != nil && !(logged && logs.DB().Beside(s.db)) {
		return nil
	}
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (taken bool, err error) {
		// In the transaction neither ledger nor log may ask for another connection.
		_, err = l.DB().Start(ctx, r.Validate(), c.Validate(r, logged))
		if err == nil && len(c.Log) > 0 {
			_, err = logs.DB().Start(ctx)
		}
		if err == nil {
			taken, err = s.saveEffects(ctx, r, func(tx *sql.Tx) (bool, error) {
				taken, err := l.CarryIn(ctx, tx, r.ID, r.Fence, c.Batch)
				if taken && len(c.Log) > 0 {
					taken, err = logs.RecordIn(ctx, tx, c.Log)
				}
				return taken, err
			})
		}
		if err != nil {
			return false, fmt.Errorf("sqlitesnapshot: save %q seq %d: %w", r.Session, r.Seq, s.db.Explain(ctx, err))
		}
		return taken, nil
	}
}

// saveEffects is save in a transaction, in which carry writes too.
func (s *Store) saveEffects(
	ctx context.Context, r snapshot.Run, carry func(*sql.Tx) (bool, error),
) (taken bool, err error) {
	st, err := s.db.Start(ctx)
	for c := saving(r); err == nil; c.clear = len(r.Payload) > 0 {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			if err := c.apply(ctx, tx, st); err != nil {
				return err
			}
			taken, err := carry(tx)
			if err == nil && !taken {
				err = errNotPlain
			}
			return err
		})
		if !errors.Is(err, errUntouched) {
			break
		}
		var repeat bool
		if repeat, err = s.repeats(ctx, st, r); repeat || err != nil {
			return repeat, err
		}
	}
	if errors.Is(err, errNotPlain) || errors.Is(err, lock.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}
