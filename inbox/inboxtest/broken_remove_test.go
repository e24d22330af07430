package inboxtest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/inbox"
)

// locking takes a lock for each call, and while Items yields.
type locking struct {
	*inbox.Memory
	lock chan struct{}
}

func (s *locking) Post(ctx context.Context, it inbox.Item) (bool, error) {
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-s.lock }()
	return s.Memory.Post(ctx, it)
}

func (s *locking) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		s.lock <- struct{}{}
		defer func() { <-s.lock }()
		s.Memory.Items(ctx, k, kind)(yield)
	}
}

// leaking takes a lock for Items, and frees it after the last item only.
type leaking struct {
	*inbox.Memory
	lock chan struct{}
}

func (s *leaking) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		select {
		case s.lock <- struct{}{}:
		case <-ctx.Done():
			yield(inbox.Item{}, ctx.Err())
			return
		}
		for it, err := range s.Memory.Items(ctx, k, kind) {
			if !yield(it, err) {
				return
			}
		}
		<-s.lock
	}
}

func (s readsOnce) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	items := all(s.Memory, k, kind)
	return func(yield func(inbox.Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
	}
}

func (s byPrefix) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	for _, it := range all(s.Memory, k, kind) {
		begins := func(id string) bool { return strings.HasPrefix(it.ID, strings.TrimSuffix(id, "%")) }
		if slices.ContainsFunc(ids, begins) {
			ids = append(ids, it.ID)
		}
	}
	return s.Memory.Remove(ctx, k, kind, ids...)
}

func (s notFound) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if kind != "" && len(all(s.Memory, k, kind)) == 0 {
		return errors.New("no rows")
	}
	return s.Memory.Remove(ctx, k, kind, ids...)
}

func (s anyKind) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if len(ids) == 0 {
		kind = ""
	}
	return s.Memory.Remove(ctx, k, kind, ids...)
}

func (s onlyAnswers) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	return s.Memory.Remove(ctx, k, cmp.Or(kind, inbox.Answer), ids...)
}

func (s oneID) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	return s.Memory.Remove(ctx, k, kind, ids[:min(len(ids), 1)]...)
}

// A remembering store takes no item that it has had.
type remembering struct {
	*inbox.Memory
	had inbox.Memory
}

func tombstones(m *inbox.Memory) *remembering { return &remembering{Memory: m} }

func (s *remembering) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if first, err := s.had.Post(ctx, it); err != nil || !first {
		return false, err
	}
	if old, _ := stored(&s.had, it); string(old.Data) != string(it.Data) {
		return true, nil
	}
	return s.Memory.Post(ctx, it)
}

func (s blind) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if it.Validate() == nil {
		it.Shown = ""
	}
	return s.Memory.Post(ctx, it)
}

func (s trusting) Post(ctx context.Context, it inbox.Item) (bool, error) {
	first, err := s.Memory.Post(ctx, it)
	if err == nil || it.Data == nil {
		return first, err
	}
	it.Data = nil
	return s.Memory.Post(ctx, it)
}

// aliasing gives back the very data that the last caller has posted.
type aliasing struct {
	*inbox.Memory
	last json.RawMessage
}

func (s *aliasing) Post(ctx context.Context, it inbox.Item) (bool, error) {
	s.last = it.Data
	return s.Memory.Post(ctx, it)
}

func (s *aliasing) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return each(s.Memory, func(items []inbox.Item) []inbox.Item {
		for i := range items {
			items[i].Data = s.last
		}
		return items
	})(ctx, k, kind)
}

func (s deaf) Post(ctx context.Context, it inbox.Item) (bool, error) {
	return s.Memory.Post(context.WithoutCancel(ctx), it)
}

func (s deaf) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return s.Memory.Items(context.WithoutCancel(ctx), k, kind)
}

func (s writesBack) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	items := all(s.Memory, k, kind)
	pause()
	if len(ids) == 0 || kind == "" {
		return s.Memory.Remove(ctx, k, kind, ids...)
	}
	if err := s.Memory.Remove(ctx, k, kind); err != nil {
		return err
	}
	for _, it := range items {
		if !slices.Contains(ids, it.ID) {
			if _, err := s.Memory.Post(ctx, it); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s looksFirst) Post(ctx context.Context, it inbox.Item) (bool, error) {
	_, there := stored(s.Memory, it)
	pause()
	if there {
		return true, nil
	}
	return s.Memory.Post(ctx, it)
}

// unlisted loses a session from the list of all if it is removed and posted at once.
type unlisted struct {
	*inbox.Memory
	index inbox.Memory
}

func (s *unlisted) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if _, err := s.index.Post(ctx, it); err != nil {
		return false, err
	}
	pause()
	return s.Memory.Post(ctx, it)
}

func (s *unlisted) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if err := s.Memory.Remove(ctx, k, kind, ids...); err != nil {
		return err
	}
	pause()
	if kind != "" && len(all(s.Memory, k, kind)) > 0 {
		return nil
	}
	pause()
	return s.index.Remove(ctx, k, kind)
}

func (s *unlisted) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	if k.Session != "" {
		return s.Memory.Items(ctx, k, kind)
	}
	return each(s.Memory, func(items []inbox.Item) []inbox.Item {
		return slices.DeleteFunc(items, func(it inbox.Item) bool { return len(all(&s.index, it.Key, kind)) == 0 })
	})(ctx, k, kind)
}
