package orchestrator

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// The documents of the writer decode to the same values as the documents of json.Marshal.
func TestPayloadsAreAsMarshalled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := runPayload{
			V: payloadVersion, Born: rapid.Int64().Draw(t, "born"), Signature: word(t), Version: word(t),
			Input: someInput(t), Trace: word(t), Iteration: rapid.Int().Draw(t, "iteration"), Feedback: word(t),
			Anew: rapid.Int64().Draw(t, "anew"), Failures: rapid.Int().Draw(t, "failures"),
			Usage: someUsage(t), Steps: someSteps(t), State: someJSON(t),
			Started: rapid.Int64().Draw(t, "started"), Logged: rapid.Int64().Draw(t, "logged"),
		}
		if rapid.Bool().Draw(t, "decided") {
			next := someNext(t)
			m.Next = &next
		}
		wantSame(t, m.encode(), m, new(runPayload), new(runPayload))
		r := turnPayload{
			payloadVersion, m.Input, m.Usage, m.Steps, rapid.Bool().Draw(t, "put"), m.Logged, word(t), word(t),
		}
		wantSame(t, r.encode(), r, new(turnPayload), new(turnPayload))
	})
}

// A number that JSON does not have costs itself, and not the turn.
func TestNoSuchNumber(t *testing.T) {
	for _, cost := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		raw := turnPayload{V: payloadVersion, Usage: storedUsage{Input: 1, Cost: cost}}.encode()
		var got turnPayload
		if err := json.Unmarshal(raw, &got); err != nil || got.Usage != (storedUsage{Input: 1}) {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

func wantSame(t *rapid.T, got json.RawMessage, value, gotValue, wantValue any) {
	want, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, wantValue); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, gotValue); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if !reflect.DeepEqual(gotValue, wantValue) {
		t.Fatalf("wrote %s\nwant  %s", got, want)
	}
}

func word(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Just(""), rapid.StringMatching(`[a-z ]{1,9}`), rapid.String(),
		rapid.SampledFrom([]string{`"`, `\`, "\x00", "\n", "<a&b>", "\u2028", "\x7f", "\xff", "é", "🙂"}),
	).Draw(t, "word")
}

func someJSON(t *rapid.T) json.RawMessage {
	return json.RawMessage(rapid.SampledFrom([]string{
		"0", "null", `"x"`, "{}", "[]", `{"a":[1,{"b":"c"}]}`,
	}).Draw(t, "json"))
}

func someInput(t *rapid.T) storedInput {
	in := storedInput{Text: word(t)}
	if rapid.Bool().Draw(t, "data") {
		in.Data = someJSON(t)
	}
	return in
}

func someUsage(t *rapid.T) storedUsage {
	return storedUsage{rapid.Int().Draw(t, "in"), rapid.Int().Draw(t, "out"), rapid.Float64().Draw(t, "cost")}
}

func someNext(t *rapid.T) storedNext {
	n := storedNext{End: rapid.Bool().Draw(t, "end"), Reason: word(t)}
	for range rapid.IntRange(0, 3).Draw(t, "intents") {
		n.Intents = append(n.Intents, word(t))
	}
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		if n.Each == nil {
			n.Each = make(map[string]int)
		}
		n.Each[word(t)] = rapid.IntRange(0, 3).Draw(t, "count")
	}
	return n
}

func someSteps(t *rapid.T) []storedStep {
	var all []storedStep
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		all = append(all, storedStep{someNext(t), rapid.Int64().Draw(t, "took"), someUsage(t)})
	}
	return all
}
