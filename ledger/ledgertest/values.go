package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

var valueClauses = []clause{
	{
		name: "values",
		rule: "names and documents come back as they were given, up to their bounds",
		check: func(p *probe) {
			long := strings.Repeat("x", 512)
			text := "naïve \"quotes\" \\ \n <&> 🙂"
			for _, e := range []ledger.Effect{
				{
					ID: long, Session: text, RunID: long, Iteration: math.MaxInt32, Intent: long, Name: text,
					Each: long, Key: text, ArgsSum: long,
				},
				{ID: "b", Session: "s", RunID: "r", Name: "n", Args: large(ledger.MaxDocument)},
				{ID: "c", Session: "s", RunID: "r", Name: "n", Args: json.RawMessage(`null`)},
				{ID: "d", Session: "s", RunID: "r", Name: "n"},
			} {
				e.Orchestrator, e.Fence, e.Class = "bot", highest, ledger.Idempotent
				issued := p.issue(e)
				e.State, e.Attempts, e.IssuedAt = issued.State, issued.Attempts, issued.IssuedAt
				p.wantSame(e)
				for _, doc := range []json.RawMessage{large(ledger.MaxDocument), nil} {
					p.finish(issued, ledger.Outcome{State: ledger.Unknown, Error: text})
					if doc == nil {
						p.finish(issued, ledger.Outcome{State: ledger.Completed})
					}
				}
				if now := p.kept(e.ID); now.Result != nil {
					fail("the result is %s, want none", now.Result)
				}
			}
		},
	},
	{
		name: "values-redacted",
		rule: "an effect keeps whether its result was redacted",
		check: func(p *probe) {
			o := paid
			o.Redacted = true
			p.finish(p.issue(effect("run", "a", fence(10))), o)
			e := pure("two", "b", `"****"`)
			e.Redacted = true
			now, err := p.ledger.Record(p.ctx, e)
			if ok(err); !now.Redacted || !p.kept("a").Redacted || !p.kept("b").Redacted {
				fail("forgotten: %+v", now)
			}
			if e := p.finish(p.issue(effect("three", "c", fence(10))), paid); e.Redacted {
				fail("redacted by itself: %+v", e)
			}
		},
	},
	{
		name: "times",
		rule: "times are in UTC and in microseconds, and no attempt ends before it was issued",
		check: func(p *probe) {
			p.doubtful("run", "a")
			ok(p.resolve("a", ledger.Answer{Landed: true, By: "Ann"}))
			e := p.kept("a")
			for _, at := range []time.Time{e.IssuedAt, e.FinishedAt, e.AnsweredAt} {
				if at.Location() != time.UTC || !at.Equal(at.Truncate(time.Microsecond)) ||
					at.Before(e.IssuedAt) || time.Since(at).Abs() > time.Hour {
					fail("the time %v of %+v", at, e)
				}
			}
		},
	},
	{
		name: "values-refused",
		rule: "an argument that no backend takes is ErrInvalid, and changes nothing",
		check: func(p *probe) {
			e := p.issue(effect("run", "a", fence(10)))
			for what, change := range refusedEffects {
				bad := pure("run", "bad", `1`)
				change(&bad)
				_, _, err := p.ledger.Issue(p.ctx, bad, true)
				wantInvalid(what, err)
				_, err = p.ledger.Record(p.ctx, bad)
				wantInvalid(what, err)
			}
			asked := pure("run", "bad", `[`)
			_, err := p.ledger.Record(p.ctx, asked)
			wantInvalid("a result", err)
			asked.Result, asked.Class = nil, ledger.Ask
			_, err = p.ledger.Record(p.ctx, asked)
			wantInvalid("a class that Record does not take", err)
			for what, o := range refusedOutcomes {
				_, err := p.ledger.Finish(p.ctx, "a", 1, o)
				wantInvalid(what, err)
			}
			_, err = p.ledger.Finish(p.ctx, "a", 0, paid)
			wantInvalid("attempt 0", err)
			_, err = p.ledger.Finish(p.ctx, "", 1, paid)
			wantInvalid("no id", err)
			wantInvalid("no run", p.ledger.Adopt(p.ctx, "", fence(10)))
			wantInvalid("no fence", p.ledger.Adopt(p.ctx, "run", lock.Fence{}))
			wantInvalid("no nonce", p.ledger.Adopt(p.ctx, "run", lock.Fence{Epoch: 11}))
			for _, q := range []ledger.Query{
				{ID: "\xff"},
				{RunID: "\x00"},
				{Session: strings.Repeat("x", 513)},
				{Orchestrator: "\xff", Open: true},
				{AnsweredWithin: -1},
			} {
				var last error
				for _, err := range p.ledger.Effects(p.ctx, q) {
					last = err
				}
				wantInvalid("a query", last)
			}
			for what, a := range map[string]ledger.Answer{
				"nobody": {Landed: true}, "two answers": {By: "Ann", Landed: true, Skip: true},
				"a result of what did not land": {By: "Ann", Result: json.RawMessage(`1`)},
			} {
				wantInvalid(what, p.resolve("a", a))
			}
			p.wantSame(e)
			if all := p.effects(ledger.Query{}); len(all) != 1 {
				fail("%d effects", len(all))
			}
		},
	},
	{
		name: "values-aliased",
		rule: "the ledger shares no memory with its callers",
		check: func(p *probe) {
			asked := effect("run", "a", fence(10))
			asked.Args = json.RawMessage(`"aaaa"`)
			e := p.issue(asked)
			copy(asked.Args, `"bbbb"`)
			o := ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"aaaa"`)}
			done := p.finish(e, o)
			copy(o.Result, `"bbbb"`)
			copy(done.Result, `"cccc"`)
			copy(e.Args, `"cccc"`)
			kept := p.kept("a")
			copy(kept.Args, `"dddd"`)
			if now := p.kept("a"); string(now.Args) != `"aaaa"` || string(now.Result) != `"aaaa"` {
				fail("kept: %s, %s", now.Args, now.Result)
			}
		},
	},
}

// large returns a document of a size.
func large(size int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
}

var refusedEffects = map[string]func(e *ledger.Effect){
	"no id":            func(e *ledger.Effect) { e.ID = "" },
	"no orchestrator":  func(e *ledger.Effect) { e.Orchestrator = "" },
	"no session":       func(e *ledger.Effect) { e.Session = "" },
	"no run":           func(e *ledger.Effect) { e.RunID = "" },
	"no name":          func(e *ledger.Effect) { e.Name = "" },
	"a long name":      func(e *ledger.Effect) { e.Name = strings.Repeat("x", 513) },
	"a long key":       func(e *ledger.Effect) { e.Key = strings.Repeat("x", 513) },
	"a key with NUL":   func(e *ledger.Effect) { e.Key = "a\x00" },
	"no UTF-8":         func(e *ledger.Effect) { e.Each = "\xff" },
	"another class":    func(e *ledger.Effect) { e.Class = 4 },
	"a negative class": func(e *ledger.Effect) { e.Class = -1 },
	"an iteration":     func(e *ledger.Effect) { e.Iteration = -1 },
	"no fence":         func(e *ledger.Effect) { e.Fence = lock.Fence{} },
	"no nonce":         func(e *ledger.Effect) { e.Fence.Nonce = "" },
	"a fence of 0":     func(e *ledger.Effect) { e.Fence.Epoch = 0 },
	"no JSON":          func(e *ledger.Effect) { e.Args = json.RawMessage(`{`) },
	"empty arguments":  func(e *ledger.Effect) { e.Args = json.RawMessage{} },
	"large arguments":  func(e *ledger.Effect) { e.Args = large(ledger.MaxDocument + 1) },
}

var refusedOutcomes = map[string]ledger.Outcome{
	"no state":         {},
	"Issued":           {State: ledger.Issued},
	"another state":    {State: "done"},
	"no JSON":          {State: ledger.Completed, Result: json.RawMessage(`{`)},
	"a large result":   {State: ledger.Completed, Result: large(ledger.MaxDocument + 1)},
	"a failed result":  {State: ledger.Failed, Result: json.RawMessage(`1`)},
	"a long error":     {State: ledger.Failed, Error: strings.Repeat("x", ledger.MaxError+1)},
	"an error of NUL":  {State: ledger.Failed, Error: "\x00"},
	"by a long name":   {State: ledger.Failed, By: strings.Repeat("x", 513)},
	"by what is bytes": {State: ledger.Failed, By: "\xff"},
}

func wantInvalid(what string, err error) {
	if !errors.Is(err, ledger.ErrInvalid) {
		fail("%s: got error %v, want %v", what, err, ledger.ErrInvalid)
	}
}

var cancelClauses = []clause{
	{
		name: "cancelled",
		rule: "with a ctx that is done every method returns its error and its cause, and changes nothing",
		check: func(p *probe) {
			f := fence(10)
			e := p.issue(effect("run", "a", f))
			old := p.finish(p.issue(effect("run", "b", f)), paid)
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			l := p.ledger
			_, _, issue := l.Issue(ctx, effect("run", "c", f), false)
			_, finish := l.Finish(ctx, "a", 1, paid)
			_, record := l.Record(ctx, pure("run", "d", `1`))
			_, prune := l.Prune(ctx, later())
			errs := []error{l.Adopt(ctx, "run", fence(11)), issue, finish, record, prune}
			for _, err := range l.Effects(ctx, ledger.Query{}) {
				errs = append(errs, err)
			}
			errs = append(errs, ledger.Resolve(ctx, l, "a", ledger.Answer{By: "Ann", Sure: true}))
			for i, err := range errs {
				if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
					fail("method %d returns %v, want %v and its cause", i, err, context.Canceled)
				}
			}
			if len(errs) != 7 {
				fail("%d errors, want 7", len(errs))
			}
			p.wantSame(e)
			p.wantSame(old)
			p.issue(effect("run", "e", f))
			if n := len(p.effects(ledger.Query{})); n != 3 {
				fail("%d effects", n)
			}
		},
	},
	{
		name: "cancelled-loop",
		rule: "a loop over Effects whose ctx ends gets its error",
		check: func(p *probe) {
			f := fence(10)
			for _, id := range []string{"a", "b", "c"} {
				p.issue(effect("run", id, f))
			}
			ctx, cancel := context.WithTimeout(p.ctx, time.Hour)
			var last error
			for _, err := range p.ledger.Effects(ctx, ledger.Query{}) {
				cancel()
				last = err
			}
			cancel()
			want(last, context.Canceled)
		},
	},
}
