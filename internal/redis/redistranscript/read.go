package redistranscript

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// A page has so many entries at most. It ends earlier if it has so many bytes, which its first entry may exceed.
const pageEntries, pageBytes = 256, 1 << 20

// Read reads pages of about one MiB, each in one script.
func (s *Store) Read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	return transcript.ReadPages(ctx, k, spans,
		func(ctx context.Context, span transcript.Span, most int) (all []transcript.Entry, more bool, err error) {
			defer redisstore.Wrap(&err, "read", k.Session)
			if err := redisstore.Checked(ctx); err != nil {
				return nil, false, err
			}
			page, more, err := s.page(ctx, k, []transcript.Span{span}, most, pageBytes)
			for _, e := range page {
				all = append(all, e.Entry)
			}
			return all, more, judge(k, err)
		})
}

// An entry is an entry and the call that has written it.
type entry struct {
	transcript.Entry
	call string
}

// perEntry is how many values a page has of each entry.
const perEntry = 4

// page returns the first entries of spans that are in order, and whether there are more. If bytes is "", it returns all
// entries without their bodies.
func (s *Store) page(
	ctx context.Context, k transcript.Key, spans []transcript.Span, most int, bytes any,
) (all []entry, more bool, err error) {
	reply, err := s.redis.Run(ctx, readScript, s.keys(k), append([]any{most, bytes}, numbers(spans)...)...)
	if err != nil {
		return nil, false, err
	}
	s.clock.tell(reply.Value(0))
	values := reply.Values[min(1, len(reply.Values)):]
	if len(values)%perEntry != 0 {
		return nil, false, &redisstore.Fault{What: fmt.Sprintf("%d values", len(values))}
	}
	for v := range slices.Chunk(values, perEntry) {
		span, err := spanOf(redisstore.Reply{Values: v})
		if err != nil {
			return nil, false, err
		}
		all = append(all, entry{transcript.Entry{Span: span, Body: []byte(v[3])}, v[2]})
	}
	return all, reply.Status == "MORE", nil
}

// numbers returns the spans as arguments.
func numbers(spans []transcript.Span) (args []any) {
	for _, s := range spans {
		args = append(args, s.From, s.Through)
	}
	return args
}
