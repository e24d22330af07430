package sqlitesnapshot

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The column parts of a run is 1 if the table of run parts has any part of the run. If a statement would leave old
// parts in the table, it does not touch the row. The store then repeats it in a transaction, which drops the parts
// first. So a run without parts costs one statement, and the table holds only parts of the payload in the row.
const (
	clearSQL = `
		UPDATE {prefix}runs SET parts = 0
		WHERE orchestrator = ?1 AND session = ?2`

	dropPartsSQL = `
		DELETE FROM {prefix}run_parts
		WHERE orchestrator = ?1 AND session = ?2`

	putPartSQL = `
		INSERT INTO {prefix}run_parts (orchestrator, session, name, doc)
		VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (orchestrator, session, name) DO UPDATE SET doc = excluded.doc`

	flagSQL = `
		UPDATE {prefix}runs SET parts = 1
		WHERE orchestrator = ?1 AND session = ?2 AND parts = 0`
)

// A change is a statement that writes the row of a session, with the parts that it removes and adds.
type change struct {
	key   snapshot.Key
	text  string
	args  []any
	clear bool                       // remove the stored parts
	parts map[string]json.RawMessage // add these parts
}

// errUntouched ends the transaction of a change whose statement touched no row.
var errUntouched = errors.New("no row was touched")

// write reports whether the statement of c touched the row. If it did not, write changes nothing.
func (s *Store) write(ctx context.Context, st sqlitestore.Statements, c change) (done bool, err error) {
	if !c.clear && len(c.parts) == 0 {
		return s.exec(ctx, st[c.text], c.args)
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error { return c.apply(ctx, tx, st) })
	if errors.Is(err, errUntouched) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) exec(ctx context.Context, stmt *sql.Stmt, args []any) (done bool, err error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	n, err := sqlitestore.Affected(stmt.ExecContext(ctx, args...))
	if err == nil && n > 0 {
		err = s.db.There() // an error if the file is gone, and the write with it
	}
	return n > 0, err
}

func (c change) apply(ctx context.Context, tx *sql.Tx, st sqlitestore.Statements) error {
	exec := func(text string, args ...any) (int64, error) {
		return sqlitestore.Affected(tx.StmtContext(ctx, st[text]).ExecContext(ctx, args...))
	}
	if c.clear {
		for _, text := range []string{clearSQL, dropPartsSQL} {
			if _, err := exec(text, c.key.Orchestrator, c.key.Session); err != nil {
				return err
			}
		}
	}
	if n, err := exec(c.text, c.args...); err != nil {
		return err
	} else if n == 0 {
		return errUntouched
	}
	for name, doc := range c.parts {
		if _, err := exec(putPartSQL, c.key.Orchestrator, c.key.Session, name, string(doc)); err != nil {
			return err
		}
	}
	if len(c.parts) == 0 {
		return nil
	}
	_, err := exec(flagSQL, c.key.Orchestrator, c.key.Session)
	return err
}
