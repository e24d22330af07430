package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// A DamagingStore can damage an item, as a manual change in the database or a lost block of its disk does. Only the
// tests of a backend know how to do so.
type DamagingStore interface {
	inbox.Store

	// Damage changes what is stored of the item so that no store could have written it. Its key, its kind and its id
	// stay.
	Damage(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) error
}

// RunDamaged checks the clauses about damaged items. newStore must return an empty store each time it is called.
func RunDamaged(t *testing.T, newStore func(t *testing.T) DamagingStore) {
	damageContract().Run(t, newStore)
}

// DamageViolations is [Violations] for the clauses about damaged items.
func DamageViolations(ctx context.Context, newStore func() DamagingStore, names ...string) map[string]error {
	return damageContract().Violations(ctx, newStore, names...)
}

func damageContract() suite.Clauses[DamagingStore] {
	return suite.Of(damageClauses, func(c damageClause) suite.Clause[DamagingStore] {
		return suite.Clause[DamagingStore]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s DamagingStore) error {
				c.check(&probe{ctx, s}, s)
				return nil
			},
		}
	})
}

// A damageClause is a clause about damaged items.
type damageClause struct {
	name, rule string
	check      func(p *probe, s DamagingStore)
}

var damageClauses = []damageClause{
	{
		name: "listed",
		rule: "Items yields a damaged item with a *DamagedError that names it, and goes on",
		check: func(p *probe, s DamagingStore) {
			const n = 90
			for i := range n {
				p.post(answer(fmt.Sprintf("q%02d", i)))
			}
			bad := []string{"q00", "q01", "q15", "q16", "q22", "q79", "q80", "q89"}
			damage(p, s, bad...)
			for _, session := range []string{"s", ""} {
				var got []string
				for it, err := range s.Items(p.ctx, key(session), inbox.Answer) {
					got = append(got, it.ID)
					if slices.Contains(bad, it.ID) {
						wantDamage(err, it.ID)
					} else {
						ok(err)
					}
				}
				slices.Sort(got)
				if len(got) != n || len(slices.Compact(got)) != n {
					fail("Items of session %q yields %d items, want %d: %q", session, len(got), n, got)
				}
			}
		},
	},
	{
		name: "alone",
		rule: "Item returns a damaged item with a *DamagedError that names it",
		check: func(p *probe, s DamagingStore) {
			p.post(answer("q"), answer("beside"))
			damage(p, s, "q")
			it, err := s.Item(p.ctx, key("s"), inbox.Answer, "q")
			wantDamage(err, "q")
			if it.Key != key("s") || it.Kind != inbox.Answer || it.ID != "q" {
				fail("the damaged item comes as %+v", it)
			}
			_, err = s.Item(p.ctx, key("s"), inbox.Answer, "beside")
			ok(err)
		},
	},
	{
		name: "sessions",
		rule: "a damaged item does not concern other sessions, kinds or ids",
		check: func(p *probe, s DamagingStore) {
			stop, other := item("s", inbox.Stop, "q", "ada"), item("t", inbox.Answer, "q", "ada")
			p.post(answer("q"), answer("beside"), stop, other)
			damage(p, s, "q")
			p.wantItems(key("s"), inbox.Stop, stop)
			p.wantItems(key("t"), inbox.Answer, other)
			p.wantFirst(answer("beside"), true)
			p.post(answer("more"))
		},
	},
	{
		name: "posted",
		rule: "to post a damaged item again by another is *DamagedError or not the first, and nothing changes",
		check: func(p *probe, s DamagingStore) {
			p.post(answer("q"))
			damage(p, s, "q")
			first, err := s.Post(p.ctx, item("s", inbox.Answer, "q", "bob"))
			if first {
				fail("who posts a damaged item is the first, with error %v", err)
			}
			if err != nil {
				wantDamage(err, "q")
			}
			wantDamage(p.listed(key("s"), inbox.Answer), "q")
		},
	},
	{
		name: "removed",
		rule: "Remove forgets a damaged item by its id, and it may be posted again",
		check: func(p *probe, s DamagingStore) {
			p.post(answer("q"), answer("beside"))
			damage(p, s, "q")
			p.remove(key("s"), inbox.Answer, "q")
			p.wantItems(key("s"), inbox.Answer, answer("beside"))
			p.post(item("s", inbox.Answer, "q", "bob"))
			p.wantIDs("q", "beside")
		},
	},
	{
		name: "removed-all",
		rule: "Remove without ids forgets damaged items too",
		check: func(p *probe, s DamagingStore) {
			for _, kind := range []inbox.Kind{inbox.Answer, ""} {
				p.post(answer("q"), answer("beside"))
				damage(p, s, "q")
				p.remove(key("s"), kind)
				p.wantIDs()
				p.wantItems(key(""), inbox.Answer)
			}
		},
	},
}

func damage(p *probe, s DamagingStore, ids ...string) {
	for _, id := range ids {
		ok(s.Damage(p.ctx, key("s"), inbox.Answer, id))
	}
}

// wantDamage shows that err is about one item of session s, and names that item.
func wantDamage(err error, id string) {
	damage, is := errors.AsType[*inbox.DamagedError](err)
	if !is || !errors.Is(err, inbox.ErrDamaged) {
		fail("got error %v, want a *DamagedError", err)
		return
	}
	if damage.ID != id || damage.Key != key("s") || damage.What != string(inbox.Answer) || damage.Reason == "" {
		fail("the error names %s %q of %q because of %q, want %q and a reason", damage.What, damage.ID, damage.Key,
			damage.Reason, id)
	}
}
