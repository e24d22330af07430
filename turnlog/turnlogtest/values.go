package turnlogtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
)

var valueClauses = []clause{
	{
		name: "values",
		rule: "names, phases and times come back as they were given, up to their bounds",
		check: func(p *probe) {
			long := strings.Repeat("x", 512)
			text := "naïve \"quotes\" \\ \n <&> 🙂 /../ %2f"
			for i, e := range []turnlog.Entry{
				{Run: long, Session: long, Orchestrator: long, Phase: strings.Repeat("p", turnlog.MaxPhase), At: at(0)},
				{Run: text, Session: text, Orchestrator: text, Phase: phases[3], At: at(0)},
				{Run: "a", Session: "s", Orchestrator: "o", Phase: "%", At: time.UnixMilli(0).UTC()},
				{
					Run: "b", Session: "s", Orchestrator: "o", Phase: "a/../b",
					At: time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC),
				},
				{Run: "c", Session: "s", Orchestrator: "o", Phase: turnlog.Settled, At: at(999), Turn: 1<<31 - 1},
			} {
				e.State = json.RawMessage(`{"n":` + string('0'+rune(i)) + `}`)
				p.record(e)
				p.wantEntries(e.Run, e)
			}
		},
	},
	{
		name: "values-states",
		rule: "every JSON value up to MaxState comes back equal",
		check: func(p *probe) {
			var all []turnlog.Entry
			for i, state := range []string{
				`null`, `true`, `0`, `-0.5`, `1e300`, `123456789012345678901234567890.123456789`, `""`, `[]`, `{}`,
				`{"":{"":[]},"a":{"b":{"c":[{"d":[1,2,[3,{"e":null}]]}]}},"𝄞":"😀 \"\\\/\b\f\n\r\t\u0001\ud83d\ude00"}`,
				`[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]`, `{"a":1,"A":2,"a ":3}`, `"<script>&amp;'"`, ` { "a" : [ 1 , 2 ] } `,
				string(large(turnlog.MaxState)),
			} {
				e := entry("run", turnlog.ToolReceived, i)
				e.State = json.RawMessage(state)
				all = append(all, e)
			}
			p.record(all...)
			p.record(all...)
			p.wantEntries("run", all...)
		},
	},
	{
		name: "values-canonical",
		rule: "the states of the canonical phases are JSON, and come back equal",
		check: func(p *probe) {
			for i, c := range canonical() {
				doc, err := json.Marshal(c.state)
				ok(err)
				e := entry("run", c.phase, i)
				e.State = doc
				p.record(e)
			}
			restored := p.restore("run")
			if len(restored) != len(canonical()) {
				fail("%d entries: %s", len(restored), list(restored))
			}
			for i, c := range canonical() {
				doc, err := json.Marshal(c.state)
				ok(err)
				ok(json.Unmarshal(restored[i].State, c.back))
				again, err := json.Marshal(c.back)
				ok(err)
				if restored[i].Phase != c.phase || !turnlog.Same(doc, again) {
					fail("the state of %s was %s, and is %s", c.phase, doc, again)
				}
			}
		},
	},
	{
		name: "values-refused",
		rule: "an entry that no log takes is ErrPhase, ErrState or ErrInvalid, and nothing is stored",
		check: func(p *probe) {
			for what, c := range refused {
				e := entry("run", turnlog.Started, 0)
				c.change(&e)
				if err := p.log.Record(p.ctx, e); !errors.Is(err, c.want) {
					fail("%s: got error %v, want %v", what, err, c.want)
				}
			}
			p.wantNothing("run")
			for _, run := range []string{"", "\x00", "\xff", strings.Repeat("x", 513)} {
				if _, err := p.log.Restore(p.ctx, run); !errors.Is(err, turnlog.ErrInvalid) {
					fail("Restore of %.20q: got error %v, want %v", run, err, turnlog.ErrInvalid)
				}
			}
		},
	},
	{
		name: "values-aliased",
		rule: "the log shares no memory with its callers",
		check: func(p *probe) {
			e := entry("run", turnlog.Started, 0)
			e.State = json.RawMessage(`"aaaa"`)
			p.record(e)
			copy(e.State, `"bbbb"`)
			restored := p.restore("run")
			if len(restored) == 1 {
				copy(restored[0].State, `"cccc"`)
				restored[0].Phase = "changed"
			}
			e.State = json.RawMessage(`"aaaa"`)
			p.wantEntries("run", e)
		},
	},
}

// large returns a state of a size.
func large(size int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
}

// A sample is a state of a canonical phase, and where to read it back.
type sample struct {
	phase       string
	state, back any
}

func canonical() []sample {
	message := json.RawMessage(`{"role":"user","content":"Where is my order?"}`)
	return []sample{
		{turnlog.Started, turnlog.StartedState{
			Actor: "bot", Slot: "3:bot/session", Messages: []json.RawMessage{message}, ExpiresAt: at(60_000),
		}, new(turnlog.StartedState)},
		{turnlog.LLMComplete, map[string]any{"messages": []any{message}, "respond": "A-1042"}, new(any)},
		{turnlog.ToolDispatched, map[string]any{"tool": "lookup"}, new(any)},
		{turnlog.ToolReceived, map[string]any{"message": message, "slotKey": "3:bot/session"}, new(any)},
		{turnlog.Settled, turnlog.SettledState{
			TurnState: turnlog.Complete, Respond: json.RawMessage(`{"reply":"on its way"}`),
		}, new(turnlog.SettledState)},
	}
}

// A refusal is an entry that no log takes, and the error.
type refusal struct {
	want   error
	change func(e *turnlog.Entry)
}

var longPhase = strings.Repeat("p", turnlog.MaxPhase+1)

func year(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }

var refused = map[string]refusal{
	"no phase":            {turnlog.ErrPhase, func(e *turnlog.Entry) { e.Phase = "" }},
	"a long phase":        {turnlog.ErrPhase, func(e *turnlog.Entry) { e.Phase = longPhase }},
	"a phase with NUL":    {turnlog.ErrPhase, func(e *turnlog.Entry) { e.Phase = "a\x00b" }},
	"a phase of bytes":    {turnlog.ErrPhase, func(e *turnlog.Entry) { e.Phase = "a\xffb" }},
	"no JSON":             {turnlog.ErrState, state(`{`)},
	"an empty state":      {turnlog.ErrState, state(``)},
	"two states":          {turnlog.ErrState, state(`{} {}`)},
	"NaN":                 {turnlog.ErrState, state(`NaN`)},
	"Infinity":            {turnlog.ErrState, state(`[Infinity]`)},
	"U+0000":              {turnlog.ErrState, state(`{"a":"\u0000"}`)},
	"a lone surrogate":    {turnlog.ErrState, state(`"\ud800"`)},
	"a surrogate as name": {turnlog.ErrState, state(`{"\udc00":1}`)},
	"a state of bytes":    {turnlog.ErrState, state("\"\xff\"")},
	"a number too large":  {turnlog.ErrState, state(`1e999999`)},
	"too deep":            {turnlog.ErrState, state(strings.Repeat("[", 1001) + strings.Repeat("]", 1001))},
	"a large state":       {turnlog.ErrState, func(e *turnlog.Entry) { e.State = large(turnlog.MaxState + 1) }},
	"no run":              {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.Run = "" }},
	"a long session":      {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.Session = strings.Repeat("x", 513) }},
	"no session":          {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.Session = "" }},
	"no orchestrator":     {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.Orchestrator = "" }},
	"a run with NUL":      {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.Run = "\x00" }},
	"a bot of bytes":      {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.Orchestrator = "\xff" }},
	"a negative turn":     {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.Turn = -1 }},
	"microseconds":        {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.At = at(0).Add(time.Microsecond) }},
	"no time":             {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.At = time.Time{} }},
	"before 1970":         {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.At = time.UnixMilli(-1) }},
	"the year 10000":      {turnlog.ErrInvalid, func(e *turnlog.Entry) { e.At = year(10000) }},
}

func state(text string) func(e *turnlog.Entry) {
	return func(e *turnlog.Entry) { e.State = json.RawMessage(text) }
}

var cancelClauses = []clause{
	{
		name: "cancelled",
		rule: "with a ctx that is done Record and Restore return its error, and nothing is stored",
		check: func(p *probe) {
			e := entry("run", turnlog.Started, 0)
			p.record(e)
			ctx, cancel := context.WithCancel(p.ctx)
			cancel()
			want(p.log.Record(ctx, entry("run", turnlog.Settled, 1)), context.Canceled)
			want(p.log.Record(ctx, entry("other", turnlog.Started, 1)), context.Canceled)
			want(p.log.Record(ctx, e), context.Canceled)
			_, err := p.log.Restore(ctx, "run")
			want(err, context.Canceled)
			p.wantEntries("run", e)
			p.wantNothing("other")
		},
	},
}
