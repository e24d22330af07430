package snapshottest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/snapshot"
)

// largest returns a document of the greatest allowed size. With a space after each comma it would be longer. It is made
// when it is first asked for: each process that a test starts has this package.
var largest = sync.OnceValue(func() json.RawMessage {
	doc := `[` + strings.Repeat(`"",`, 100_000) + `"`
	return json.RawMessage(doc + strings.Repeat("x", 16<<20-len(doc)-len(`"]`)) + `"]`)
})

var partValueClauses = []clause{
	{
		name: "parts-large",
		rule: "a part may be as large as a payload, and a run may have many",
		check: func(p *probe) {
			r := run("a", fence(10))
			large := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
			r.Parts = map[string]json.RawMessage{"large": large}
			p.begin(r)
			p.wantWhole(r)
			names := make([]string, 50)
			for i := range names {
				names[i] = fmt.Sprintf("part-%d", i)
				r = p.add(r, names[i])
			}
			p.wantWhole(r)
			r = p.add(r, names...)
			save, after := added(r)
			save.Parts["larger"], after.Parts["larger"] = large, large
			p.save(save)
			p.wantWhole(after)
			after = next(after)
			p.save(after)
			p.wantWhole(after)
		},
	},
	{
		name: "largest",
		rule: "a payload of 16 MiB is saved again as it was given back, and its run is parked, ended and deleted",
		check: func(p *probe) {
			r := run("a", fence(10))
			r.Payload = largest()
			p.begin(r)
			save := p.adopt(r, r.Fence, 0)
			save.Seq++
			if err := p.store.Save(p.ctx, save); err != nil {
				fail("%d bytes, which were %d: %w", len(save.Payload), len(largest()), err)
			}
			save.Payload = nil
			for _, s := range []snapshot.Status{snapshot.Parked, snapshot.Ended} {
				save.Seq++
				save.Status = s
				if err := p.store.Save(p.ctx, save); err != nil {
					fail("Save as %s: %w", s, err)
				}
			}
			save.Fence = fence(11)
			got := p.adopt(r, save.Fence, 3)
			short := []byte(got.Payload)
			if !bytes.Equal(short, largest()) { // PostgreSQL puts a space after each comma
				var b bytes.Buffer
				ok(json.Compact(&b, short))
				short = b.Bytes()
			}
			if !bytes.Equal(short, largest()) {
				fail("%d bytes come back as another document of %d", len(largest()), len(short))
			}
			got.Payload = nil
			ok(sameRun(got, save))
			ok(p.store.Delete(p.ctx, r.Key, r.ID, save.Fence))
			p.wantNone("a")
		},
	},
	{
		name: "parts-accepted",
		rule: "every backend takes these names and documents for parts, and keeps them apart",
		check: func(p *probe) {
			names := []string{
				"a", "A", "a_", "%", ":", "{}", "}{", "/", ".", " ", "a ", "\n", "a'b\"c;--", `\`,
				"$.a", "a[0]", "0", "é", "e\u0301", "😀",
				"payload", "fence", "parts", strings.Repeat("x", 512), strings.Repeat("é", 256),
			}
			documents := []string{
				`0`, `null`, `true`, `""`, `[]`, `{}`, ` [ 1 , 2 ] `, `-5`, `1.5`, `9007199254740993`,
				`{"b":1,"a":{"c":[null,false]}}`, `"\ud83d\ude00"`, `"\\u0000"`,
				strings.Repeat("[", 100) + strings.Repeat("]", 100),
			}
			r := run("a", fence(10))
			r.Parts = make(map[string]json.RawMessage)
			for i, name := range names {
				r.Parts[name] = json.RawMessage(documents[i%len(documents)])
			}
			p.begin(r)
			p.wantWhole(r)
			for i, name := range names {
				save, after := added(r)
				save.Parts[name] = json.RawMessage(documents[(i+1)%len(documents)])
				after.Parts[name] = save.Parts[name]
				p.save(save)
				r = after
			}
			p.wantWhole(r)
		},
	},
	{
		name: "parts-separate",
		rule: "each run has its own parts, also under names that join to the same text",
		check: func(p *probe) {
			var runs []snapshot.Run
			for i, k := range []snapshot.Key{
				{Orchestrator: "o", Session: "s"},
				{Orchestrator: "o", Session: "s:a"},
				{Orchestrator: "o:s", Session: "a"},
				{Orchestrator: "o", Session: "s/a"},
				{Orchestrator: "os", Session: "s"},
				{Orchestrator: "o", Session: "ss"},
			} {
				r := run("x", fence(int64(i+1)))
				r.Key, r.ID = k, r.ID+k.Orchestrator+" "+k.Session
				r.Parts = map[string]json.RawMessage{"a": doc(0, i), "s": doc(1, i), "s:a": doc(2, i), "a:b": doc(3, i)}
				runs = append(runs, p.begin(r))
			}
			for i := range runs {
				runs[i] = p.add(runs[i], "a", "b")
			}
			ok(p.store.Delete(p.ctx, runs[0].Key, runs[0].ID, runs[0].Fence))
			for _, r := range runs[1:] {
				ok(sameRun(p.adopt(r, r.Fence, 0), r))
			}
		},
	},
	{
		name: "parts-refused",
		rule: "every backend refuses these names and documents of parts with ErrInvalid, and changes nothing",
		check: func(p *probe) {
			kept := p.parted("kept", "one")
			refused := func(name, document string) {
				r := run("new", fence(11))
				r.Parts = map[string]json.RawMessage{"fine": json.RawMessage(`1`), name: json.RawMessage(document)}
				if _, err := p.store.Begin(p.ctx, r); !errors.Is(err, snapshot.ErrInvalid) {
					fail("Begin with part %.60q of %.60q returns %v", name, document, err)
				}
				for _, save := range saves(kept) {
					save.Parts = r.Parts
					if err := p.store.Save(p.ctx, save); !errors.Is(err, snapshot.ErrInvalid) {
						fail("Save of part %.60q of %.60q returns %v", name, document, err)
					}
				}
			}
			for _, name := range []string{"", "\x00", "a\x00", "\xff", strings.Repeat("x", 513)} {
				refused(name, `1`)
			}
			for _, document := range []string{
				"", " ", "{", `"\u0000"`, "\"\xff\"", `"` + strings.Repeat("x", 16<<20) + `"`,
				`[` + strings.Repeat(`{},`, 400_000) + `{}]`,
			} {
				refused("part", document)
			}
			p.wantWhole(kept)
			p.wantSessions(snapshot.Query{}, "kept")
		},
	},
	{
		name: "parts-aliasing",
		rule: "nothing of a part that goes in or comes out aliases what is stored",
		check: func(p *probe) {
			spoil := func(r snapshot.Run) {
				for name := range r.Parts {
					r.Parts[name][1] = '9'
				}
				r.Parts["more"] = json.RawMessage(`1`)
			}
			fresh := func() map[string]json.RawMessage {
				return map[string]json.RawMessage{"one": doc(0, 1), "two": doc(0, 2)}
			}
			r := run("a", fence(10))
			r.Parts = fresh()
			p.begin(r)
			spoil(r)
			r.Parts = fresh()
			p.wantWhole(r)
			for range 2 {
				spoil(p.adopt(r, r.Fence, 0))
				p.wantWhole(r)
			}
			r = next(r)
			for _, payload := range []json.RawMessage{r.Payload, nil} {
				save := r
				save.Payload, save.Parts = payload, fresh()
				p.save(save)
				spoil(save)
				p.wantWhole(r)
				r.Seq++
			}
		},
	},
}
