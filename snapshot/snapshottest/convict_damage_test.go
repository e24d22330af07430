package snapshottest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A damageable store is Memory with runs that it cannot read.
type damageable struct {
	*snapshot.Memory
	bad map[snapshot.Key]bool
}

func newDamageable() damageable {
	return damageable{new(snapshot.Memory), make(map[snapshot.Key]bool)}
}

func (d damageable) Damage(_ context.Context, k snapshot.Key) error {
	d.bad[k] = true
	return nil
}

func (d damageable) damage(k snapshot.Key) error {
	if !d.bad[k] {
		return nil
	}
	return snapshot.Damaged(k, errors.New("it was spoiled"))
}

func (d damageable) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := d.Memory.Begin(ctx, r)
	if found != nil && d.bad[r.Key] {
		return nil, d.damage(r.Key)
	}
	return found, err
}

func (d damageable) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, most int) (snapshot.Run, error) {
	r, err := d.Memory.Adopt(ctx, k, f, most)
	if err == nil {
		err = d.damage(k)
	}
	return r, err
}

func (d damageable) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	err := d.Memory.Delete(ctx, k, id, f)
	if err == nil && find(ctx, d.Memory, k) == nil {
		delete(d.bad, k)
	}
	return err
}

func (d damageable) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range d.Memory.Runs(ctx, q) {
			if err == nil {
				err = d.damage(r.Key)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestDamageConvicts(t *testing.T) {
	type store = snapshottest.DamagingStore
	for name, c := range map[string]struct {
		clause string
		broken func(damageable) store
	}{
		"stops at the damage":                {"listed", func(d damageable) store { return stopsAtDamage{d} }},
		"stops at a page that is all damage": {"listed-all", func(d damageable) store { return stopsAtDamage{d} }},
		"hides the damage":                   {"listed", func(d damageable) store { return hidesDamage{d} }},
		"hides it from who asks for it":      {"listed-alone", func(d damageable) store { return hidesDamage{d} }},
		"its error is about no run":          {"listed", func(d damageable) store { return plainDamage{d} }},
		"passes it for a run":                {"listed", func(d damageable) store { return trusts{d} }},
		"damage hides a status":              {"listed-status", func(d damageable) store { return stopsAtDamage{d} }},
		"damage takes no place in a page":    {"listed-page", func(d damageable) store { return freeDamage{d} }},
		"a loop goes on that has ended":      {"listed-early", func(d damageable) store { return deafDamage{d} }},
		"a brief list ends at the damage":    {"listed-brief", func(d damageable) store { return stopsAtDamage{d} }},
		"Begin finds it":                     {"begin", func(d damageable) store { return findsDamage{d} }},
		"Adopt leaves it":                    {"adopt", func(d damageable) store { return leavesDamage{d} }},
		"Delete leaves it":                   {"delete", func(d damageable) store { return keepsDamage{d} }},
		"Delete forgets its fence":           {"delete", func(d damageable) store { return wipesDamage{d} }},
		"its parts stay":                     {"delete-parts", func(d damageable) store { return keepsDamage{d} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[store]{Violations: snapshottest.DamageViolations}.
				Convict(t, c.clause, func() store { return c.broken(newDamageable()) })
		})
	}
}

// The broken stores convict only because the store that they spoil is right.
func TestDamageAccepts(t *testing.T) {
	right := func() snapshottest.DamagingStore { return newDamageable() }
	for name, err := range snapshottest.DamageViolations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
}

type stopsAtDamage struct{ damageable }

func (s stopsAtDamage) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.damageable.Runs(ctx, q) {
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

type hidesDamage struct{ damageable }

func (s hidesDamage) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.damageable.Runs(ctx, q) {
			if err == nil && !yield(r, nil) {
				return
			}
		}
	}
}

// plainDamage says that a run is damaged, but not which.
type plainDamage struct{ damageable }

func (s plainDamage) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.damageable.Runs(ctx, q) {
			if err != nil {
				err = snapshot.ErrDamaged
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// trusts passes damaged runs for runs.
type trusts struct{ damageable }

func (s trusts) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return s.Memory.Runs(ctx, q)
}

// freeDamage does not count damaged runs against Limit.
type freeDamage struct{ damageable }

func (s freeDamage) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		left := q.Limit
		q.Limit = 0
		for r, err := range s.damageable.Runs(ctx, q) {
			if !yield(r, err) {
				return
			}
			if err == nil {
				left--
			}
			if left == 0 {
				return
			}
		}
	}
}

// deafDamage repairs the damaged runs when its loop has ended.
type deafDamage struct{ damageable }

func (s deafDamage) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.damageable.Runs(ctx, q) {
			if !yield(r, err) {
				clear(s.bad)
				return
			}
		}
	}
}

type findsDamage struct{ damageable }

func (s findsDamage) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	return s.Memory.Begin(ctx, r)
}

// leavesDamage looks before it adopts.
type leavesDamage struct{ damageable }

func (s leavesDamage) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, most int) (snapshot.Run, error) {
	if err := s.damage(k); err != nil {
		return snapshot.Run{Key: k}, err
	}
	return s.damageable.Adopt(ctx, k, f, most)
}

type keepsDamage struct{ damageable }

func (s keepsDamage) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := s.damage(k); err != nil {
		return err
	}
	return s.damageable.Delete(ctx, k, id, f)
}

// wipesDamage removes all that the session has in the store.
type wipesDamage struct{ damageable }

func (s wipesDamage) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	damaged := s.bad[k]
	err := s.damageable.Delete(ctx, k, id, f)
	if err == nil && damaged {
		s.Remember = 1
		_, err = s.Sweep(ctx, 0)
	}
	return err
}
