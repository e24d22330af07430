package pgsnapshot

import (
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Join joins with a *[pgcheckpoint.Store] on the same pool or connection. A Settle then is one statement. Its commit is
// as durable as that of Append.
func (s *Store) Join(turns checkpoint.Store) snapshot.Settle {
	t, ok := turns.(*pgcheckpoint.Store)
	if !ok {
		return nil
	}
	part := pgjoin.Part{DB: s.db, SQL: s.sql.joined}
	if s.calls != nil {
		part.Call = s.calls.settle
	}
	return t.Joined(part)
}
