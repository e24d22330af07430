package transcript_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// A story is a sequence of calls on two sessions, with the verdict of each.
type story struct {
	ctx      context.Context
	store    transcript.Store
	verdicts []string
	// after is called after each call.
	after func()
}

func tell(ctx context.Context, s transcript.Store, lives int) []string {
	y := &story{ctx: ctx, store: s, after: func() {}}
	for range lives {
		y.live()
	}
	return y.verdicts
}

// live appends entries, repeats some of them, copies and trims.
func (y *story) live() {
	y.append("a", 1)
	y.append("b", 2)
	y.append("a", 1)
	y.copy(span(1, 2))
	y.append("c", 1)
	y.trim("s", future, span(4, 4))
	y.append("a", 2) // it was deleted
	y.append("b", 1)
	y.copy(span(1, 3)) // there are none of these
	y.trim("s", future)
	y.trim("s", future)
	y.append("b", 3)
	y.copy(span(4, 9))
	y.trim("t", zero)
	y.append("a", 2)
	y.trim("s", zero)
	y.trim("s", zero)
	y.append("b", 1) // the first of another life
	y.append("d", 1)
	y.copy(span(2, 2))
	y.trim("s", future)
	y.trim("s", zero)
	y.trim("t", zero)
}

var zero, future = time.Time{}, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)

func (y *story) append(id string, n int) {
	msgs := make([]message.Message, n)
	for i := range msgs {
		msgs[i] = message.User(fmt.Sprint(id, i))
	}
	got, err := y.store.Append(y.ctx, key("s"), id, msgs)
	y.note(fmt.Sprint("append ", id, ": ", got), err)
}

func (y *story) copy(spans ...transcript.Span) {
	y.note(fmt.Sprint("copy ", spans), y.store.Copy(y.ctx, key("s"), key("t"), spans))
}

func (y *story) trim(session string, before time.Time, spans ...transcript.Span) {
	n, err := y.store.Trim(y.ctx, key(session), spans, before)
	y.note(fmt.Sprint("trim ", session, " ", spans, ": ", n), err)
}

// said returns one message.
func said(text string) []message.Message { return []message.Message{message.User(text)} }

// note adds a verdict, and what readers see after the call.
func (y *story) note(what string, err error) {
	y.verdicts = append(y.verdicts, fmt.Sprint(what, ": ", err, " ", y.seen(y.store)))
	y.after()
}

func (y *story) seen(s transcript.Store) string {
	return fmt.Sprint(there(y.ctx, s, "s"), there(y.ctx, s, "t"))
}

// there returns the messages of a session, and where some are missing.
func there(ctx context.Context, s transcript.Store, session string) (all []string) {
	for m, err := range s.Read(ctx, key(session), []transcript.Span{span(1, math.MaxInt16)}) {
		if err != nil {
			all = append(all, err.Error())
		} else {
			all = append(all, m.Blocks[0].Text)
		}
	}
	return all
}

// Each answer in turn is lost after its request took effect. The client repeats the request, and no verdict differs.
func TestLostReply(t *testing.T) { onRedis.TestLostReply(t) }

// A copy of a request that arrives much later changes nothing, also in the next life of the session.
func TestLateCopy(t *testing.T) {
	three := onRedis
	three.Tell = func(ctx context.Context, s transcript.Store) []string { return tell(ctx, s, 3) }
	three.TestLateCopy(t)
}

func TestRedisScriptFlush(t *testing.T) { onRedis.TestScriptFlush(t) }

// After each call, copies of all requests so far arrive. They change nothing.
func TestRedisLateCopies(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	sent := new(redistest.Spy)
	y := &story{ctx: t.Context(), store: onRedis.New(redistest.Another(t, shared, sent), prefix)}
	others := onRedis.New(shared, prefix)
	y.after = func() {
		seen := y.seen(others)
		for _, request := range slices.Clone(sent.Requests) {
			shared.Do(t.Context(), request...)
			if got := y.seen(others); got != seen {
				t.Fatalf("after %q, a copy of %.200q made %q of %q", y.verdicts, request, got, seen)
			}
		}
	}
	y.live()
	y.after = func() {}
	y.live()
	if want := tell(t.Context(), new(transcript.Memory), 2); !slices.Equal(y.verdicts, want) {
		t.Errorf("got %q, want %q", y.verdicts, want)
	}
}
