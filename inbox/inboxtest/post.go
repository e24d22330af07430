package inboxtest

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
)

var postClauses = []clause{
	{
		name: "post",
		rule: "an item that is posted is there, as it was posted",
		check: func(p *probe) {
			p.wantItems(key("s"), inbox.Answer)
			it := answer("q")
			p.post(it)
			p.wantItems(key("s"), inbox.Answer, it)
			p.wantItems(key("s"), inbox.Answer, it)
		},
	},
	{
		name: "post-second",
		rule: "if there is an item of this kind and id by another, first is false, and nothing changes",
		check: func(p *probe) {
			it := answer("q")
			p.post(it)
			before := p.items(key("s"), inbox.Answer)
			second := item("s", inbox.Answer, "q", "bob")
			second.Shown, second.Data = "another sum", json.RawMessage(`"another"`)
			for range 3 {
				p.wantFirst(second, false)
			}
			p.wantItems(key("s"), inbox.Answer, it)
			if after := p.items(key("s"), inbox.Answer); !after[0].At.Equal(before[0].At) {
				fail("the item was of %v, and is of %v", before[0].At, after[0].At)
			}
			p.wantFirst(it, true)
		},
	},
	{
		name: "post-by",
		rule: "By is compared byte by byte",
		check: func(p *probe) {
			p.post(answer("q"))
			for _, by := range []string{"Ada", "ada ", "ad", "adaa", "ad%", "àda", "*"} {
				p.wantFirst(item("s", inbox.Answer, "q", by), false)
			}
		},
	},
	{
		name: "post-again",
		rule: "the same By is first again, also with other data, and nothing changes",
		check: func(p *probe) {
			it := answer("q")
			p.post(it)
			before := p.items(key("s"), inbox.Answer)
			again := it
			again.Shown, again.Data, again.At = "", json.RawMessage(`[1,2]`), time.Now().Add(time.Hour)
			p.wantFirst(it, true)
			p.wantFirst(again, true)
			p.wantItems(key("s"), inbox.Answer, it)
			if after := p.items(key("s"), inbox.Answer); !after[0].At.Equal(before[0].At) {
				fail("the item was of %v, and is of %v", before[0].At, after[0].At)
			}
		},
	},
	{
		name: "post-at",
		rule: "At is set by the store, and is the same each time",
		check: func(p *probe) {
			const most = time.Hour // by which the clocks of a store and of the test may differ
			before := time.Now().Add(-most)
			it := answer("q")
			it.At = time.Date(1999, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 7200))
			p.post(it)
			got := p.items(key("s"), inbox.Answer)
			if len(got) != 1 || got[0].At.Before(before) || got[0].At.After(time.Now().Add(most)) {
				fail("posted now, and is of %v", got)
			}
			if again := p.items(key(""), inbox.Answer); len(again) != 1 || !again[0].At.Equal(got[0].At) {
				fail("is of %v, and then of %v", got, again)
			}
		},
	},
	{
		name: "kinds-apart",
		rule: "items of several kinds have nothing to do with each other, also with one id",
		check: func(p *probe) {
			a, b := answer("x"), item("s", inbox.Stop, "x", "bob")
			p.post(a, b)
			p.wantFirst(item("s", inbox.Stop, "x", "ada"), false)
			p.wantItems(key("s"), inbox.Answer, a)
			p.wantItems(key("s"), inbox.Stop, b)
			p.wantItems(key(""), inbox.Stop, b)
			p.remove(key("s"), inbox.Answer)
			p.wantItems(key("s"), inbox.Answer)
			p.wantItems(key("s"), inbox.Stop, b)
		},
	},
	{
		name: "sessions-apart",
		rule: "items of several sessions have nothing to do with each other, also with one id",
		check: func(p *probe) {
			var all []inbox.Item
			for _, session := range []string{"s", "S", "s ", "s/", "s%", "ss", "s\u0001", "é", "{s}"} {
				it := item(session, inbox.Answer, "q", "by "+session)
				all = append(all, it)
				p.post(it)
			}
			for _, it := range all {
				p.wantItems(it.Key, inbox.Answer, it)
			}
			p.remove(key("s"), "")
			p.wantItems(key("s"), inbox.Answer)
			for _, it := range all[1:] {
				p.wantItems(it.Key, inbox.Answer, it)
			}
		},
	},
	{
		name: "orchestrators-apart",
		rule: "items of several orchestrators have nothing to do with each other, also of one session",
		check: func(p *probe) {
			var all []inbox.Item
			for _, bot := range []string{"bot", "Bot", "bot/s", "b", "bot ", "bo_", "%"} {
				it := item("s", inbox.Answer, "q", "by "+bot)
				it.Orchestrator = bot
				all = append(all, it)
				p.post(it)
			}
			for _, it := range all {
				p.wantItems(it.Key, inbox.Answer, it)
				p.wantItems(inbox.Key{Orchestrator: it.Orchestrator}, inbox.Answer, it)
			}
			p.remove(key("s"), "")
			for _, it := range all[1:] {
				p.wantItems(it.Key, inbox.Answer, it)
			}
			p.wantItems(key(""), inbox.Answer)
		},
	},
}
