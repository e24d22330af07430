package redisstream

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/stream"
)

// mostListed is how many entries one script looks at: the server does nothing else meanwhile.
const mostListed = 256

// Starts implements [stream.Store], in one script for each 256 Appends that are kept. If the session is forgotten
// meanwhile, and begins anew, Starts begins anew too.
func (s *Store) Starts(ctx context.Context, k stream.Key) (starts map[string]int64, err error) {
	defer redisstore.Wrap(&err, "list the runs of the stream of", k.Session)
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return nil, err
	}
	life, after := "", int64(0)
	starts = make(map[string]int64)
	for more := true; more; {
		r, err := s.run(ctx, k, startsScript, after, mostListed)
		switch {
		case err != nil:
			return nil, err
		case r.Status == "NONE":
			return make(map[string]int64), nil
		case after > 0 && r.Value(1) != life:
			after = 0
			clear(starts)
			continue
		}
		if after, err = addStarts(starts, r); err != nil {
			return nil, fmt.Errorf("%w: %w", stream.ErrDamaged, err)
		}
		life, more = r.Value(1), r.Status == "MORE"
	}
	return starts, nil
}

// addStarts adds a reply of startsScript, and returns the number to go on after.
func addStarts(starts map[string]int64, r redisstore.Reply) (after int64, err error) {
	if after, err = strconv.ParseInt(r.Value(0), 10, 64); err != nil {
		return 0, err
	}
	for i := 2; i+1 < len(r.Values); i += 2 {
		from, err := strconv.ParseInt(r.Values[i+1], 10, 64)
		if err != nil {
			return 0, err
		}
		if _, known := starts[r.Values[i]]; !known {
			starts[r.Values[i]] = from
		}
	}
	return after, nil
}
