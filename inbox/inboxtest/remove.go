package inboxtest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
)

var removeClauses = []clause{
	{
		name: "remove",
		rule: "Remove forgets the items that it names, and no other",
		check: func(p *probe) {
			p.post(answer("a"), answer("b"), answer("c"), answer("d"), item("t", inbox.Answer, "a", "ada"))
			p.remove(key("s"), inbox.Answer, "b")
			p.wantIDs("a", "c", "d")
			p.remove(key("s"), inbox.Answer, "a", "d")
			p.wantIDs("c")
			p.wantItems(key("t"), inbox.Answer, item("t", inbox.Answer, "a", "ada"))
		},
	},
	{
		name: "remove-literally",
		rule: "Remove takes ids literally",
		check: func(p *probe) {
			p.post(answer("a"), answer("A"), answer("aa"), answer("a "),
				answer("%"), answer("a%"), answer("*"), answer("é"))
			p.remove(key("s"), inbox.Answer, "a%", "*", "_")
			p.wantIDs("a", "A", "aa", "a ", "%", "é")
			p.remove(key("s"), inbox.Answer, "a", "é")
			p.wantIDs("A", "aa", "a ", "%")
		},
	},
	{
		name: "remove-absent",
		rule: "to remove what is not there is no error, and neither is to remove it twice",
		check: func(p *probe) {
			p.remove(key("s"), inbox.Answer, "a")
			p.remove(key("s"), inbox.Answer)
			p.remove(key("s"), "")
			p.post(answer("a"), answer("b"))
			p.remove(key("s"), inbox.Answer, "unknown", "a", "a")
			p.remove(key("s"), inbox.Answer, "a")
			p.wantIDs("b")
		},
	},
	{
		name: "remove-kind",
		rule: "Remove without ids forgets all of the kind in the session, and nothing else",
		check: func(p *probe) {
			stop, other := item("s", inbox.Stop, "r", "ada"), item("t", inbox.Answer, "a", "ada")
			p.post(answer("a"), answer("b"), stop, other)
			p.remove(key("s"), inbox.Answer)
			p.wantItems(key("s"), inbox.Answer)
			p.wantItems(key("s"), inbox.Stop, stop)
			p.wantItems(key(""), inbox.Answer, other)
		},
	},
	{
		name: "remove-all",
		rule: "Remove without a kind forgets all of the session, and nothing of another",
		check: func(p *probe) {
			for i := range many {
				p.post(answer(fmt.Sprint("q", i)))
			}
			other := item("t", inbox.Answer, "a", "ada")
			for _, kind := range inbox.Kinds()[1:] {
				p.post(item("s", kind, "r", "ada"))
			}
			p.post(other)
			p.remove(key("s"), "")
			for _, kind := range inbox.Kinds() {
				p.wantItems(key("s"), kind)
			}
			p.wantItems(key(""), inbox.Stop)
			p.wantItems(key(""), inbox.Answer, other)
		},
	},
	{
		name: "remove-most",
		rule: "Remove takes MaxIDs ids",
		check: func(p *probe) {
			ids := make([]string, inbox.MaxIDs)
			for i := range ids {
				ids[i] = fmt.Sprint("q", i)
			}
			p.post(answer(ids[0]), answer("other"), answer(ids[len(ids)-1]))
			p.remove(key("s"), inbox.Answer, ids...)
			p.wantIDs("other")
		},
	},
	{
		name: "removed-anew",
		rule: "an item that was removed may be posted again, also by another, and is the first",
		check: func(p *probe) {
			for _, remove := range []func(){
				func() { p.remove(key("s"), inbox.Answer, "q") },
				func() { p.remove(key("s"), inbox.Answer) },
				func() { p.remove(key("s"), "") },
			} {
				for _, by := range []string{"ada", "bob", "bob"} {
					it := item("s", inbox.Answer, "q", by)
					p.post(it, answer("beside"))
					p.wantFirst(item("s", inbox.Answer, "q", "carol"), false)
					p.wantIDs("q", "beside")
					remove()
					p.wantItems(key("s"), inbox.Stop)
				}
				p.remove(key("s"), "")
			}
			it := answer("q")
			p.post(it)
			p.wantItems(key("s"), inbox.Answer, it)
			p.wantItems(key(""), inbox.Answer, it)
		},
	},
}
