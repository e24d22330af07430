package checkpoint_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// The stores refuse exactly the documents that PostgreSQL refuses, number by number and string by string.
func TestPostgresValues(t *testing.T) {
	p := testenv.Postgres(t)
	r := rand.New(rand.NewPCG(1, 2))
	digits := func(n int) string { return strings.Repeat(string(rune('0'+r.IntN(10))), n) }
	number := func() string {
		whole := digits(1)
		if r.IntN(3) == 0 {
			whole = "1" + digits(r.IntN(40))
		}
		doc := whole
		if r.IntN(2) == 0 {
			doc += "." + digits(1+r.IntN(20))
		}
		if e := []int{0, 9, 131060 + r.IntN(30), -16360 - r.IntN(40), -131072, 131072}[r.IntN(6)]; e != 0 {
			doc += fmt.Sprintf("e%d", e)
		}
		return doc
	}
	pieces := []string{
		`\u0000`, `\ud83d`, `\ude00`, `\ud83d\ude00`, `a`, "é", "\U0001F600", `\\`, `\n`, `\u00e9`, "\x7f", "\t", `\q`, `\u12`,
	}
	for range 2000 {
		doc := number()
		if r.IntN(2) == 0 {
			doc = `"` + pieces[r.IntN(len(pieces))] + pieces[r.IntN(len(pieces))] + `"`
		}
		_, err := p.Exec(t.Context(), "SELECT $1::text::jsonb", doc)
		if ours := jsonvalue.Check([]byte(doc)); (ours == nil) != (err == nil) {
			t.Errorf("%s: the store says %v, and PostgreSQL says %v", doc, ours, err)
		}
	}
}

// A document that PostgreSQL gives back counts as much as the document that it took, with all forms of numbers. So it
// is taken again. If a name comes twice, the document counts less.
func TestPostgresSize(t *testing.T) {
	p := testenv.Postgres(t)
	rapid.Check(t, func(t *rapid.T) {
		doc := document(t, 4)
		size, err := jsonvalue.Size([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		var back string
		if err := p.QueryRow(t.Context(), "SELECT $1::text::jsonb::text", doc).Scan(&back); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		got, err := jsonvalue.Size([]byte(back))
		if err != nil {
			t.Fatalf("%s comes back as %s: %v", doc, back, err)
		}
		if got > size || got < size && !strings.Contains(doc, `"twice"`) {
			t.Fatalf("%s has size %d, and comes back as %s of size %d", doc, size, back, got)
		}
		if err := jsonvalue.CheckWithin([]byte(back), jsonvalue.Bounds{Size: size}); err != nil {
			t.Fatalf("%s of size %d comes back as %s: %v", doc, size, back, err)
		}
	})
}

// document draws a document, with white space in it.
func document(t *rapid.T, depth int) string {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "})
	around := func(doc string) string { return space.Draw(t, "before") + doc + space.Draw(t, "after") }
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return around(rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal"))
	case 1, 2:
		return around(number(t))
	case 3:
		return around(text(t))
	case 4:
		var elements []string
		for range rapid.IntRange(0, 4).Draw(t, "elements") {
			elements = append(elements, document(t, depth-1))
		}
		return around(`[` + strings.Join(elements, ",") + space.Draw(t, "inside") + `]`)
	default:
		var members []string
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			name := fmt.Sprintf(`"%d"`, i)
			if rapid.IntRange(0, 9).Draw(t, "name") == 0 {
				name = `"twice"`
			}
			members = append(members, around(name)+`:`+document(t, depth-1))
		}
		return around(`{` + strings.Join(members, ",") + space.Draw(t, "inside") + `}`)
	}
}

func number(t *rapid.T) string {
	n := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
	n += rapid.SampledFrom([]string{"0", "1", "9", "10", "500", "1234567890123456789012345"}).Draw(t, "whole")
	if rapid.Bool().Draw(t, "point") {
		n += "." + rapid.StringMatching(`0{0,3}[0-9]{1,20}0{0,3}`).Draw(t, "fraction")
	}
	if rapid.Bool().Draw(t, "scaled") {
		n += rapid.SampledFrom([]string{"e", "E", "e+", "E-", "e-"}).Draw(t, "e")
		n += rapid.SampledFrom([]string{"", "0", "00"}).Draw(t, "zeros")
		n += fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "exponent"))
	}
	return n
}

func text(t *rapid.T) string {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		`a`, "é", "€", "😀", "\x7f", "\u2028", "<", `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`,
		`\u0001`, `\u000a`, `\u001f`, `\u0022`, `\u005C`, `\u002f`, `\u0041`, `\u007f`, `\u0080`, `\u00e9`, `\u07ff`, `\u0800`, `\u20AC`, `\uffff`, `\ud83d\ude00`,
	}), 0, 6)
	return `"` + strings.Join(pieces.Draw(t, "text"), "") + `"`
}
