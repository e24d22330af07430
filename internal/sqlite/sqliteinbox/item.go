package sqliteinbox

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// Item implements [inbox.Store].
func (s *Store) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	st, err := s.db.Start(ctx, inbox.ValidateItem(k, kind, id))
	it := inbox.Item{Key: k, Kind: kind, ID: id}
	var page []finding
	if err == nil {
		page, err = readAlone(ctx, st, it)
	}
	switch {
	case sqlitestore.Corrupt(err):
		return it, inbox.Damaged(it, err)
	case err == nil && len(page) == 0:
		return inbox.Item{}, inbox.ErrNotFound
	case err != nil:
		return inbox.Item{}, fmt.Errorf("sqliteinbox: item of %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return page[0].Item, page[0].damage
}
