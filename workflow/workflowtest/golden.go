package workflowtest

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/workflow"
)

// goldenRows are verdicts of PostgreSQL 15, tab-separated: a document, a part, and whether doc @> part.
//
//go:embed testdata/jsonb_golden.tsv
var goldenRows string

type golden struct {
	doc, part string
	contains  bool
}

// goldens returns the rows, and rows about wide and null documents.
func goldens() (all []golden) {
	for line := range strings.Lines(goldenRows) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		all = append(all, golden{parts[0], parts[1], parts[2] == "true"})
	}
	return append(all, golden{`null`, ``, true}, golden{`{"a":1}`, ``, true}, golden{`{"a":1}`, `null`, false},
		golden{``, `null`, true}, golden{``, `{}`, false}, golden{`[[1,2],[3]]`, `[[3],[2]]`, true},
		golden{`{"a":[{"b":1},{"c":2}]}`, `{"a":[{"b":1,"c":2}]}`, false}, golden{`"a"`, `"A"`, false})
}

var goldenClauses = []clause{
	{
		name: "match",
		rule: "a wait takes a signal whose payload contains its match, as @> of PostgreSQL has it; no match fits all",
		check: func(p *probe, _ workflow.Store) {
			var runs []workflow.NewRun
			var parks []workflow.Entry
			var signals []workflow.Message
			for i, g := range goldens() {
				n := owned(fmt.Sprint("r", i))
				e := waiting(n.ID, n.Fence, "e")
				e.Match = document(g.part)
				m := signal(n.ID, "e", g.doc)
				m.Payload = document(g.doc)
				runs, parks, signals = append(runs, n), append(parks, e), append(signals, m)
			}
			p.start(runs...)
			p.write(parks...)
			receipts, err := p.store.Send(p.ctx, signals)
			ok(err)
			for i, g := range goldens() {
				if consumed := receipts[i] == workflow.Consumed; consumed != g.contains {
					fail("%s @> %s: the wait has taken it: %t, want %t", g.doc, g.part, consumed, g.contains)
				}
				if waits := p.run(runs[i].ID).Event == "e"; waits == g.contains {
					fail("%s @> %s: the run waits on: %t", g.doc, g.part, waits)
				}
			}
		},
	},
	{
		name: "match-query",
		rule: "Runs selects by Input and by Payload as a wait takes a signal",
		check: func(p *probe, _ workflow.Store) {
			for i, g := range goldens() {
				n := owned(fmt.Sprint("r", i))
				n.Input = document(g.doc)
				p.start(n)
				e := waiting(n.ID, n.Fence, "e")
				e.Match = document(g.part)
				p.write(e)
				for _, q := range []workflow.Query{
					{ID: n.ID, Input: document(g.part)}, {ID: n.ID, Event: "e", Payload: document(g.doc)},
				} {
					if yields := len(p.runs(q)) == 1; yields != g.contains {
						fail("%s @> %s: Runs of %+v yields the run: %t, want %t", g.doc, g.part, q, yields, g.contains)
					}
				}
				if says := workflow.Contains(null(g.doc), document(g.part)); says != g.contains {
					fail("%s @> %s: Contains says %t", g.doc, g.part, says)
				}
			}
		},
	},
	{
		name: "input-equal",
		rule: "two inputs are the same if they are equal as JSON values",
		check: func(p *probe, _ workflow.Store) {
			for i, c := range []struct {
				a, b string
				same bool
			}{
				{`1`, `1.0`, true},
				{`1`, `10e-1`, true},
				{`0`, `-0`, true},
				{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
				{``, `null`, true},
				{`{"a":1,"a":2}`, `{"a":2}`, true},
				{`"é"`, `"\u00e9"`, true},
				{`1`, `"1"`, false},
				{`[1,2]`, `[2,1]`, false},
				{`9007199254740993`, `9007199254740992`, false},
				{`{}`, `[]`, false},
				{`{"a":null}`, `{}`, false},
			} {
				n := starting(fmt.Sprint("r", i))
				n.Input = document(c.a)
				p.start(n)
				n.Input = document(c.b)
				_, err := p.store.Start(p.ctx, []workflow.NewRun{n})
				if !c.same {
					want(err, workflow.ErrKeyReused)
				} else if ok(err); !same(p.run(n.ID).Input, null(c.a)) {
					fail("the input was %s, and is %s", c.a, p.run(n.ID).Input)
				}
			}
		},
	},
}
