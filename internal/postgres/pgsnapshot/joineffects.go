package pgsnapshot

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// JoinEffects joins with a [pgledger.Ledger], or what embeds one, on the same pool or connection. A SaveEffects then is
// one statement. No function of the database does it.
func (s *Store) JoinEffects(effects ledger.Ledger) snapshot.SaveEffects {
	l, ok := effects.(interface{ BatchPart() pgledger.BatchPart })
	if !ok || s.calls != nil {
		return nil
	}
	part := l.BatchPart()
	if !part.DB.Shares(s.db) {
		return nil
	}
	sql := strings.NewReplacer(
		"{batch_ready}", part.Ready, "{batch_write}", part.Write, "{batch_done}", part.Done,
	).Replace(s.sql.saveEffects)
	return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (taken bool, err error) {
		if err := cmp.Or(r.Validate(), b.Validate(r.ID, r.Fence)); err != nil {
			return false, err
		}
		version, err := pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (version int64, err error) {
			err = row.Scan(&version, nil, nil)
			return version, err
		}, sql, append(withParts(saveArgs(r), r.Parts), part.Args(b)...)...)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			err = s.whyNotSaved(ctx, r) // ErrFenced may mean that b is not plain
			taken = err == nil
			if errors.Is(err, lock.ErrFenced) {
				err = nil
			}
		case pgstate.Of(err) == invalidText:
			return false, nil
		case err == nil:
			taken = true
			if version > 0 && len(r.Payload) > 0 {
				s.clean(ctx, r.Key, version)
			}
		}
		return taken, s.error(ctx, "save", r.Key, err)
	}
}

// invalidText is the code of the error that saveEffects makes.
const invalidText = "22P02"
