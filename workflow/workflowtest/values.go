package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// values are documents that every store must keep.
var values = []string{
	`null`, `true`, `0`, `-0.5`, `1e300`, `123456789012345678901234567890.123456789`, `""`, `[]`, `{}`,
	`{"":{"":[]},"a":{"b":{"c":[{"d":[1,2,[3,{"e":null}]]}]}},"𝄞":"😀 \"\\\/\b\f\n\r\t\u0001\ud83d\ude00"}`,
	`[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]`, `{"a":1,"A":2,"a ":3}`, `"<script>&amp;'"`, ` { "a" : [ 1 , 2 ] } `,
	string(large(workflow.MaxValue)), "",
}

// large returns a document of a size.
func large(size int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
}

// null returns a document, and null for none.
func null(text string) json.RawMessage {
	if text == "" {
		text = "null"
	}
	return json.RawMessage(text)
}

var valueClauses = []clause{
	{
		name: "values",
		rule: "names and texts come back as they were given, up to their bounds",
		check: func(p *probe, _ workflow.Store) {
			long := strings.Repeat("x", 512)
			odd := "naïve \"quotes\" \\ \n <&> 🙂 /../ %2f {a}\u0001"
			step := strings.Repeat("a", 128) + "/" + strings.Repeat("B", 128) + "/._-9"
			for _, text := range []string{long, odd, "*", "'"} {
				n := owned(text)
				n.Workflow, n.Key, n.Owner, n.Fence.Nonce = strings.Repeat("w", 48), text, text, text
				p.start(n)
				if r := p.run(text); r.Key != text || r.Owner != text || r.Workflow != n.Workflow {
					fail("the run is %s", text)
				}
				s := n
				s.ID = "second"
				if got := p.known(s); got.ID != text {
					fail("the key %q is of %q", text, got.ID)
				}
				q := from(text+"", text)
				q.Nonce, q.Definitions = text, []workflow.Definition{{Workflow: n.Workflow, Version: 1}}
				f := p.claimed(text, q).Fence
				event := strings.ReplaceAll(text, "*", "**")
				m := signal(text, event, `1`)
				m.ID = text
				p.tell(m, workflow.Kept)
				p.wantMail(text, text)
				st := done(step)
				st.Outcome, st.Signal = workflow.Broken, text
				st.Error = strings.Repeat("e", workflow.MaxError-len(odd)) + odd
				e := waiting(text, f, event)
				e.Steps = append(e.Steps, st)
				p.write(e)
				if got := p.step(text, step); got.Error != st.Error || got.Signal != text {
					fail("the row is %+v", got)
				}
				if r := p.run(text); r.Event != event {
					fail("a run waits for %q, want %q", r.Event, event)
				}
				p.wantRuns(workflow.Query{Event: event}, text)
				p.wantMail(text)
				p.act(text, workflow.Cancel)
			}
		},
	},
	{
		name: "values-json",
		rule: "every JSON value up to MaxValue comes back equal, and nil as null where there must be a value",
		check: func(p *probe, _ workflow.Store) {
			for i, value := range values {
				n := owned(fmt.Sprint("r", i))
				n.Input = document(value)
				p.start(n)
				m := signal(n.ID, "e", value)
				m.Payload = document(value)
				p.tell(m, workflow.Kept)
				st := done("s")
				st.Output = document(value)
				e := entry(n.ID, n.Fence, workflow.End, st)
				e.Output = document(value)
				p.write(e)
				r := p.run(n.ID)
				_, mail := p.steps(n.ID)
				if got := p.step(n.ID, "s").Output; !same(r.Input, null(value)) || !same(r.Output, null(value)) ||
					!same(mail[0].Output, null(value)) || !same(got, document(value)) {
					fail("%.60q comes back as %.60q, %.60q, %.60q and %.60q", value, r.Input, r.Output, got,
						mail[0].Output)
				}
			}
			p.start(starting("null"))
			if c := p.claimed("null", plain("b")); !same(c.Input, starting("null").Input) {
				fail("the input of a claim is %s", c.Input)
			}
		},
	},
	{
		name: "values-aliased",
		rule: "the store shares no memory with its callers",
		check: func(p *probe, _ workflow.Store) {
			value := func() json.RawMessage { return json.RawMessage(`"aaaa"`) }
			spoil := func(all ...json.RawMessage) {
				for _, doc := range all {
					copy(doc, `"bbbb"`)
				}
			}
			n, st, m := owned("r"), done("s"), signal("r", "e", "")
			n.Input, st.Output, m.Payload = value(), value(), value()
			p.start(n)
			p.tell(m, workflow.Kept)
			e := waiting("r", n.Fence, "f")
			e.Match, e.Steps = value(), []workflow.Step{st}
			p.write(e)
			spoil(n.Input, st.Output, m.Payload, e.Match)
			p.tell(signal("r", "f", `"aaaa"`), workflow.Consumed)
			for range 2 {
				r, row := p.run("r"), p.step("r", "s")
				_, mail := p.steps("r")
				if !same(r.Input, value()) || !same(row.Output, value()) || !same(mail[0].Output, value()) {
					fail("the store has %s, %s and %s", r.Input, row.Output, mail[0].Output)
				}
				spoil(r.Input, row.Output, mail[0].Output)
			}
			c := p.claimed("r", plain("b"))
			spoil(c.Input)
			e = entry("r", c.Fence, workflow.End)
			e.Output = value()
			p.write(e)
			spoil(e.Output)
			for range 2 {
				r := p.run("r")
				if !same(r.Input, value()) || !same(r.Output, value()) {
					fail("the store has %s and %s", r.Input, r.Output)
				}
				spoil(r.Input, r.Output)
			}
		},
	},
	{
		name: "values-apart",
		rule: "ids are compared byte by byte: runs, steps and signals of other names have nothing to do with each " +
			"other",
		check: func(p *probe, _ workflow.Store) {
			ids := []string{"r", "R", "r ", "r%", "rr", "r\u0001", "é", "e\u0301", "{r}"}
			for _, id := range ids {
				f := p.begins(id)
				p.write(entry(id, f, workflow.Stay, done("s"), done("S"), done("s.")))
				for _, signalID := range []string{"x", "X", "x "} {
					m := signal(id, "e", `1`)
					m.ID = signalID
					p.tell(m, workflow.Kept)
				}
			}
			p.act("r", workflow.Cancel)
			p.write(entry("R", owned("R").Fence, workflow.End))
			for _, id := range ids {
				p.wantMail(id, "x", "X", "x ")
				p.wantSteps(id, "s done", "S done", "s. done")
				if r := p.run(id); r.Status.Over() != (id == "r" || id == "R") {
					fail("the run is %s", text(r))
				}
			}
		},
	},
	{
		name: "cancelled",
		rule: "with a ctx that is done each call returns its error, and nothing is written",
		check: func(p *probe, s workflow.Store) {
			f := p.begins("r")
			p.start(starting("due"))
			ctx, cancel := context.WithCancel(p.ctx)
			cancel()
			p.unchanged("a call whose ctx is done", func() {
				_, started := s.Start(ctx, []workflow.NewRun{starting("new")})
				_, sent := s.Send(ctx, []workflow.Message{signal("r", "e", `1`)})
				_, _, claimed := s.Claim(ctx, plain("b"))
				_, written := s.Write(ctx, []workflow.Entry{entry("r", f, workflow.End, done("s"))})
				_, swept := s.Sweep(ctx, 0)
				_, counted := s.Counts(ctx)
				for _, err := range []error{
					started, sent, claimed, written, swept, counted, listed(s.Runs(ctx, workflow.Query{})),
					listed(s.Steps(ctx, "r")),
				} {
					want(err, context.Canceled)
				}
			})
			p.write(entry("r", f, workflow.Stay, done("s")))
			p.claimed("due", plain("b"))
		},
	},
}

// listed returns the last error of a list, or nil.
func listed[T any](all func(yield func(T, error) bool)) (last error) {
	for _, err := range all {
		last = err
	}
	return last
}

var refusedClauses = []clause{
	refusal("start-refused", "Start", func(p *probe, f lock.Fence) map[string]error {
		return changed(badRuns, func() workflow.NewRun { return owned("new") }, func(n workflow.NewRun) error {
			_, err := p.store.Start(p.ctx, []workflow.NewRun{starting("before"), n})
			return err
		})
	}),
	refusal("send-refused", "Send", func(p *probe, f lock.Fence) map[string]error {
		return changed(badMessages, func() workflow.Message { return signal("r", "e", `1`) }, func(m workflow.Message) error {
			_, err := p.store.Send(p.ctx, []workflow.Message{signal("r", "before", `1`), m})
			return err
		})
	}),
	refusal("write-refused", "Write", func(p *probe, f lock.Fence) map[string]error {
		good := func() workflow.Entry { return entry("r", f, workflow.Stay, done("s"), done("t")) }
		return changed(badEntries, good, func(e workflow.Entry) error {
			_, err := p.store.Write(p.ctx, []workflow.Entry{entry("other", owned("other").Fence, workflow.End), e})
			return err
		})
	}),
	refusal("claim-refused", "Claim", func(p *probe, _ lock.Fence) map[string]error {
		good := func() workflow.ClaimRequest { return plain("b") }
		return changed(badRequests, good, func(q workflow.ClaimRequest) error {
			_, _, err := p.store.Claim(p.ctx, q)
			return err
		})
	}),
	refusal("runs-refused", "Runs", func(p *probe, _ lock.Fence) map[string]error {
		all := changed(badQueries, func() workflow.Query { return workflow.Query{} }, func(q workflow.Query) error {
			return listed(p.store.Runs(p.ctx, q))
		})
		for what, id := range badIDs {
			all["steps of a run with "+what] = listed(p.store.Steps(p.ctx, id))
		}
		return all
	}),
}

// refusal returns a clause about arguments that no store takes. r and other are runs that a owns, and due is due.
func refusal(name, call string, refused func(p *probe, f lock.Fence) map[string]error) clause {
	return clause{
		name: name,
		rule: call + " of an argument that no store takes is ErrInvalid, and nothing is written",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			p.start(owned("other"), starting("due"))
			p.unchanged("a call that is refused", func() {
				for what, err := range refused(p, f) {
					if err == nil {
						fail("%s with %s succeeds", call, what)
					}
					want(err, workflow.ErrInvalid)
				}
			})
			p.write(entry("r", f, workflow.Stay, done("s")))
			p.claimed("due", plain("b"))
		},
	}
}

// changed calls with each change of what would be taken.
func changed[T any](changes map[string]func(*T), good func() T, call func(T) error) map[string]error {
	all := make(map[string]error, len(changes))
	for what, change := range changes {
		v := good()
		change(&v)
		all[what] = call(v)
	}
	return all
}
