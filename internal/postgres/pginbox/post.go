package pginbox

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// tries bounds how often Post begins again because the item came or went while its statement ran.
const tries = 100

// Post is one statement. Only if another call has posted or removed the item meanwhile, it is sent again.
func (s *Store) Post(ctx context.Context, it inbox.Item) (first bool, err error) {
	if err := it.Validate(); err != nil {
		return false, err
	}
	first, err = s.post(ctx, it)
	return first && err == nil, s.db.Error(ctx, "post", it.Key, err)
}

func (s *Store) post(ctx context.Context, it inbox.Item) (first bool, err error) {
	data := "null"
	if it.Data != nil {
		data = string(it.Data) // as text, which every mode of the driver sends alike
	}
	for range tries {
		first, err = pgstate.One(ctx, s.db, func(from pgx.CollectableRow) (first bool, err error) {
			err = from.Scan(&first, nil)
			return first, err
		}, s.sql.post, it.Orchestrator, it.Session, string(it.Kind), it.ID, it.By, it.Shown, data)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // it came since, or has gone since
		case pgstate.Corrupt(err):
			return false, inbox.Damaged(it, err)
		default:
			return first, err
		}
	}
	return false, errors.New("the item comes and goes all the time")
}
