package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// roleTool is the role of the results of calls.
const roleTool = "tool"

// add says messages. They are in the state, and are durable when it is saved.
func (a *Agent[C]) add(t *Turn[C], msgs ...message.Message) {
	tail := slices.Clip(t.State.Tail) // an older state may share it
	for _, m := range msgs {
		m = clean(m)
		m.Turn, m.CreatedAt = t.Index, time.Now().Truncate(time.Millisecond)
		tail = append(tail, m)
	}
	t.State.Tail = tail
}

// move moves the tail to the transcript, if it has grown large. It comes first in an iteration, when an earlier save
// has kept the tail: so whoever repeats the iteration moves the same, and finds the entry.
func (a *Agent[C]) move(ctx context.Context, t *Turn[C]) error {
	s := &t.State
	if size(s.Tail...) <= a.tail {
		return nil
	}
	id := fmt.Sprintf("%s/%d/%d", t.RunID, t.Index, t.Iteration)
	span, err := a.stores.Transcript.Append(ctx, a.key(t.Session), id, s.Tail)
	if err != nil {
		return err
	}
	s.Said, s.Tail = transcript.Join(s.Said, span), nil
	return nil
}

// size returns about how many bytes messages have in a state.
func size(msgs ...message.Message) (n int) {
	for _, m := range msgs {
		for _, b := range m.Blocks {
			n += len(b.Text) + len(b.Raw) + 100
		}
	}
	return n
}

// window returns what the model sees of what was said.
func (a *Agent[C]) window(ctx context.Context, t *Turn[C]) ([]message.Message, error) {
	s := &t.State
	spans, tail := s.Said, s.Tail
	if n := a.def.Window; n > 0 {
		spans, tail = newest(spans, int64(n-len(tail))), message.Last(tail, n)
	}
	all, err := a.said(ctx, t.Session, spans)
	if err != nil {
		return nil, err
	}
	all = append(all, tail...)
	if a.def.Window > 0 && int64(len(all)) < transcript.Count(s.Said)+int64(len(s.Tail)) {
		all = whole(all)
	}
	return all, nil
}

// newest returns the spans of the newest n messages.
func newest(all []transcript.Span, n int64) (kept []transcript.Span) {
	for _, s := range slices.Backward(all) {
		if n <= 0 {
			break
		}
		if s == (transcript.Span{}) {
			continue
		}
		s.From = max(s.From, s.Through-n+1)
		n -= s.Through - s.From + 1
		kept = append(kept, s)
	}
	slices.Reverse(kept)
	return kept
}

// whole drops what comes before the first message of the user. Without one, it drops the results that come first: their
// calls are not there.
func whole(all []message.Message) []message.Message {
	if i := slices.IndexFunc(all, func(m message.Message) bool { return m.Role == message.RoleUser }); i >= 0 {
		return all[i:]
	}
	i := slices.IndexFunc(all, func(m message.Message) bool { return m.Role != roleTool })
	if i < 0 {
		return nil
	}
	return all[i:]
}

// words returns the text of a message.
func words(m message.Message) (text string) {
	for _, b := range m.Blocks {
		if b.Kind == message.KindText {
			text += b.Text
		}
	}
	return text
}

// notExecuted returns the results of calls that did not run.
func notExecuted(open []Open, why string) message.Message {
	m := message.Message{Role: roleTool}
	for _, o := range open {
		m.Blocks = append(m.Blocks, message.ToolResult(o.Call.ID, "not executed: "+why, true))
	}
	return m
}
