package pginbox

import (
	"context"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// Item implements [inbox.Store].
func (s *Store) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	if err := inbox.ValidateItem(k, kind, id); err != nil {
		return inbox.Item{}, err
	}
	page, err := s.alone(ctx, k, kind, id)
	switch {
	case pgstate.Corrupt(err):
		it := inbox.Item{Key: k, Kind: kind, ID: id}
		return it, s.db.Error(ctx, "item", k, inbox.Damaged(it, err))
	case err == nil && len(page) == 0:
		err = inbox.ErrNotFound
	}
	if err != nil {
		return inbox.Item{}, s.db.Error(ctx, "item", k, err)
	}
	return page[0].Item, s.db.Error(ctx, "item", k, page[0].intact())
}

// alone returns one item, or nothing.
func (s *Store) alone(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) ([]row, error) {
	return s.list(ctx, s.sql.list, k, kind, "session = $4::text AND id = $5::text", 1, k.Session, id)
}
