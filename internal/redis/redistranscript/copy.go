package redistranscript

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/transcript"
)

// The bounds of a copy, which is one command: other clients wait meanwhile.
const mostCopied, copiedBytes = 20_000, 64 << 20

var (
	errTooMuch = fmt.Errorf("the copy has more than %d entries or %d MiB: copy fewer", mostCopied, copiedBytes>>20)
	errNoBody  = errors.New("it has no messages")
	errChanges = errors.New("the source changes all the time")
)

// Copy reads the source, and then writes the target in one script.
func (s *Store) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) (err error) {
	defer redisstore.Wrap(&err, "copy to", to.Session)
	if err := redisstore.Checked(ctx, transcript.ValidateCopy(from, to, spans)); err != nil {
		return err
	}
	all, err := s.snapshot(ctx, from, transcript.Union(spans))
	if err != nil || len(all) == 0 {
		return judge(from, err)
	}
	var args []any
	for _, e := range all {
		if e.call == "" || len(e.Body) == 0 { // no store wrote it
			return transcript.Damaged(from, e.Span, errNoBody)
		}
		args = append(args, e.From, e.Through, e.Body)
	}
	_, err = s.add(ctx, func(call, base string) (redisstore.Reply, error) {
		return s.write(ctx, copyScript, to, call, s.clock.now(), append([]any{base}, args...)...)
	})
	return err
}

// mostLooks is how often snapshot reads a source that changes meanwhile.
const mostLooks = 8

// snapshot returns the entries of spans as they were at one moment. If they do not fit into one page, that is when they
// were listed after the last page. Nothing changes an entry, so an entry that is listed was the same when its page was
// read.
func (s *Store) snapshot(ctx context.Context, k transcript.Key, spans []transcript.Span) ([]entry, error) {
	for range mostLooks {
		all, pages, err := s.pages(ctx, k, spans)
		if err != nil || pages <= 1 {
			return all, err
		}
		known := make(map[string]entry, len(all))
		for _, e := range all {
			known[e.name()] = e
		}
		listed, _, err := s.page(ctx, k, spans, 0, "")
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(listed, func(e entry) bool { return known[e.name()].Body == nil }) {
			for i, e := range listed {
				listed[i] = known[e.name()]
			}
			return listed, nil
		}
	}
	return nil, errChanges
}

// name tells the entry from all that ever were in its session.
func (e entry) name() string { return fmt.Sprint(e.From, " ", e.call) }

// pages returns the entries of spans, and how many pages they were.
func (s *Store) pages(ctx context.Context, k transcript.Key, left []transcript.Span) (all []entry, n int, err error) {
	size := 0
	for more := true; more && len(left) > 0; n++ {
		var page []entry
		if page, more, err = s.page(ctx, k, left, pageEntries, pageBytes); err != nil {
			return nil, n, err
		}
		for _, e := range page {
			size += len(e.Body)
			left = behind(left, e.Through)
		}
		if all = append(all, page...); len(all) > mostCopied || size > copiedBytes {
			return nil, n, errTooMuch
		}
	}
	return all, n, nil
}

// behind returns the numbers of spans in their order that are above n.
func behind(spans []transcript.Span, n int64) (left []transcript.Span) {
	for _, s := range spans {
		if s.From = max(s.From, n+1); s.From <= s.Through {
			left = append(left, s)
		}
	}
	return left
}
