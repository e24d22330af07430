package inboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/inbox"
)

var valueClauses = []clause{
	{
		name: "values",
		rule: "names come back as they were given, up to their bounds",
		check: func(p *probe) {
			long := strings.Repeat("x", 512)
			text := "naïve \"quotes\" \\ \n <&> 🙂 /../ %2f {a}\u0001"
			for _, it := range []inbox.Item{
				{Key: inbox.Key{Orchestrator: long, Session: long}, ID: long, By: long, Shown: long},
				{Key: inbox.Key{Orchestrator: text, Session: text}, ID: text, By: text, Shown: text},
				{Key: inbox.Key{Orchestrator: "o", Session: "*"}, ID: "head:x", By: "y", Shown: ""},
			} {
				for _, it.Kind = range inbox.Kinds() {
					it.Data = json.RawMessage(`1`)
					p.post(it)
					p.wantFirst(it, true)
					p.wantItems(it.Key, it.Kind, it)
					p.wantItems(inbox.Key{Orchestrator: it.Orchestrator}, it.Kind, it)
					p.remove(it.Key, it.Kind, it.ID)
					p.wantItems(it.Key, it.Kind)
				}
			}
		},
	},
	{
		name: "values-data",
		rule: "every JSON value up to MaxData comes back equal, and nil as null",
		check: func(p *probe) {
			for i, data := range []string{
				`null`, `true`, `0`, `-0.5`, `1e300`, `123456789012345678901234567890.123456789`, `""`, `[]`, `{}`,
				`{"":{"":[]},"a":{"b":{"c":[{"d":[1,2,[3,{"e":null}]]}]}},"𝄞":"😀 \"\\\/\b\f\n\r\t\u0001\ud83d\ude00"}`,
				`[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]`, `{"a":1,"A":2,"a ":3}`, `"<script>&amp;'"`, ` { "a" : [ 1 , 2 ] } `,
				string(large(inbox.MaxData)), "",
			} {
				it := item(fmt.Sprint("s", i), inbox.Answer, "q", "ada")
				if it.Data = json.RawMessage(data); data == "" {
					it.Data = nil
				}
				p.post(it)
				p.wantItems(it.Key, inbox.Answer, it)
			}
		},
	},
	{
		name: "values-large",
		rule: "a session may have several large items",
		check: func(p *probe) {
			var ids []string
			for i := range 5 {
				it := answer(fmt.Sprint("q", i))
				it.Data = large(inbox.MaxData)
				ids = append(ids, it.ID)
				p.post(it)
			}
			p.wantIDs(ids...)
			if all := p.items(key(""), inbox.Answer); len(all) != len(ids) {
				fail("the list of all sessions has %d items, want %d", len(all), len(ids))
			}
			p.remove(key("s"), "")
			p.wantIDs()
		},
	},
	{
		name: "values-refused",
		rule: "an argument that no store takes is ErrInvalid, and nothing is written",
		check: func(p *probe) {
			p.post(answer("kept"))
			for what, change := range refused {
				it := answer("q")
				change(&it)
				if _, err := p.store.Post(p.ctx, it); !errors.Is(err, inbox.ErrInvalid) {
					fail("Post with %s: got error %v, want %v", what, err, inbox.ErrInvalid)
				}
			}
			most := slices.Repeat([]string{"kept"}, inbox.MaxIDs+1)
			for what, err := range map[string]error{
				"no session":       p.store.Remove(p.ctx, key(""), inbox.Answer),
				"no orchestrator":  p.store.Remove(p.ctx, inbox.Key{Session: "s"}, ""),
				"an unknown kind":  p.store.Remove(p.ctx, key("s"), "wish"),
				"ids and no kind":  p.store.Remove(p.ctx, key("s"), "", "kept"),
				"an empty id":      p.store.Remove(p.ctx, key("s"), inbox.Answer, "kept", ""),
				"too many ids":     p.store.Remove(p.ctx, key("s"), inbox.Answer, most...),
				"no kind to list":  p.listed(key("s"), ""),
				"no bot to list":   p.listed(inbox.Key{Session: "s"}, inbox.Answer),
				"a session, bytes": p.listed(key("\xff"), inbox.Answer),
			} {
				if !errors.Is(err, inbox.ErrInvalid) {
					fail("%s: got error %v, want %v", what, err, inbox.ErrInvalid)
				}
			}
			p.wantItems(key("s"), inbox.Answer, answer("kept"))
			p.wantItems(key(""), inbox.Answer, answer("kept"))
		},
	},
	{
		name: "values-aliased",
		rule: "the store shares no memory with its callers",
		check: func(p *probe) {
			it := answer("q")
			it.Data = json.RawMessage(`"aaaa"`)
			p.post(it)
			copy(it.Data, `"bbbb"`)
			for _, got := range p.items(key("s"), inbox.Answer) {
				copy(got.Data, `"cccc"`)
			}
			it.Data = json.RawMessage(`"aaaa"`)
			p.wantItems(key("s"), inbox.Answer, it)
		},
	},
	{
		name: "cancelled",
		rule: "with a ctx that is done each call returns its error, and nothing is written",
		check: func(p *probe) {
			p.post(answer("q"))
			ctx, cancel := context.WithCancel(p.ctx)
			cancel()
			for _, it := range []inbox.Item{answer("q"), answer("other")} {
				first, err := p.store.Post(ctx, it)
				if want(err, context.Canceled); first {
					fail("Post fails, and is the first")
				}
			}
			want(p.store.Remove(ctx, key("s"), inbox.Answer, "q"), context.Canceled)
			want(p.store.Remove(ctx, key("s"), ""), context.Canceled)
			for _, session := range []string{"s", ""} {
				cancelled := &probe{ctx, p.store}
				want(cancelled.listed(key(session), inbox.Answer), context.Canceled)
			}
			p.wantItems(key("s"), inbox.Answer, answer("q"))
		},
	},
	{
		name: "cancelled-loop",
		rule: "if ctx ends within a loop over Items, the loop ends with its error",
		check: func(p *probe) {
			p.post(answer("a"), answer("b"))
			ctx, cancel := context.WithCancel(p.ctx)
			defer cancel()
			var last error
			n := 0
			for _, err := range p.store.Items(ctx, key("s"), inbox.Answer) {
				n++
				last = err
				cancel()
			}
			if want(last, context.Canceled); n != 2 {
				fail("the loop yields %d times", n)
			}
		},
	},
}

// listed returns the last error of Items, or nil.
func (p *probe) listed(k inbox.Key, kind inbox.Kind) (last error) {
	for _, err := range p.store.Items(p.ctx, k, kind) {
		last = err
	}
	return last
}

// large returns data of a size.
func large(size int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
}

// refused are items that no store takes.
var refused = map[string]func(*inbox.Item){
	"no orchestrator":    func(it *inbox.Item) { it.Orchestrator = "" },
	"no session":         func(it *inbox.Item) { it.Session = "" },
	"a long session":     func(it *inbox.Item) { it.Session = strings.Repeat("x", 513) },
	"no kind":            func(it *inbox.Item) { it.Kind = "" },
	"an unknown kind":    func(it *inbox.Item) { it.Kind = "wish" },
	"no id":              func(it *inbox.Item) { it.ID = "" },
	"a long id":          func(it *inbox.Item) { it.ID = strings.Repeat("x", 513) },
	"an id with NUL":     func(it *inbox.Item) { it.ID = "a\x00b" },
	"an id of bytes":     func(it *inbox.Item) { it.ID = "\xff" },
	"nobody":             func(it *inbox.Item) { it.By = "" },
	"a long By":          func(it *inbox.Item) { it.By = strings.Repeat("x", 513) },
	"a By with NUL":      func(it *inbox.Item) { it.By = "\x00" },
	"a long Shown":       func(it *inbox.Item) { it.Shown = strings.Repeat("x", 513) },
	"no JSON":            data(`{`),
	"empty data":         data(``),
	"two documents":      data(`{} {}`),
	"U+0000":             data(`{"a":"\u0000"}`),
	"a lone surrogate":   data(`"\ud800"`),
	"a number too large": data(`1e999999`),
	"too deep":           data(strings.Repeat("[", 1001) + strings.Repeat("]", 1001)),
	"large data":         func(it *inbox.Item) { it.Data = large(inbox.MaxData + 1) },
}

func data(text string) func(*inbox.Item) {
	return func(it *inbox.Item) { it.Data = json.RawMessage(text) }
}
