package pgtranscript

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// tries bounds how often Append begins again because an entry with the id came while its statement ran.
const tries = 10

// Append is one statement. Only if another call has added an entry with the id meanwhile, it is sent again.
func (s *Store) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (transcript.Span, error) {
	body, err := transcript.EncodeEntry(k, id, msgs)
	if err != nil {
		return transcript.Span{}, err
	}
	for range tries {
		var span transcript.Span
		span, err = pgstate.One(ctx, s.db, func(from pgx.CollectableRow) (span transcript.Span, err error) {
			err = from.Scan(&span.From, &span.Through, nil)
			return span, err
		}, s.sql.append, k.Orchestrator, k.Session, id, len(msgs), string(body))
		switch {
		case err == nil:
			return span, nil
		case pgstate.Of(err) != pgstate.UniqueViolation:
			return transcript.Span{}, s.db.Error(ctx, "append", k, err)
		}
	}
	// No call can have taken the numbers meanwhile, so they were taken before.
	return transcript.Span{}, s.db.Error(ctx, "append", k, transcript.DamagedError{
		Key: k, What: "transcript", Remedy: "restore the number of its newest message in the table of transcripts",
	}.Because(err))
}
