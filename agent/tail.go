package agent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
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
	if size(t.State.Tail...) <= a.tail {
		return nil
	}
	return a.moveAll(ctx, t)
}

func (a *Agent[C]) moveAll(ctx context.Context, t *Turn[C]) error {
	s := &t.State
	if len(s.Tail) == 0 {
		return nil
	}
	id, err := entryID(t.RunID, s.Try, t.Iteration, s.Tail)
	if err != nil {
		return err
	}
	span, err := a.stores.Transcript.Append(ctx, a.key(t.Session), id, s.Tail)
	if err != nil {
		return err
	}
	moved := make(map[int64]message.Message, len(s.Tail))
	for i, m := range s.Tail {
		moved[span.From+int64(i)] = m
	}
	a.cache.put(t.Session, s.Born, moved, nil)
	a.tidy(ctx, t, span.From)
	s.Said, s.Tail = transcript.Join(s.Said, span), nil
	return nil
}

// entryID returns the id of the entry of a tail. If the database of the runs has lost a save, the iteration has another
// tail when it is repeated. So the id has a sum of the messages: otherwise the state would name what was lost.
func entryID(run, try string, iteration int, tail []message.Message) (string, error) {
	doc, err := json.Marshal(tail)
	if err == nil {
		doc, err = jsonvalue.Canonical(doc) // a database may have written it otherwise
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	return fmt.Sprintf("%s/%s/%d/%x", run, try, iteration, sum[:8]), nil
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
	all, err := a.said(ctx, t, spans, tail)
	if err != nil {
		return nil, err
	}
	if a.def.Window == 0 || int64(len(all)) == transcript.Count(s.Said)+int64(len(s.Tail)) {
		return all, nil
	}
	if all = whole(all); len(all) > 0 && all[0].Role == message.RoleUser {
		return all, nil
	}
	asked, err := a.asked(ctx, t)
	return append(asked, all...), err
}

// asked returns the newest message of the user, if there is one. A long turn has it outside of the window, and without
// it the model does not know what to do.
func (a *Agent[C]) asked(ctx context.Context, t *Turn[C]) ([]message.Message, error) {
	for m, err := range a.backward(ctx, t) {
		switch {
		case err != nil:
			return nil, err
		case m.Role == message.RoleUser:
			m.Blocks = slices.Clone(m.Blocks)
			return []message.Message{m}, nil
		}
	}
	return nil, nil
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

// Why a call did not run, and was not answered.
const (
	whyStopped  = "stopped"
	whyNobody   = "nobody has answered"
	whyBranched = "the conversation was branched"
)

// unanswered reports whether a result is that of a call that did not run.
func unanswered(text string) bool {
	why, ok := strings.CutPrefix(text, "not executed: ")
	return ok && (why == whyStopped || why == whyNobody || why == whyBranched)
}

// notExecuted returns the results of calls that did not run. A child may have done a part of what it was asked for.
func notExecuted(open []Open, why string) message.Message {
	m := message.Message{Role: roleTool}
	for _, o := range open {
		text := "not executed: " + why
		if o.Child != "" {
			text = "not finished, and a part of it may have been done: " + why
		} else if o.Asking != nil && o.Asking.Parts > 0 {
			text = "not finished, and a part of it was done: " + why
		}
		m.Blocks = append(m.Blocks, message.ToolResult(o.Call.ID, text, true))
	}
	return m
}
