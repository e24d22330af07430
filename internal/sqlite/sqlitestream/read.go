package sqlitestream

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	// pageSQL shows one moment: the row of the session, and the next rows of its chunks.
	pageSQL = `
		SELECT s.first, s.last, s.start, s.status, s.life, c.first, c.last, c.run, c.data
		FROM {prefix}streams s LEFT JOIN {prefix}chunks c
			ON c.orchestrator = ?1 AND c.session = ?2 AND c.last > iif(?3 < 0, max(s.start, s.first) - 1, ?3)
		WHERE s.orchestrator = ?1 AND s.session = ?2 AND s.at > ?4
		ORDER BY c.last LIMIT ?5`

	// askSQL returns the places in the list of the marks that are no longer right.
	askSQL = `
		SELECT m.key FROM json_each(?1) m
		WHERE NOT EXISTS (
			SELECT 1 FROM {prefix}streams s
			WHERE s.orchestrator = json_extract(m.value, '$[0]') AND s.session = json_extract(m.value, '$[1]')
				AND s.last = json_extract(m.value, '$[2]') AND s.status = 'active' AND s.at > ?2
		)`
)

// The bounds of a page. It ends with the row with which it has mostBytes.
const mostRows, mostBytes = 64, 1 << 20

// Read implements [stream.Store]. It reads pages of about one MiB, each in one query.
func (s *Store) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if err := stream.ValidateRead(k, seq); err != nil {
		return func(yield func(stream.Chunk, error) bool) { yield(stream.Chunk{}, err) }
	}
	return s.hub.Read(ctx, k, seq, func(ctx context.Context, seq int64) (tail.Page, error) {
		page, err := s.page(ctx, k, seq)
		return page, s.error(ctx, "read", k, err)
	})
}

// A row is the row of a session, and one of its rows of chunks; last is 0 if there is none.
type row struct {
	kept, head, start int64 // the oldest that is kept, the last, and the first of the newest run
	status            stream.Status
	life              string

	first, last int64
	run         string
	data        []byte
	damage      error
}

func scanRow(rows *sql.Rows) (r row, err error) {
	var first, last sql.NullInt64
	var run sql.NullString
	r.damage = rows.Scan(&r.kept, &r.head, &r.start, (*string)(&r.status), &r.life, &first, &last, &run, &r.data)
	if r.damage != nil {
		return r, rows.Err()
	}
	r.first, r.last, r.run = first.Int64, last.Int64, run.String
	return r, nil
}

// rows returns rows until they have mostBytes. The others are not read.
func (s *Store) rows(ctx context.Context, k stream.Key, seq int64) (all []row, err error) {
	st, err := s.db.Start(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := st[pageSQL].QueryContext(ctx, k.Orchestrator, k.Session, seq, s.since(), mostRows)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; size < mostBytes && rows.Next(); {
		r, err := scanRow(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		size += len(r.data)
	}
	return all, rows.Err()
}

// page returns the next chunks.
func (s *Store) page(ctx context.Context, k stream.Key, seq int64) (p tail.Page, err error) {
	rows, err := s.rows(ctx, k, seq)
	switch {
	case sqlitestore.Corrupt(err):
		return p, damaged("%w", err)
	case err != nil:
		return p, err
	case len(rows) == 0 && seq > 0:
		return p, stream.ErrGone
	case len(rows) == 0:
		return tail.Page{Last: true, Over: true}, nil
	case rows[0].damage != nil:
		return p, damaged("row of the session: %w", rows[0].damage)
	}
	head := rows[0]
	if seq == stream.Newest {
		seq = max(head.start, head.kept) - 1
	}
	if seq > head.head || seq < head.kept-1 {
		return p, stream.ErrGone
	}
	for _, r := range rows {
		if r.last == 0 && r.damage == nil {
			break // there is none
		}
		chunks, err := r.chunks(seq)
		if err != nil {
			return p, damaged("row of chunk %d: %w", seq+1, err)
		}
		p.Chunks = append(p.Chunks, chunks...)
		seq = r.last
	}
	if len(p.Chunks) == 0 && seq < head.head {
		return p, damaged("the row of chunk %d is missing", seq+1)
	}
	p.Life = head.life
	p.Seq, p.Last, p.Over = seq, seq == head.head, head.status != stream.Active
	return p, nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w: "+format, append([]any{stream.ErrGone, stream.ErrDamaged}, args...)...)
}

var errRow = errors.New("its numbers are wrong")

// chunks returns the chunks of the row after seq.
func (r row) chunks(seq int64) (all []stream.Chunk, err error) {
	if r.damage != nil {
		return nil, r.damage
	}
	var data []json.RawMessage
	if err := json.Unmarshal(r.data, &data); err != nil {
		return nil, err
	}
	if r.first > seq+1 || r.last <= seq || r.last > r.head || r.last-r.first+1 != int64(len(data)) {
		return nil, errRow
	}
	for i, doc := range data[seq+1-r.first:] {
		all = append(all, stream.Chunk{Seq: seq + 1 + int64(i), Run: r.run, Data: doc})
	}
	return all, nil
}

// ask returns the marks that are no longer right.
func (s *Store) ask(ctx context.Context, marks []tail.Mark) (wrong []tail.Mark, err error) {
	st, err := s.db.Start(ctx)
	if err != nil {
		return nil, s.error(ctx, "ask for readers of", stream.Key{}, err)
	}
	list := make([][3]any, len(marks))
	for i, m := range marks {
		list[i] = [3]any{m.Key.Orchestrator, m.Key.Session, m.Seq}
	}
	doc, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	rows, err := st[askSQL].QueryContext(ctx, string(doc), s.since())
	places, err := sqlitestore.Collect(rows, err, func(rows *sql.Rows) (i int, err error) {
		err = rows.Scan(&i)
		return i, err
	})
	for _, i := range places {
		wrong = append(wrong, marks[i])
	}
	return wrong, s.error(ctx, "ask for readers of", stream.Key{}, err)
}
