package redisstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/stream"
)

// Append implements [stream.Store].
func (s *Store) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, status stream.Status, data []json.RawMessage,
) (last int64, err error) {
	defer redisstore.Wrap(&err, "append to the stream of", k.Session)
	if err := redisstore.Checked(ctx, stream.ValidateAppend(k, run, epoch, status, data)); err != nil {
		return 0, err
	}
	sign := "+"
	if status.Over() {
		sign = "-"
	}
	r, err := s.run(ctx, k, appendScript,
		rand.Text()[:12], run, epoch, string(status), len(data), array(data), s.keep, s.ttl, sign)
	if err != nil {
		return 0, err
	}
	if last, err = strconv.ParseInt(r.Value(0), 10, 64); err != nil {
		return 0, err
	}
	if r.Status == "OK" {
		s.hub.Tell(s.key(k), last, status.Over())
	}
	return last, nil
}

// array returns the chunks as one JSON array.
func array(data []json.RawMessage) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, doc := range data {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(doc)
	}
	b.WriteByte(']')
	return b.Bytes()
}
