package inboxtest_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/inbox"
)

func (s overwriting) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if old, there := stored(s.Memory, it); there {
		if err := s.Memory.Remove(ctx, it.Key, it.Kind, it.ID); err != nil {
			return false, err
		}
		_, err := s.Memory.Post(ctx, it)
		return old.By == it.By, err
	}
	return s.Memory.Post(ctx, it)
}

func (s allFirst) Post(ctx context.Context, it inbox.Item) (bool, error) {
	_, err := s.Memory.Post(ctx, it)
	return err == nil, err
}

func (s firstOnce) Post(ctx context.Context, it inbox.Item) (bool, error) {
	_, there := stored(s.Memory, it)
	first, err := s.Memory.Post(ctx, it)
	return first && !there, err
}

func (s strict) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if old, there := stored(s.Memory, it); there && string(old.Data) != string(it.Data) && old.By == it.By {
		return false, errors.New("another answer")
	}
	return s.Memory.Post(ctx, it)
}

func (s caselessBy) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if old, there := stored(s.Memory, it); there {
		return strings.EqualFold(old.By, it.By), nil
	}
	return s.Memory.Post(ctx, it)
}

func (s readsFirst) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if old, there := stored(s.Memory, it); there {
		return old.By == it.By, nil
	}
	pause()
	_, err := s.Memory.Post(ctx, it)
	return err == nil, err
}

func pause() {
	for range 100 {
		runtime.Gosched()
	}
}

// busy refuses an item while another call posts one.
type busy struct {
	*inbox.Memory
	mu sync.Mutex
}

func (s *busy) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if !s.mu.TryLock() {
		return false, errors.New("duplicate key")
	}
	defer s.mu.Unlock()
	pause()
	return s.Memory.Post(ctx, it)
}

func (s oneKind) Post(ctx context.Context, it inbox.Item) (bool, error) {
	other := it
	if other.Kind = inbox.Stop; it.Kind == inbox.Stop {
		other.Kind = inbox.Answer
	}
	if old, there := stored(s.Memory, other); there {
		return old.By == it.By, nil
	}
	return s.Memory.Post(ctx, it)
}

func lower(k inbox.Key) inbox.Key {
	k.Session = strings.ToLower(k.Session)
	return k
}

func (s caseless) Post(ctx context.Context, it inbox.Item) (bool, error) {
	it.Key = lower(it.Key)
	return s.Memory.Post(ctx, it)
}

func (s caseless) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return each(s.Memory, func(items []inbox.Item) []inbox.Item {
		for i := range items {
			items[i].Key = k
		}
		return items
	})(ctx, lower(k), kind)
}

// joined lists the items of each orchestrator whose name begins with that of another.
func (s joined) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return each(s.Memory, func(items []inbox.Item) []inbox.Item {
		for _, it := range all(s.Memory, inbox.Key{Orchestrator: k.Orchestrator + "/s", Session: k.Session}, kind) {
			it.Key = k
			items = append(items, it)
		}
		return items
	})(ctx, k, kind)
}

func (s oneSession) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return each(s.Memory, func(items []inbox.Item) []inbox.Item {
		return slices.DeleteFunc(items, func(it inbox.Item) bool { return it.Session != k.Session })
	})(ctx, k, kind)
}

// byOffset counts the items that it has yielded, and goes on behind as many.
func (s byOffset) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		const page = 16
		for offset := 0; ; offset += page {
			items := all(s.Memory, k, kind)
			items = items[min(offset, len(items)):min(offset+page, len(items))]
			for _, it := range items {
				if !yield(it, ctx.Err()) {
					return
				}
			}
			if len(items) < page {
				return
			}
		}
	}
}

func (s anyItem) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	it, err := s.Memory.Item(ctx, k, inbox.Answer, id)
	if errors.Is(err, inbox.ErrNotFound) {
		return s.Memory.Item(ctx, k, kind, id)
	}
	return it, err
}

func (s emptyItem) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	it, err := s.Memory.Item(ctx, k, kind, id)
	if errors.Is(err, inbox.ErrNotFound) {
		err = nil
	}
	return it, err
}
