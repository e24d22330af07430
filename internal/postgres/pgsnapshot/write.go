package pgsnapshot

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/snapshot"
)

// withParts appends the arguments of a statement that writes parts: two arrays, which are NULL without parts.
func withParts(args []any, parts map[string]json.RawMessage) []any {
	var names, docs []string
	for name, doc := range parts {
		names, docs = append(names, name), append(docs, string(doc))
	}
	return append(args, names, docs)
}

// touch sends a statement that writes the row of a session. It returns the version of the run's payload if the run has
// or had parts, and otherwise 0. If nothing was written, touch returns pgx.ErrNoRows.
func (s *Store) touch(ctx context.Context, sql string, args ...any) (version int64, err error) {
	return pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (version int64, err error) {
		err = row.Scan(&version, nil)
		return version, err
	}, sql, args...)
}

// clean removes the parts of the payloads before a version. Such parts are not read, so the caller does not see an
// error of clean. If clean fails, the parts take up room until clean is called for the session again, or Sweep forgets
// the session.
func (s *Store) clean(ctx context.Context, k snapshot.Key, before int64) {
	_, _ = s.db.Exec(ctx, s.sql.clean, k.Orchestrator, k.Session, before)
}
