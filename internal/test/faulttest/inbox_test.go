package faulttest

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
)

func TestMemoryInbox(t *testing.T) {
	newStore := func(*testing.T) inbox.Store { return new(inbox.Memory) }
	InboxModel(t, newStore)
	InboxHistories(t, newStore, 10*Histories())
}

// Histories of answers convict a store that breaks its promises at once, or only if two calls meet.
func TestInboxHistoriesConvict(t *testing.T) {
	convictHistories(t, boxSpec, recordAnswers, map[string]func() inbox.Store{
		"everybody is the first":        func() inbox.Store { return allFirst{new(inbox.Memory)} },
		"Post reads, then writes":       func() inbox.Store { return postsLate{new(inbox.Memory)} },
		"Remove returns before it ends": func() inbox.Store { return &removesLate{Memory: new(inbox.Memory)} },
		"a list brings back items":      func() inbox.Store { return restores{new(inbox.Memory)} },
	})
}

type (
	allFirst    struct{ *inbox.Memory }
	postsLate   struct{ *inbox.Memory }
	removesLate struct {
		*inbox.Memory
		mu   sync.Mutex // protects following field
		late func() error
	}
)

func (s allFirst) Post(ctx context.Context, it inbox.Item) (bool, error) {
	_, err := s.Memory.Post(ctx, it)
	return err == nil, err
}

// postsLate does not see what is posted between its look and its write.
func (s postsLate) Post(ctx context.Context, it inbox.Item) (bool, error) {
	for old, err := range s.Items(ctx, it.Key, it.Kind) {
		if err != nil {
			return false, err
		}
		if old.ID == it.ID {
			return old.By == it.By, nil
		}
	}
	runtime.Gosched()
	_, err := s.Memory.Post(ctx, it)
	return err == nil, err
}

// removesLate forgets all items of a session when the next caller removes something.
func (s *removesLate) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.late != nil {
		err, s.late = s.late(), nil
	}
	if len(ids) > 0 {
		return errors.Join(err, s.Memory.Remove(ctx, k, kind, ids...))
	}
	s.late = func() error { return s.Memory.Remove(context.WithoutCancel(ctx), k, kind) }
	return err
}

// restores brings back what is removed while it lists all sessions.
type restores struct{ *inbox.Memory }

func (s restores) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	if k.Session != "" {
		return s.Memory.Items(ctx, k, kind)
	}
	return func(yield func(inbox.Item, error) bool) {
		for it, err := range s.Memory.Items(ctx, k, kind) {
			runtime.Gosched()
			if err == nil {
				_, err = s.Memory.Post(ctx, it)
			}
			if !yield(it, err) {
				return
			}
		}
	}
}
