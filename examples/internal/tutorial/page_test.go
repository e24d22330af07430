package tutorial

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A section of a page has fenced blocks.
type section struct {
	name   string
	blocks []block
}

// A block is a file, commands with what they print, or what the running program prints next.
type block struct {
	kind string // "go", "console" or "text"
	file string // of a block of Go: the last name in bold before it
	text string
	line int
}

// A command is typed by a user, and prints something.
type command struct {
	env   map[string]string
	words []string
	then  []string // the command after a pipe; nil if there is none
	want  string
}

var bold = regexp.MustCompile("^\\*\\*`([^`]+)`\\*\\*")

func readPage(t *testing.T, name string) (all []section) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	file, number := "", 0
	for line := range strings.Lines(string(text)) {
		number++
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{kind: strings.TrimSpace(fence), line: number}
			if open.kind == "go" {
				open.file, file = file, ""
			}
		case isFence:
			last := &all[len(all)-1]
			last.blocks, open = append(last.blocks, *open), nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(line, "## "):
			all = append(all, section{name: strings.TrimSpace(line[3:])})
		default:
			if m := bold.FindStringSubmatch(line); m != nil && strings.HasSuffix(m[1], ".go") {
				file = m[1]
			}
		}
	}
	for _, s := range all {
		for _, b := range s.blocks {
			if b.kind == "go" && b.file == "" {
				t.Fatalf("%s:%d: a block of Go without the name of a file before it", name, b.line)
			}
		}
	}
	return all
}

// commands returns the commands of a section from a block on.
func (s section) commands(t *testing.T, from int) (all []command) {
	for _, b := range s.blocks[from:] {
		if b.kind == "console" {
			all = append(all, b.commands(t)...)
		}
	}
	return all
}

// commands returns the commands of a block. A line that ends in a backslash goes on in the next one.
func (b block) commands(t *testing.T) (all []command) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
		typed, is := strings.CutPrefix(line, "$ ")
		switch {
		case is:
			all = append(all, parse(t, typed))
		case len(all) == 0:
			t.Fatalf("tutorial.md:%d: no command before %q", b.line, line)
		default:
			all[len(all)-1].want += line
		}
	}
	return all
}

var (
	word     = regexp.MustCompile(`(?:[^\s"'|]|"[^"]*"|'[^']*')+|\|`)
	variable = regexp.MustCompile(`^([A-Z_]+)=(.*)$`)
	quotes   = regexp.MustCompile(`"([^"]*)"|'([^']*)'`)
)

// parse knows of the shell what the page uses: variables, quotes and one pipe.
func parse(t *testing.T, line string) command {
	t.Helper()
	c := command{env: make(map[string]string)}
	to := &c.words
	for _, w := range word.FindAllString(line, -1) {
		set := variable.FindStringSubmatch(w)
		switch {
		case w == "|":
			to = &c.then
		case set != nil && len(c.words) == 0:
			c.env[set[1]] = set[2]
		default:
			*to = append(*to, quotes.ReplaceAllString(w, "$1$2"))
		}
	}
	if len(c.words) == 0 {
		t.Fatalf("no command in %q", line)
	}
	return c
}

// differs matches what differs from run to run: ids, sums, times, durations and addresses.
var differs = regexp.MustCompile(`\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b|\b[A-Z2-7]{26}\b|\b[0-9a-hj-km-np-tv-z]{26}\b|` +
	`\d{4}-\d\d-\d\dT[\d:.]+Z|\d{4}/\d\d/\d\d [\d:]{8}|"ms":\d+|` +
	`\b(?:addr|boot_ms|took_ms)=\S+|\t(?:\(cached\)|[\d.]+s)`)

var id = regexp.MustCompile(`^(?:[0-9a-f]{32}|[0-9a-f]{64}|[A-Z2-7]{26}|[0-9a-hj-km-np-tv-z]{26})$`)

// same reports whether a text is the one on the page, but for what differs from run to run. It notes in ids which id
// stands for which on the page.
func same(want, got string, ids map[string]string) bool {
	want, got = plain(want), plain(got)
	if differs.ReplaceAllString(want, "…") != differs.ReplaceAllString(got, "…") {
		return false
	}
	shown, real := differs.FindAllString(want, -1), differs.FindAllString(got, -1)
	found := make(map[string]string)
	for i := range shown {
		if id.MatchString(shown[i]) != id.MatchString(real[i]) || !id.MatchString(shown[i]) {
			continue
		}
		if before, ok := ids[shown[i]]; ok && before != real[i] {
			return false // one id of the page would stand for two
		}
		found[shown[i]] = real[i]
	}
	maps.Copy(ids, found)
	return true
}

// plain returns JSON in its shortest form. On the page it is broken into lines.
func plain(text string) string {
	var b bytes.Buffer
	if strings.HasPrefix(text, "{") && json.Compact(&b, []byte(strings.TrimSpace(text))) == nil {
		return b.String() + "\n"
	}
	return text
}

// The comparison is no sieve.
func TestSame(t *testing.T) {
	const one, other = "4a472816b2cd31745e5188aecfed1f9c", "9c162936877f4d3f43fe60fa067ee487"
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"paid\n", "paid\n", true},
		{"paid\n", "paid\nand more\n", false},
		{"paid 49.90\n", "paid 49.91\n", false},
		{"id " + one + "\n", "id " + other + "\n", true},
		{"id " + one + " " + one + "\n", "id " + one + " " + other + "\n", true}, // the next comparison sees it
		{`{"a": 1,` + "\n" + ` "ms": 3}` + "\n", `{"a":1,"ms":0}` + "\n", true},
		{`{"a": 1}` + "\n", `{"a":2}` + "\n", false},
		{"2026/11/24 10:54:43 INFO x took_ms=3\n", "2027/01/02 00:00:00 INFO x took_ms=41\n", true},
		{"2026/11/24 10:54:43 INFO x runs=3\n", "2027/01/02 00:00:00 INFO x runs=4\n", false},
	} {
		if got := same(c.want, c.got, make(map[string]string)); got != c.same {
			t.Errorf("%q and %q: %t", c.want, c.got, got)
		}
	}
	ids := map[string]string{one: one}
	if same("id "+one+"\n", "id "+other+"\n", ids) {
		t.Error("one id stands for two")
	}
	if got := slices.Collect(maps.Keys(ids)); len(got) != 1 {
		t.Errorf("noted %q", got)
	}
}
