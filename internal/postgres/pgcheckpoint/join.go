package pgcheckpoint

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
)

// Joined returns the Append of s with a part of the Join of package pgsnapshot in its statement. If the part has
// parameters of its own, they follow those of the Append. If the part is of another pool or connection, Joined returns
// nil.
func (s *Store) Joined(part pgjoin.Part) func(
	context.Context, checkpoint.Lease, checkpoint.Checkpoint, checkpoint.AppendOptions, ...any,
) (forgotten bool, err error) {
	if !part.DB.Shares(s.db) || (part.Call == "") != (s.calls == nil) {
		return nil
	}
	sql := settling{
		strings.ReplaceAll(s.sql.settle, "{part}", part.SQL),
		strings.ReplaceAll(s.sql.settleRelabel, "{part}", part.SQL),
	}
	if s.calls != nil {
		sql = s.calls.settling(
			strings.ReplaceAll(part.Call, "{append}", s.db.Prefix.Table(functionNamed("session_append"))))
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, more ...any,
	) (forgotten bool, err error) {
		return s.append(ctx, sql, l, cp, o, more...)
	}
}
