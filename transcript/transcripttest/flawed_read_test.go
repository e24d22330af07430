package transcripttest_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

func (s *flawed) Read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	if s.has("ctx is not looked at") {
		ctx = context.WithoutCancel(ctx)
	}
	read := s.read(ctx, k, spans)
	if s.has("Read reads once") {
		return again(read)
	}
	return func(yield func(message.Message, error) bool) {
		if s.has("Read holds the lock", "Read that ends early holds the lock") {
			select {
			case s.lock <- struct{}{}:
			case <-ctx.Done():
				yield(message.Message{}, ctx.Err())
				return
			}
		}
		ended := false
		for m, err := range read {
			if s.skips(err) {
				continue
			}
			m, err = s.changed(m, err)
			if ended = !yield(m, err); ended || err != nil && s.has("Read ends at what is damaged or missing") {
				break
			}
		}
		if s.has("Read holds the lock") || s.has("Read that ends early holds the lock") && !ended {
			<-s.lock
		}
	}
}

func (s *flawed) read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	err := transcript.ValidateRead(k, spans)
	if err == nil && s.has("spans are few") && len(spans) > 100 {
		err = transcript.ErrInvalid
	}
	if err == nil && s.has("numbers have 32 bits") &&
		slices.ContainsFunc(spans, func(o transcript.Span) bool { return o.Through >= 1<<31 }) {
		err = transcript.ErrInvalid
	}
	if s.has("messages are shared") && err == nil {
		return s.shared(k, spans)
	}
	return func(yield func(message.Message, error) bool) {
		switch {
		case err != nil && s.has("nothing is checked"):
		case err != nil:
			yield(message.Message{}, err)
		default:
			transcript.ReadPages(ctx, k, s.spans(k, spans), s.pages(ctx, k))(yield)
		}
	}
}

// again returns a list that has at all times what it had first.
func again(read iter.Seq2[message.Message, error]) iter.Seq2[message.Message, error] {
	type line struct {
		m   message.Message
		err error
	}
	var all []line
	for m, err := range read {
		all = append(all, line{m, err})
	}
	return func(yield func(message.Message, error) bool) {
		for _, l := range all {
			if !yield(l.m, l.err) {
				return
			}
		}
	}
}

// shared yields the messages that Append was called with.
func (s *flawed) shared(k transcript.Key, spans []transcript.Span) iter.Seq2[message.Message, error] {
	return func(yield func(message.Message, error) bool) {
		for _, e := range s.get(k) {
			for i, m := range e.msgs {
				if n := e.From + int64(i); n >= spans[0].From && n <= spans[0].Through && !yield(m, nil) {
					return
				}
			}
		}
	}
}

// spans returns which spans are read.
func (s *flawed) spans(k transcript.Key, spans []transcript.Span) []transcript.Span {
	spans = slices.Clone(spans)
	switch s.flaw {
	case "spans are sorted":
		slices.SortFunc(spans, func(a, b transcript.Span) int { return cmp.Compare(a.From, b.From) })
	case "a message is read once":
		last := int64(0)
		for i := range spans {
			if spans[i].From > 0 && spans[i].From <= last {
				spans[i].From = min(last+1, spans[i].Through)
			}
			last = max(last, spans[i].Through)
		}
	case "entries are read whole":
		for i := range spans {
			for _, e := range s.get(k) {
				if e.From < spans[i].From && e.Through >= spans[i].From {
					spans[i].From = e.From
				}
			}
		}
	case "no span is all":
		if len(spans) == 0 {
			spans = []transcript.Span{{From: 1, Through: 3}}
		}
	}
	return spans
}

// pages returns the pages of ReadPages.
func (s *flawed) pages(ctx context.Context, k transcript.Key) transcript.Pager {
	calls, offset := 0, 0
	return func(_ context.Context, span transcript.Span, most int) (page []transcript.Entry, more bool, err error) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		skip := 0
		calls++
		for i, e := range s.get(k) {
			switch {
			case e.From > span.Through || e.Through < span.From, len(page) == most:
			case s.has("an entry is found by its first number") && e.From < span.From:
			case calls > 1 && s.has("there is one page") && span.From > 50,
				calls > 2 && s.has("there are two pages") && span.From > 300:
			case s.has("pages are by offset") && i < offset:
				skip++
			default:
				page = append(page, transcript.Entry{Span: e.Span, Body: e.body})
			}
		}
		offset += len(page)
		if s.has("a page leaves an entry out") && len(page) == most && calls > 1 {
			page[most/2] = page[most/2-1]
		}
		return page, len(page) == most, nil
	}
}

// skips reports whether an error is not told.
func (s *flawed) skips(err error) bool {
	return errors.Is(err, transcript.ErrDamaged) && s.has("what is missing is left out")
}

// changed returns what is yielded.
func (s *flawed) changed(m message.Message, err error) (message.Message, error) {
	unknown := func(b message.Block) bool { return b.Kind == "image" }
	switch {
	case errors.Is(err, transcript.ErrDamaged) && s.has("what is missing is any error"):
		err = errors.New("not found")
	case s.has("unknown kinds are an error") && slices.ContainsFunc(m.Blocks, unknown):
		err = message.ErrUnknownKind
	case s.has("unknown kinds are left out"):
		m.Blocks = slices.DeleteFunc(m.Blocks, unknown)
	case s.has("times are in UTC"):
		m.CreatedAt = m.CreatedAt.UTC()
	case s.has("times are microseconds of the database"):
		m.CreatedAt = m.CreatedAt.Truncate(time.Microsecond)
	}
	return m, err
}
