package pginbox

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/inbox"
)

// A row is an item as it is stored.
type row struct {
	inbox.Item
	at     pgtype.Timestamptz // as the list is in the order of; it may be infinite
	unread error              // why the server cannot read the data
}

var errEndless = errors.New("posted at an infinite time")

// intact returns a *inbox.DamagedError if no store wrote the item, or if the server cannot read it.
func (r row) intact() error {
	switch {
	case r.unread != nil:
		return inbox.Damaged(r.Item, r.unread)
	case r.at.InfinityModifier != pgtype.Finite:
		return inbox.Damaged(r.Item, errEndless)
	}
	return r.Intact()
}

func scanRow(from pgx.CollectableRow, orchestrator string, kind inbox.Kind) (r row, err error) {
	r.Orchestrator, r.Kind = orchestrator, kind
	err = from.Scan(&r.Session, &r.ID, &r.By, &r.Shown, &r.at, (*[]byte)(&r.Data))
	r.At = r.at.Time.UTC()
	return r, err
}
