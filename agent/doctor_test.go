package agent_test

import (
	"cmp"
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
)

var (
	rolesOf    = map[string]string{"u": "user", "a": "assistant", "s": "system", "t": "tool"}
	lettersOf  = map[string]string{"user": "u", "assistant": "a", "system": "s", "tool": "t"}
	callNote   = regexp.MustCompile(`^([^ =]*)=([^{]*)(\{.*)$`)
	resultNote = regexp.MustCompile(`^([^ >]*?)(!?)> (.*)$`)
)

// noted reads a transcript as testdata/doctor.txt has it.
func noted(note string) (all []message.Message) {
	for one := range strings.SplitSeq(note, " / ") {
		role, rest, _ := strings.Cut(one, " ")
		m := message.Message{Role: cmp.Or(rolesOf[role], role)}
		for part := range strings.SplitSeq(rest, " + ") {
			b := message.Text(part)
			if c := callNote.FindStringSubmatch(part); c != nil {
				b = message.ToolCall(c[1], c[2], []byte(c[3]))
			} else if r := resultNote.FindStringSubmatch(part); r != nil {
				b = message.ToolResult(r[1], r[3], r[2] != "")
			} else if text, ok := strings.CutPrefix(part, "~"); ok {
				b = message.Reasoning(text, nil)
			} else if part == "-" {
				b = message.Text("")
			}
			m.Blocks = append(m.Blocks, b)
		}
		all = append(all, m)
	}
	return all
}

// note writes a transcript as noted reads it. ? is the result of a call that had none.
func note(all []message.Message) string {
	var msgs []string
	for _, m := range all {
		var parts []string
		for _, b := range m.Blocks {
			part := b.Text
			if c, ok := b.Call(); ok {
				part = c.ID + "=" + c.Name + string(c.Args)
			} else if r, ok := b.Result(); ok {
				text := strings.ReplaceAll(b.Text, agent.Unknown, "?")
				part = r.CallID + map[bool]string{true: "!"}[r.IsError] + "> " + text
			} else if b.Kind == message.KindReasoning {
				part = "~" + b.Text
			}
			parts = append(parts, part)
		}
		msgs = append(msgs, lettersOf[m.Role]+" "+strings.Join(parts, " + "))
	}
	return strings.Join(msgs, " / ")
}

// testdata/doctor.txt has forty transcripts that users of other programs could not go on with, and some of our own.
func TestDoctor(t *testing.T) {
	doc, err := os.ReadFile("testdata/doctor.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split(string(doc), "\n\n")[1:] {
		lines := strings.Split(strings.TrimSpace(c), "\n")
		healed, faults := agent.Doctor(noted(strings.TrimSpace(lines[1])))
		got := lines[:2:2]
		for _, f := range faults {
			got = append(got, "! "+f.String())
		}
		if got = append(got, "  "+note(healed)); !slices.Equal(got, lines) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), c)
		}
	}
}

// Whatever a transcript has, what Doctor returns is valid, begins with the user, can be stored, and has no faults.
// Without faults it is what was given.
func TestDoctorAlwaysHeals(t *testing.T) {
	ids := rapid.SampledFrom([]string{"", "a", "b", "c d", "call_1"})
	texts := rapid.SampledFrom([]string{"", " ", "x"})
	block := rapid.Custom(func(t *rapid.T) message.Block {
		raw := rapid.SampledFrom([]string{"", "{", `{}`, `null`, `"x"`, `{"kind":"image"}`}).Draw(t, "raw")
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return message.ToolCall(ids.Draw(t, "id"), ids.Draw(t, "name"), []byte(raw))
		case 1, 2:
			return message.ToolResult(ids.Draw(t, "id"), texts.Draw(t, "text"), rapid.Bool().Draw(t, "failed"))
		case 3:
			kinds := []string{"tool_call", "tool_result", "text", "reasoning", "image"}
			kind := rapid.SampledFrom(kinds).Draw(t, "other")
			return message.Block{Kind: kind, Text: texts.Draw(t, "text"), Raw: []byte(raw)}
		}
		return message.Text(texts.Draw(t, "text"))
	})
	role := rapid.SampledFrom([]string{"user", "assistant", "assistant", "tool", "tool", "system", "ai", ""})
	said := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message.Message {
		return message.Message{Role: role.Draw(t, "role"), Blocks: rapid.SliceOfN(block, 0, 4).Draw(t, "blocks")}
	}), 0, 8)
	rapid.Check(t, func(t *rapid.T) {
		given := said.Draw(t, "said")
		healed, faults := agent.Doctor(given)
		if err := agent.Valid(healed, nil); err != nil {
			t.Fatalf("%v: %s", err, note(healed))
		}
		if _, again := agent.Doctor(healed); again != nil {
			t.Fatalf("%v: %s", again, note(healed))
		}
		if faults == nil && !reflect.DeepEqual(healed, given) {
			t.Fatalf("%s became %s", note(given), note(healed))
		}
		for i, m := range healed {
			if _, err := json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			if i == 0 && m.Role != message.RoleUser && m.Role != message.RoleSystem {
				t.Fatal(note(healed))
			}
		}
	})
}
