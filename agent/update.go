package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// KeepFirst keeps the first n messages of what was said, for [Agent.Update]. Messages that a summary stands for count.
// If one of those goes, the summary goes too, since it tells what is no longer there: the model is shown the messages
// that stay.
func (s *State[C]) KeepFirst(n int) {
	n = max(n, 0)
	if n >= s.count() {
		return
	}
	s.Forked = min(s.Forked, n)
	told := s.named()
	kept := transcript.First(told, int64(n))
	s.Tail = slices.Clip(s.Tail[:max(n-int(transcript.Count(told)), 0)])
	if transcript.Count(transcript.Union(s.Behind)) > transcript.Count(within(s.Behind, kept)) {
		s.Summary, s.Said, s.Behind = "", kept, nil
		return
	}
	s.Said = within(s.Said, kept)
}

// count returns how many messages were said.
func (s *State[C]) count() int { return int(transcript.Count(s.named())) + len(s.Tail) }

// within returns the numbers of spans that kept has too, which are those up to its last one.
func within(spans, kept []transcript.Span) (left []transcript.Span) {
	if len(kept) == 0 {
		return nil
	}
	end := kept[len(kept)-1].Through
	for _, s := range spans {
		if s.Through = min(s.Through, end); s.From <= s.Through {
			left = append(left, s)
		}
	}
	return left
}

// update takes an Update. keep is how many messages stay.
func (a *Agent[C]) update(ctx context.Context, t *Turn[C], raw json.RawMessage, keep *int) error {
	s := &t.State
	if keep != nil && *keep < s.count() {
		if len(s.Open) > 0 {
			return refuse("messages", ErrPending)
		}
		s.KeepFirst(*keep)
		parted, err := a.parted(ctx, t)
		switch {
		case err != nil:
			return err
		case parted:
			return refuse("messages", ErrParted)
		}
	}
	return s.patch(raw)
}

// parted reports whether a call has no result behind it.
func (a *Agent[C]) parted(ctx context.Context, t *Turn[C]) (bool, error) {
	done := make(map[string]bool)
	for m, err := range a.backward(ctx, t) {
		if err != nil {
			return false, err
		}
		for _, b := range m.Blocks {
			if r, ok := b.Result(); ok {
				done[r.CallID] = true
			}
			if c, ok := b.Call(); ok && !done[c.ID] {
				return true, nil
			}
		}
		if m.Role != roleTool {
			break
		}
	}
	return false, nil
}

// backward yields what was said, newest first, but for what a summary stands for. Blocks must not be changed.
func (a *Agent[C]) backward(ctx context.Context, t *Turn[C]) iter.Seq2[message.Message, error] {
	return func(yield func(message.Message, error) bool) {
		for _, m := range slices.Backward(t.State.Tail) {
			if !yield(m, nil) {
				return
			}
		}
		told := int(transcript.Count(t.State.Said))
		for seen, n := 0, 64; seen < told; n *= 4 {
			all, err := a.said(ctx, t, newest(t.State.Said, int64(n)), nil)
			if err != nil {
				yield(message.Message{}, err)
				return
			}
			for _, m := range slices.Backward(all[:len(all)-seen]) {
				if !yield(m, nil) {
					return
				}
			}
			seen = len(all)
		}
	}
}

// changed calls f on s and returns the input that makes the changes. What f may not change is ErrReserved.
func (s *State[C]) changed(f func(*State[C]) error) (env envelope, err error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return env, err
	}
	if err := f(s); err != nil {
		return env, err
	}
	var want State[C] // what the agent alone changes, as it should be
	if err := json.Unmarshal(raw, &want); err != nil {
		return env, err
	}
	if n := s.count(); n < want.count() {
		want.KeepFirst(n)
		env.Keep = &n
	}
	fields, err := want.reserved()
	if err != nil {
		return env, err
	}
	got, err := s.reserved()
	if err != nil {
		return env, err
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(fields)), maps.Keys(got))
	slices.Sort(names)
	for _, name := range names {
		if !bytes.Equal(fields[name], got[name]) {
			return env, refuse(name, ErrReserved)
		}
	}
	env.Patch, err = json.Marshal(patch[C]{s.Custom, s.Status, s.Labels})
	return env, err
}

// reserved returns what the agent alone changes, by the name of the field.
func (s State[C]) reserved() (fields map[string]json.RawMessage, err error) {
	var none C
	s.Custom, s.Status, s.Labels = none, "", Labels{}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return fields, json.Unmarshal(raw, &fields)
}
