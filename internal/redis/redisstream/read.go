package redisstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

// The bounds of a page. It ends with the entry with which it has mostBytes.
const mostEntries, mostBytes = 64, 1 << 20

// Read implements [stream.Store]. It reads pages of about one MiB, each in one script.
func (s *Store) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	if err := stream.ValidateRead(k, seq); err != nil {
		return func(yield func(stream.Chunk, error) bool) { yield(stream.Chunk{}, err) }
	}
	return s.hub.Read(ctx, k, seq, func(ctx context.Context, seq int64) (_ tail.Page, err error) {
		defer redisstore.Wrap(&err, "read the stream of", k.Session)
		if err := redisstore.Checked(ctx); err != nil {
			return tail.Page{}, err
		}
		r, err := s.run(ctx, k, pageScript, seq, mostEntries, mostBytes)
		switch {
		case errors.Is(err, stream.ErrDamaged):
			return tail.Page{}, fmt.Errorf("%w: %w", stream.ErrGone, err)
		case err != nil:
			return tail.Page{}, err
		}
		return decode(r, seq)
	})
}

// fixed is how many values of the head a page has before its entries, and perEntry how many each entry has.
const fixed, perEntry = 5, 4

var errValues = errors.New("its numbers are wrong")

// decode reads the reply of pageScript: last, first, after which number the page begins, status, life; and of each
// entry from, last, run, data.
func decode(r redisstore.Reply, seq int64) (p tail.Page, err error) {
	switch {
	case r.Status == "NONE" && seq > 0:
		return p, stream.ErrGone
	case r.Status == "NONE":
		return tail.Page{Last: true, Over: true}, nil
	case len(r.Values) < fixed || (len(r.Values)-fixed)%perEntry != 0:
		return p, damaged("%d values", len(r.Values))
	}
	var head [3]int64
	if err := r.Numbers(head[:]); err != nil {
		return p, damaged("%w", err)
	}
	last, first, at := head[0], head[1], head[2]
	if at > last || at < first-1 {
		return p, stream.ErrGone
	}
	for i := fixed; i < len(r.Values); i += perEntry {
		chunks, err := entry(r.Values[i:i+perEntry], at, last)
		if err != nil {
			return p, damaged("entry of chunk %s: %w", r.Values[i+1], err)
		}
		p.Chunks = append(p.Chunks, chunks...)
		at += int64(len(chunks))
	}
	if len(p.Chunks) == 0 && at < last {
		return p, damaged("the entry of chunk %d is missing", at+1)
	}
	p.Life = r.Values[4]
	p.Seq, p.Last, p.Over = at, at == last, stream.Status(r.Values[3]) != stream.Active
	return p, nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w: "+format, append([]any{stream.ErrGone, stream.ErrDamaged}, args...)...)
}

// entry returns the chunks of an entry after a number.
func entry(values []string, after, last int64) (all []stream.Chunk, err error) {
	from, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return nil, err
	}
	to, err := strconv.ParseInt(values[1], 10, 64)
	if err != nil {
		return nil, err
	}
	var data []json.RawMessage
	if err := json.Unmarshal([]byte(values[3]), &data); err != nil {
		return nil, err
	}
	if from > after+1 || to <= after || to > last || to-from+1 != int64(len(data)) {
		return nil, errValues
	}
	for i, doc := range data[after+1-from:] {
		all = append(all, stream.Chunk{Seq: after + 1 + int64(i), Run: values[2], Data: doc})
	}
	return all, nil
}
