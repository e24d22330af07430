package inboxtest

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/inbox"
)

// many is more items than a store reads at once.
const many = 150

var itemsClauses = []clause{
	{
		name: "item",
		rule: "Item returns one item by its whole name, or ErrNotFound",
		check: func(p *probe) {
			stop, other := item("s", inbox.Stop, "q", "ada"), item("t", inbox.Answer, "other", "ada")
			p.post(answer("q"), answer("q1"), stop, other)
			p.wantItems(key("s"), inbox.Answer, answer("q"), answer("q1"))
			p.wantItems(key("s"), inbox.Stop, stop)
			absent := func(k inbox.Key, kind inbox.Kind, id string) {
				_, err := p.store.Item(p.ctx, k, kind, id)
				want(err, inbox.ErrNotFound)
			}
			absent(key("s"), inbox.Stop, "q1")
			absent(key("s"), inbox.Answer, "q2")
			absent(key("s"), inbox.Answer, "other")
			absent(key("u"), inbox.Answer, "q")
			absent(inbox.Key{Orchestrator: key("s").Orchestrator + "2", Session: "s"}, inbox.Answer, "q")
			p.remove(key("s"), inbox.Answer, "q")
			absent(key("s"), inbox.Answer, "q")
			for _, c := range []inbox.Item{
				item("", inbox.Answer, "q", ""), item("s", "", "q", ""), item("s", inbox.Answer, "", ""),
			} {
				_, err := p.store.Item(p.ctx, c.Key, c.Kind, c.ID)
				want(err, inbox.ErrInvalid)
			}
		},
	},
	{
		name: "items-none",
		rule: "Items of what nobody has posted yields nothing, and no error",
		check: func(p *probe) {
			p.post(answer("q"))
			p.wantItems(key("unknown"), inbox.Answer)
			p.wantItems(key("s"), inbox.Stop)
			p.wantItems(key(""), inbox.Stop)
			p.wantItems(inbox.Key{Orchestrator: "unknown"}, inbox.Answer)
		},
	},
	{
		name: "items-order",
		rule: "Items yields the items of a session oldest first, and those of one time by id in byte order",
		check: func(p *probe) {
			var all []inbox.Item
			for _, id := range []string{"m", "z", "a", "Z", "é", "10", "9", "", "0", "zz", "A"} {
				all = append(all, answer("q"+id))
			}
			p.post(all...)
			got := p.items(key("s"), inbox.Answer)
			wantOrder(got)
			for i := 1; i < len(got); i++ {
				if got[i-1].At.Before(got[i].At) && place(all, got[i-1]) > place(all, got[i]) {
					fail("%q is of %v, and %q, which was posted later, of %v",
						got[i].ID, got[i].At, got[i-1].ID, got[i-1].At)
				}
			}
			if len(got) != len(all) || got[0].At.Equal(got[len(got)-1].At) {
				fail("%d items from %v to %v, want %d", len(got), got[0].At, got[len(got)-1].At, len(all))
			}
		},
	},
	{
		name: "items-many",
		rule: "Items yields each of many items of a session once, and in the same order each time",
		check: func(p *probe) {
			var ids []string
			for i := range many {
				it := answer(fmt.Sprintf("q%d", i*7919%many))
				ids = append(ids, it.ID)
				p.post(it)
			}
			p.wantIDs(ids...)
			got := p.items(key("s"), inbox.Answer)
			wantOrder(got)
			if again := p.items(key("s"), inbox.Answer); list(again) != list(got) {
				fail("the order was %s, and is %s", list(got), list(again))
			}
			wantOrder(p.items(key(""), inbox.Answer))
		},
	},
	{
		name: "items-sessions",
		rule: "with Session \"\" Items yields the items of all sessions of the orchestrator, by session in byte order",
		check: func(p *probe) {
			names := []string{"b", "B", "a", "é", "_", "😀", "aa", "a\u0001", "~", "a b", "10", "9", "\uffff"}
			for _, session := range names {
				p.post(item(session, inbox.Answer, "q2", "ada"), item(session, inbox.Answer, "q1", "ada"))
				p.post(item(session, inbox.Stop, "r", "ada"))
			}
			other := item("a", inbox.Answer, "q", "ada")
			other.Orchestrator = "another"
			p.post(other)
			slices.Sort(names)
			var all []inbox.Item
			for _, session := range names {
				all = append(all, p.items(key(session), inbox.Answer)...)
			}
			p.wantItems(key(""), inbox.Answer, all...)
			if len(all) != 2*len(names) {
				fail("the sessions have %d items, want %d", len(all), 2*len(names))
			}
		},
	},
	{
		name: "items-sessions-many",
		rule: "with Session \"\" Items yields each item of many sessions once",
		check: func(p *probe) {
			want := 0
			for i := range many {
				session := fmt.Sprintf("s%03d", i*61%many)
				for n := range 1 + i%3 {
					p.post(item(session, inbox.Stop, fmt.Sprintf("r%d", n), "ada"))
					want++
				}
			}
			got := p.items(key(""), inbox.Stop)
			wantOrder(got)
			if len(got) != want {
				fail("%d items, want %d", len(got), want)
			}
		},
	},
	{
		name: "items-loop",
		rule: "the body of a loop over Items may post, list and remove, also what the loop goes over",
		check: func(p *probe) {
			for i := range many {
				p.post(item(fmt.Sprintf("s%03d", i), inbox.Answer, "q", "ada"))
			}
			seen := 0
			for it, err := range p.store.Items(p.ctx, key(""), inbox.Answer) {
				ok(err)
				seen++
				p.wantFirst(item(it.Session, inbox.Stop, "r", "ada"), true)
				p.wantItems(it.Key, inbox.Answer, it)
				p.remove(it.Key, inbox.Answer, it.ID)
			}
			if seen != many {
				fail("the loop has seen %d items, want %d", seen, many)
			}
			p.wantItems(key(""), inbox.Answer)
			if stops := p.items(key(""), inbox.Stop); len(stops) != many {
				fail("the loop has posted %d items, want %d", len(stops), many)
			}
		},
	},
	{
		name: "items-meanwhile",
		rule: "a loop over Items yields each item once that is there all the time, " +
			"also if others come and go before it",
		check: func(p *probe) {
			for i := range many {
				p.post(answer(fmt.Sprintf("q%03d", i)), item(fmt.Sprintf("t%03d", i), inbox.Answer, "q", "ada"))
			}
			for _, session := range []string{"s", ""} {
				seen := make(map[string]int)
				n := 0
				for it, err := range p.store.Items(p.ctx, key(session), inbox.Answer) {
					ok(err)
					seen[it.Session+it.ID]++
					if n++; n%2 == 0 {
						p.remove(it.Key, inbox.Answer, it.ID)
					} else if session == "" {
						p.post(item(fmt.Sprint("before", n), inbox.Answer, "q", "ada"))
					}
				}
				for i := range many {
					want := 1
					id, other := fmt.Sprintf("sq%03d", i), fmt.Sprintf("t%03dq", i)
					if session == "" && seen[other] != want || session != "" && seen[id] != want {
						fail("a loop over session %q yields item %d %d and %d times", session, i, seen[id], seen[other])
					}
				}
			}
		},
	},
	{
		name: "items-ends",
		rule: "a loop over Items may end early, and the store goes on",
		check: func(p *probe) {
			p.post(answer("a"), answer("b"), item("t", inbox.Answer, "c", "ada"))
			for range 20 {
				for _, session := range []string{"s", ""} {
					for _, err := range p.store.Items(p.ctx, key(session), inbox.Answer) {
						ok(err)
						break
					}
				}
			}
			p.wantIDs("a", "b")
			p.remove(key("s"), "")
		},
	},
	{
		name: "items-twice",
		rule: "what Items returns may be ranged over again, and yields what is there by then",
		check: func(p *probe) {
			all := p.store.Items(p.ctx, key("s"), inbox.Answer)
			for i := range 3 {
				n := 0
				for _, err := range all {
					ok(err)
					n++
				}
				if n != i {
					fail("%d items, want %d", n, i)
				}
				p.post(answer(fmt.Sprint("q", i)))
			}
		},
	},
}

// place returns when an item was posted.
func place(all []inbox.Item, it inbox.Item) int {
	return slices.IndexFunc(all, func(posted inbox.Item) bool { return posted.ID == it.ID })
}
