package pgsnapshot

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// JoinEffects joins with a [pgledger.Ledger], or what embeds one, and a turn log on the same pool or connection. A
// SaveEffects then is one statement. No function of the database does it.
func (s *Store) JoinEffects(effects ledger.Ledger, log turnlog.Log) snapshot.SaveEffects {
	l, ok := effects.(interface{ BatchPart() pgjoin.Cargo })
	if !ok || s.calls != nil {
		return nil
	}
	parts := []pgjoin.Cargo{l.BatchPart()}
	if log != nil {
		logs, ok := log.(pgjoin.Log)
		if !ok {
			return nil
		}
		parts = append(parts, logs.EntriesPart())
	}
	var ready, write, done []string
	for _, p := range parts {
		if !p.DB.Shares(s.db) {
			return nil
		}
		ready, write, done = append(ready, p.Ready), append(write, p.Write), append(done, p.Done)
	}
	const and = "\n\t\tAND "
	sql := strings.NewReplacer(
		"{batch_ready}", strings.Join(ready, and), "{batch_write}", strings.Join(write, ","),
		"{batch_done}", strings.Join(done, and),
	).Replace(s.sql.saveEffects)
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (taken bool, err error) {
		if err := cmp.Or(r.Validate(), c.Validate(r, log != nil)); err != nil {
			return false, err
		}
		args := append(withParts(saveArgs(r), r.Parts), pgledger.BatchArgs(c.Batch)...)
		if log != nil {
			args = append(args, pgturnlog.EntryArgs(c.Log)...)
		}
		version, err := pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (version int64, err error) {
			err = row.Scan(&version, nil, nil)
			return version, err
		}, sql, args...)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			err = s.whyNotSaved(ctx, r) // ErrFenced may mean that c is not plain
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
