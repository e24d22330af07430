package inboxtest_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// A damaged item is known by its name.
type name struct {
	inbox.Key
	kind inbox.Kind
	id   string
}

// A spoiled Memory remembers which items are damaged, and reports them as a backend does.
type spoiled struct {
	*inbox.Memory
	bad map[name]bool
}

func newSpoiled() *spoiled { return &spoiled{new(inbox.Memory), make(map[name]bool)} }

func (s *spoiled) Damage(_ context.Context, k inbox.Key, kind inbox.Kind, id string) error {
	s.bad[name{k, kind, id}] = true
	return nil
}

func (s *spoiled) damage(it inbox.Item) error {
	if s.bad[name{it.Key, it.Kind, it.ID}] {
		return inbox.Damaged(it, errors.New("spoiled"))
	}
	return nil
}

func (s *spoiled) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if err := s.damage(it); err != nil {
		return false, err
	}
	return s.Memory.Post(ctx, it)
}

func (s *spoiled) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		for it, err := range s.Memory.Items(ctx, k, kind) {
			if err == nil {
				err = s.damage(it)
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

func (s *spoiled) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	it, err := s.Memory.Item(ctx, k, kind, id)
	return it, cmp.Or(err, s.damage(it))
}

func (s *spoiled) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	for bad := range s.bad {
		if _, there := stored(s.Memory, inbox.Item{Key: bad.Key, Kind: bad.kind, ID: bad.id, By: "x"}); there {
			defer func() {
				if _, still := stored(s.Memory, inbox.Item{Key: bad.Key, Kind: bad.kind, ID: bad.id, By: "x"}); !still {
					delete(s.bad, bad)
				}
			}()
		}
	}
	return s.Memory.Remove(ctx, k, kind, ids...)
}

func TestDamaged(t *testing.T) {
	inboxtest.RunDamaged(t, func(*testing.T) inboxtest.DamagingStore { return newSpoiled() })
}

type (
	stopsAtDamage  struct{ *spoiled }
	wholeItem      struct{ *spoiled }
	hidesDamage    struct{ *spoiled }
	allDamaged     struct{ *spoiled }
	replacesDamage struct{ *spoiled }
	keepsDamage    struct{ *spoiled }
	keepsUnnamed   struct{ *spoiled }
)

func (s wholeItem) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	return s.Memory.Item(ctx, k, kind, id)
}

func (s stopsAtDamage) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		for it, err := range s.spoiled.Items(ctx, k, kind) {
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

func (s hidesDamage) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return s.Memory.Items(ctx, k, kind)
}

func (s allDamaged) Post(ctx context.Context, it inbox.Item) (bool, error) {
	for bad := range s.bad {
		if bad.Key == it.Key {
			return false, inbox.Damaged(inbox.Item{Key: bad.Key, Kind: bad.kind, ID: bad.id}, errors.New("spoiled"))
		}
	}
	return s.spoiled.Post(ctx, it)
}

func (s replacesDamage) Post(ctx context.Context, it inbox.Item) (bool, error) {
	if s.damage(it) != nil {
		if err := s.spoiled.Remove(ctx, it.Key, it.Kind, it.ID); err != nil {
			return false, err
		}
	}
	return s.spoiled.Post(ctx, it)
}

func (s keepsDamage) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	for _, id := range ids {
		if err := s.damage(inbox.Item{Key: k, Kind: kind, ID: id}); err != nil {
			return err
		}
	}
	return s.spoiled.Remove(ctx, k, kind, ids...)
}

func (s keepsUnnamed) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if len(ids) > 0 || len(s.bad) == 0 {
		return s.spoiled.Remove(ctx, k, kind, ids...)
	}
	for _, it := range all(s.Memory, k, inbox.Answer) {
		if s.damage(it) == nil {
			ids = append(ids, it.ID)
		}
	}
	return s.spoiled.Remove(ctx, k, inbox.Answer, ids...)
}

func TestSuiteConvictsDamage(t *testing.T) {
	trial := suite.Trial[inboxtest.DamagingStore]{Violations: inboxtest.DamageViolations}
	for what, c := range map[string]struct {
		clause string
		broken func(*spoiled) inboxtest.DamagingStore
	}{
		"a list that ends at damage":         {"listed", func(s *spoiled) inboxtest.DamagingStore { return stopsAtDamage{s} }},
		"an item that hides damage":          {"alone", func(s *spoiled) inboxtest.DamagingStore { return wholeItem{s} }},
		"a list that hides damage":           {"listed", func(s *spoiled) inboxtest.DamagingStore { return hidesDamage{s} }},
		"damage that concerns its session":   {"sessions", func(s *spoiled) inboxtest.DamagingStore { return allDamaged{s} }},
		"a Post that replaces damage":        {"posted", func(s *spoiled) inboxtest.DamagingStore { return replacesDamage{s} }},
		"a Remove that refuses damage":       {"removed", func(s *spoiled) inboxtest.DamagingStore { return keepsDamage{s} }},
		"a Remove of all that leaves damage": {"removed-all", func(s *spoiled) inboxtest.DamagingStore { return keepsUnnamed{s} }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() inboxtest.DamagingStore { return c.broken(newSpoiled()) })
		})
	}
}

// A store that reaches a server is convicted by the clause about a server that cannot be reached.
func TestSuiteConvictsReached(t *testing.T) {
	if err := inboxtest.Unreachable(t.Context(), new(inbox.Memory)); err == nil {
		t.Error("a store that takes an item is accepted")
	}
}
