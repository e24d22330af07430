package faulttest

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
)

// Transcripts returns s behind an Around. Its methods are called transcript.Append and so on.
func Transcripts(s transcript.Store, around Around) transcript.Store { return &transcripts{s, around} }

// Inbox returns s behind an Around. Its methods are called inbox.Post and so on.
func Inbox(s inbox.Store, around Around) inbox.Store { return &box{s, around} }

// Stream returns s behind an Around. Its methods are called stream.Append and so on.
func Stream(s stream.Store, around Around) stream.Store { return &shows{s, around} }

type transcripts struct {
	store  transcript.Store
	around Around
}

// Append implements [transcript.Store].
func (s *transcripts) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (transcript.Span, error) {
	return ask(ctx, s.around, Call{Method: "transcript.Append", Session: k.Session},
		func(ctx context.Context) (transcript.Span, error) { return s.store.Append(ctx, k, id, msgs) })
}

// Read implements [transcript.Store].
func (s *transcripts) Read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	return listed(ctx, s.around, Call{Method: "transcript.Read", Session: k.Session},
		func(ctx context.Context) iter.Seq2[message.Message, error] { return s.store.Read(ctx, k, spans) })
}

// Copy implements [transcript.Store].
func (s *transcripts) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	return s.around(ctx, Call{Method: "transcript.Copy", Session: to.Session},
		func(ctx context.Context) error { return s.store.Copy(ctx, from, to, spans) })
}

// Trim implements [transcript.Store].
func (s *transcripts) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (int, error) {
	return ask(ctx, s.around, Call{Method: "transcript.Trim", Session: k.Session},
		func(ctx context.Context) (int, error) { return s.store.Trim(ctx, k, spans, before) })
}

type box struct {
	store  inbox.Store
	around Around
}

// Post implements [inbox.Store].
func (s *box) Post(ctx context.Context, it inbox.Item) (bool, error) {
	return ask(ctx, s.around, Call{Method: "inbox.Post", Session: it.Session},
		func(ctx context.Context) (bool, error) { return s.store.Post(ctx, it) })
}

// Items implements [inbox.Store].
func (s *box) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return listed(ctx, s.around, Call{Method: "inbox.Items", Session: k.Session},
		func(ctx context.Context) iter.Seq2[inbox.Item, error] { return s.store.Items(ctx, k, kind) })
}

// Item implements [inbox.Store].
func (s *box) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	return ask(ctx, s.around, Call{Method: "inbox.Item", Session: k.Session},
		func(ctx context.Context) (inbox.Item, error) { return s.store.Item(ctx, k, kind, id) })
}

// Remove implements [inbox.Store].
func (s *box) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	return s.around(ctx, Call{Method: "inbox.Remove", Session: k.Session},
		func(ctx context.Context) error { return s.store.Remove(ctx, k, kind, ids...) })
}

type shows struct {
	store  stream.Store
	around Around
}

// Append implements [stream.Store].
func (s *shows) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, status stream.Status, data []json.RawMessage,
) (int64, error) {
	return ask(ctx, s.around, Call{Method: "stream.Append", Session: k.Session, Run: run},
		func(ctx context.Context) (int64, error) { return s.store.Append(ctx, k, run, epoch, status, data) })
}

// Read implements [stream.Store].
func (s *shows) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return listed(ctx, s.around, Call{Method: "stream.Read", Session: k.Session},
		func(ctx context.Context) iter.Seq2[stream.Chunk, error] { return s.store.Read(ctx, k, seq) })
}

// Last implements [stream.Store].
func (s *shows) Last(ctx context.Context, k stream.Key) (seq int64, run string, status stream.Status, err error) {
	err = s.around(ctx, Call{Method: "stream.Last", Session: k.Session}, func(ctx context.Context) (err error) {
		seq, run, status, err = s.store.Last(ctx, k)
		return err
	})
	return seq, run, status, err
}

// Starts implements [stream.Store].
func (s *shows) Starts(ctx context.Context, k stream.Key) (map[string]int64, error) {
	return ask(ctx, s.around, Call{Method: "stream.Starts", Session: k.Session},
		func(ctx context.Context) (map[string]int64, error) { return s.store.Starts(ctx, k) })
}

// Delete implements [stream.Store].
func (s *shows) Delete(ctx context.Context, k stream.Key) error {
	return s.around(ctx, Call{Method: "stream.Delete", Session: k.Session},
		func(ctx context.Context) error { return s.store.Delete(ctx, k) })
}
