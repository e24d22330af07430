package inboxtest

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/suite"
)

const (
	// crowd is how many callers post one id at once.
	crowd = 64

	// races is how often a clause repeats what a few callers do at once.
	races = 20
)

// A caller is one of several that post an item of one kind and id at once.
type caller struct {
	item  inbox.Item
	first bool
	err   error
}

// callers returns n callers, each with a By of its own, and what each of them does.
func (p *probe) callers(n int, session, id string) (all []caller, acts []func()) {
	all = make([]caller, n)
	for i := range all {
		all[i].item = item(session, inbox.Answer, id, fmt.Sprint("by", i))
		acts = append(acts, func() { all[i].first, all[i].err = p.store.Post(p.ctx, all[i].item) })
	}
	return all, acts
}

// winners returns the items that were first.
func winners(all []caller) (first []inbox.Item) {
	for _, c := range all {
		if ok(c.err); c.first {
			first = append(first, c.item)
		}
	}
	return first
}

var raceClauses = []clause{
	{
		name: "race",
		rule: "of many that post one id at once one is the first, its item stays, and repeats say the same",
		check: func(p *probe) {
			for range 3 {
				all, acts := p.callers(crowd, "s", "q")
				suite.Together(acts...)
				first := winners(all)
				if len(first) != 1 {
					fail("%d of %d callers are the first", len(first), crowd)
				}
				p.wantItems(key("s"), inbox.Answer, first[0])
				suite.Together(acts...)
				if again := winners(all); len(again) != 1 || again[0].By != first[0].By {
					fail("the first was %s, and is %s", list(first), list(again))
				}
				p.remove(key("s"), inbox.Answer, "q")
			}
		},
	},
	{
		name: "race-same",
		rule: "of several that post one id at once with one By all are the first",
		check: func(p *probe) {
			for i := range races {
				all, acts := p.callers(4, "s", fmt.Sprint("q", i))
				for n := range all {
					all[n].item.By = "ada"
				}
				suite.Together(acts...)
				if first := winners(all); len(first) != len(all) {
					fail("%d of %d calls of one By are the first", len(first), len(all))
				}
			}
		},
	},
	{
		name: "race-others",
		rule: "what is posted at once with other ids, kinds or sessions is all there",
		check: func(p *probe) {
			for range races {
				var acts []func()
				var errs [12]error
				for i := range errs {
					kind := []inbox.Kind{inbox.Answer, inbox.Stop}[i/2%2]
					it := item(fmt.Sprint("s", i%2), kind, fmt.Sprint("q", i), "ada")
					acts = append(acts, func() { _, errs[i] = p.store.Post(p.ctx, it) })
				}
				suite.Together(acts...)
				ok(errors.Join(errs[:]...))
				got := append(p.items(key(""), inbox.Answer), p.items(key(""), inbox.Stop)...)
				if len(got) != len(errs) {
					fail("%d of %d items are there: %s", len(got), len(errs), list(got))
				}
				p.remove(key("s0"), "")
				p.remove(key("s1"), "")
			}
		},
	},
	{
		name: "race-remove",
		rule: "if items are posted while others of the session are removed, " +
			"an item that is posted and not removed is there",
		check: func(p *probe) {
			for i := range races {
				id := func(what string) string { return fmt.Sprint(what, i) }
				p.post(answer(id("old")))
				var acts []func()
				var errs [4]error
				for n := range len(errs) - 1 {
					acts = append(acts, func() {
						_, errs[n] = p.store.Post(p.ctx, answer(fmt.Sprint(id("new"), "-", n)))
					})
				}
				last := len(errs) - 1
				acts = append(acts, func() { errs[last] = p.store.Remove(p.ctx, key("s"), inbox.Answer, id("old")) })
				suite.Together(acts...)
				ok(errors.Join(errs[:]...))
				p.wantIDs(id("new")+"-0", id("new")+"-1", id("new")+"-2")
				if got := p.items(key(""), inbox.Answer); len(got) != last {
					fail("the list of all sessions has %d items, want %d: %s", len(got), last, list(got))
				}
				p.remove(key("s"), inbox.Answer)
			}
		},
	},
	{
		name: "race-anew",
		rule: "if an item is posted while it is removed, it is there as the first has posted it, or not at all",
		check: func(p *probe) {
			for i := range races {
				session := fmt.Sprint("s", i)
				p.post(item(session, inbox.Answer, "q", "former"))
				all, acts := p.callers(3, session, "q")
				var removed error
				acts = append(acts, func() { removed = p.store.Remove(p.ctx, key(session), inbox.Answer, "q") })
				suite.Together(acts...)
				ok(removed)
				first := winners(all)
				got := p.items(key(session), inbox.Answer)
				switch {
				case len(first) > 1:
					fail("%d callers are the first: %s", len(first), list(first))
				case len(first) != len(got):
					fail("first are %s; there are %s", list(first), list(got))
				case len(first) == 1:
					p.wantItems(key(session), inbox.Answer, first[0])
				}
				if in := p.items(key(""), inbox.Answer); len(in) != len(got) {
					fail("the session has %s; the list of all has %s", list(got), list(in))
				}
				p.remove(key(session), "")
			}
		},
	},
}
