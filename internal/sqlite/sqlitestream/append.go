package sqlitestream

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// appendSQL returns no row if the session has a higher epoch, or is too old. It is the first statement of its
	// transaction: SQLite takes the write lock before it reads the epoch.
	appendSQL = `
		INSERT INTO {prefix}streams (orchestrator, session, epoch, status, run, start, first, last, at, life)
		VALUES (?1, ?2, ?3, ?4, ?5, 1, iif(?6 >= 2 * ?7, ?6 - ?7 + 1, 1), ?6, ?8, random())
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			epoch = ?3, status = ?4, run = ?5,
			start = iif(run = ?5, start, last + 1),
			first = iif(last + ?6 - first + 1 >= 2 * ?7, last + ?6 - ?7 + 1, first),
			last = last + ?6, at = max(at, ?8)
		WHERE epoch <= ?3 AND at > ?9
		RETURNING first, last`

	addSQL = `
		INSERT INTO {prefix}chunks (orchestrator, session, first, last, run, data)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6)`

	trimSQL = `DELETE FROM {prefix}chunks WHERE orchestrator = ?1 AND session = ?2 AND last < ?3`
)

// Append implements [stream.Store].
func (s *Store) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, status stream.Status, data []json.RawMessage,
) (last int64, err error) {
	if err := stream.ValidateAppend(k, run, epoch, status, data); err != nil {
		return 0, err
	}
	st, err := s.db.Start(ctx)
	if err != nil {
		return 0, s.error(ctx, "append", k, err)
	}
	a := appending{s, st, k, run, epoch, status, data}
	var added bool
	err = s.db.WriteLightly(ctx, func(conn *sql.Conn) error {
		last, added, err = a.write(ctx, conn)
		return err
	})
	if err == nil {
		err = s.db.There() // an error if the file is gone, and the write with it
	}
	if err == nil && added {
		s.hub.Tell(id(k), last, status.Over())
	}
	return last, s.error(ctx, "append", k, err)
}

// An appending is the arguments of one Append.
type appending struct {
	*Store
	st     sqlitestore.Statements
	key    stream.Key
	run    string
	epoch  int64
	status stream.Status
	data   []json.RawMessage
}

func (a appending) write(ctx context.Context, conn *sql.Conn) (last int64, added bool, err error) {
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return 0, false, err
	}
	defer tx.Rollback()
	now, err := a.head(ctx, tx)
	if err == nil && now == nil {
		found, e := headOf(ctx, tx.StmtContext(ctx, a.st[headSQL]), a.key)
		switch {
		case e != nil:
			return 0, false, e
		case found != nil && found.at > a.since():
			return found.last, false, nil // another owner appends
		}
		if _, err = a.remove(ctx, tx, a.st, a.key, a.since()); err == nil {
			now, err = a.head(ctx, tx)
		}
	}
	if err != nil {
		return 0, false, err
	}
	if err := a.add(ctx, tx, *now); err != nil {
		return 0, false, err
	}
	return now.last, true, tx.Commit()
}

// kept is which chunks the row of a session says there are.
type kept struct{ first, last int64 }

func scanKept(rows *sql.Rows) (n kept, err error) {
	err = rows.Scan(&n.first, &n.last)
	return n, err
}

// head writes the row of the session; nil if it writes nothing.
func (a appending) head(ctx context.Context, tx *sql.Tx) (*kept, error) {
	rows, err := tx.StmtContext(ctx, a.st[appendSQL]).QueryContext(ctx, a.key.Orchestrator, a.key.Session, a.epoch,
		string(a.status), a.run, len(a.data), a.keep, time.Now().UnixMicro(), a.since())
	return first(rows, err, scanKept)
}

// add writes the row of the chunks, and removes what is no longer kept if the first chunk that is kept has moved.
func (a appending) add(ctx context.Context, tx *sql.Tx, now kept) error {
	k := a.key
	if len(a.data) > 0 {
		from := now.last - int64(len(a.data)) + 1
		_, err := tx.StmtContext(ctx, a.st[addSQL]).ExecContext(ctx, k.Orchestrator, k.Session, from, now.last, a.run,
			array(a.data))
		if err != nil {
			return err
		}
	}
	if now.first == 1 || now.last-now.first+1 != a.keep {
		return nil
	}
	_, err := tx.StmtContext(ctx, a.st[trimSQL]).ExecContext(ctx, k.Orchestrator, k.Session, now.first)
	return err
}

// array returns the chunks as one JSON array.
func array(data []json.RawMessage) string {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, doc := range data {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(doc)
	}
	b.WriteByte(']')
	return b.String()
}
