package pgstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

// The bounds of a page. It has one row more than fit in mostBytes.
const mostRows, mostBytes = 64, 1 << 20

// Read implements [stream.Store]. It reads pages of about one MiB, each in one statement.
func (s *Store) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if err := stream.ValidateRead(k, seq); err != nil {
		return func(yield func(stream.Chunk, error) bool) { yield(stream.Chunk{}, err) }
	}
	return s.hub.Read(ctx, k, seq, func(ctx context.Context, seq int64) (tail.Page, error) {
		if ctx.Err() != nil {
			return tail.Page{}, ctxcause.Of(ctx)
		}
		page, err := s.page(ctx, k, seq)
		return page, s.db.Error(ctx, "read", k, err)
	})
}

// A row is the row of a session, and one of its rows of chunks; last is nil if there is none.
type row struct {
	head, kept, start int64 // the last, the oldest that is kept, and the first of the newest run
	status            stream.Status
	life              string

	first, last *int64
	run         *string
	data        []byte
}

func scanRow(from pgx.CollectableRow) (r row, err error) {
	err = from.Scan(&r.kept, &r.head, &r.start, (*string)(&r.status), &r.life, &r.first, &r.last, &r.run, &r.data)
	return r, err
}

// page returns the next chunks.
func (s *Store) page(ctx context.Context, k stream.Key, seq int64) (p tail.Page, err error) {
	rows, err := pgstate.Collect(ctx, s.db, scanRow, 0,
		s.sql.page, k.Orchestrator, k.Session, seq, mostRows, mostBytes)
	switch {
	case pgstate.Corrupt(err):
		return p, fmt.Errorf("%w: %w: the server cannot read them: %w", stream.ErrGone, stream.ErrDamaged, err)
	case err != nil:
		return p, err
	case len(rows) == 0 && seq > 0:
		return p, stream.ErrGone
	case len(rows) == 0:
		return tail.Page{Last: true, Over: true}, nil
	}
	head := rows[0]
	if seq == stream.Newest {
		seq = max(head.start, head.kept) - 1
	}
	if seq > head.head || seq < head.kept-1 {
		return p, stream.ErrGone
	}
	for _, r := range rows {
		if r.last == nil {
			break // there is none
		}
		chunks, err := r.chunks(seq)
		if err != nil {
			return p, fmt.Errorf("%w: %w: row of chunk %d: %w", stream.ErrGone, stream.ErrDamaged, *r.last, err)
		}
		p.Chunks = append(p.Chunks, chunks...)
		seq = *r.last
	}
	if len(p.Chunks) == 0 && seq < head.head {
		return p, fmt.Errorf("%w: %w: the row of chunk %d is missing", stream.ErrGone, stream.ErrDamaged, seq+1)
	}
	p.Life = head.life
	p.Seq, p.Last, p.Over = seq, seq == head.head, head.status != stream.Active
	return p, nil
}

var errRow = errors.New("its numbers are wrong")

// chunks returns the chunks of the row after seq.
func (r row) chunks(seq int64) (all []stream.Chunk, err error) {
	var data []json.RawMessage
	if err := json.Unmarshal(r.data, &data); err != nil {
		return nil, err
	}
	if *r.first > seq+1 || *r.last <= seq || *r.last > r.head || *r.last-*r.first+1 != int64(len(data)) {
		return nil, errRow
	}
	for i, doc := range data[seq+1-*r.first:] {
		all = append(all, stream.Chunk{Seq: seq + 1 + int64(i), Run: *r.run, Data: doc})
	}
	return all, nil
}

// ask returns the marks that are no longer right.
func (s *Store) ask(ctx context.Context, marks []tail.Mark) (wrong []tail.Mark, err error) {
	var orchestrators, sessions []string
	var seqs []int64
	for _, m := range marks {
		orchestrators, sessions = append(orchestrators, m.Key.Orchestrator), append(sessions, m.Key.Session)
		seqs = append(seqs, m.Seq)
	}
	wrong, err = pgstate.Collect(ctx, s.db, func(row pgx.CollectableRow) (m tail.Mark, err error) {
		err = row.Scan(&m.Key.Orchestrator, &m.Key.Session, &m.Seq)
		return m, err
	}, 0, s.sql.ask, orchestrators, sessions, seqs)
	return wrong, s.db.Error(ctx, "ask for readers", stream.Key{}, err)
}
