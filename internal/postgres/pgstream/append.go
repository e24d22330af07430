package pgstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/stream"
)

// tries bounds how often Append begins again because its session was too old each time.
const tries = 100

// Append implements [stream.Store].
func (s *Store) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, status stream.Status, data []json.RawMessage,
) (last int64, err error) {
	if err := stream.ValidateAppend(k, run, epoch, status, data); err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ctxcause.Of(ctx)
	}
	last, err = s.append(ctx, k, run, epoch, status, data)
	return last, s.db.Error(ctx, "append", k, err)
}

func (s *Store) append(
	ctx context.Context, k stream.Key, run string, epoch int64, status stream.Status, data []json.RawMessage,
) (last int64, err error) {
	doc, name := array(data), id(k)
	mark := name + " +"
	if status.Over() {
		mark = name + " -"
	}
	for range tries {
		now, err := pgstate.One(ctx, s.db, scanAppended, s.sql.append,
			k.Orchestrator, k.Session, epoch, string(status), run, len(data), s.keep, doc, s.channel, mark)
		if err != nil {
			return 0, err
		}
		if now.last != nil {
			s.hub.Tell(name, *now.last, status.Over())
			s.trim(ctx, k, *now.last, *now.first)
			return *now.last, nil
		}
		head, err := pgstate.One(ctx, s.db, scanHead, s.sql.head, k.Orchestrator, k.Session)
		switch {
		case errors.Is(err, pgx.ErrNoRows): // it is too old, or was forgotten since
			err = s.forget(ctx, k, true)
		case err == nil && head.epoch > epoch:
			return head.last, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the session is forgotten all the time")
}

// trim removes what is no longer kept, if an Append has just moved the first chunk that is. If this fails, the next one
// removes all that is left: the Append itself has taken effect.
func (s *Store) trim(ctx context.Context, k stream.Key, last, first int64) {
	if first > 1 && last-first+1 == s.keep {
		_, _ = pgstate.One(ctx, s.db, pgx.RowTo[string], s.sql.trim, k.Orchestrator, k.Session,
			first-2*s.keep-stream.MaxChunks, first, stream.MaxChunks)
	}
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

// appended is the answer of the statement append. Both are nil if it has changed nothing.
type appended struct{ last, first *int64 }

func scanAppended(row pgx.CollectableRow) (a appended, err error) {
	err = row.Scan(&a.last, &a.first, nil, nil)
	return a, err
}
