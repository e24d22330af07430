package jsonvalue_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
)

var accepted = []string{
	`0`, `null`, `true`, `false`, `""`, `{}`, `[]`, ` [ 1 , {"a" : "b"} ] `, `-0`, `-0.0e0`, `1.5E+3`,
	`"\u00e9"`, `"\ud83d\ude00"`, `"\\u0000"`, `"😀"`, `"` + "\u007f\u2028" + `"`, `{"":1,"":2}`,
	`1e131071`, `1e-16383`, `0e131072`, `0e1000000`, `12345678901234567890123456789.5`,
	strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
	`"` + strings.Repeat("x", jsonvalue.MaxSize-2) + `"`,
	strings.Repeat("9", 131072),
	`[` + strings.Repeat("1,", 1_599_994) + `1]`,
	`[` + strings.Repeat("{},", 376_468) + `{}]`,
	`[` + strings.Repeat(`"", `, 800_000) + strings.Repeat("1234567,", 4) + `"` + strings.Repeat("x", jsonvalue.MaxSize-800_000*3-4*8-4) + `"]`,
	strings.Repeat(" ", jsonvalue.MaxSize) + `"` + strings.Repeat("x", jsonvalue.MaxSize-2) + `"`,
}

var refused = []string{
	``, ` `, `{`, `[1,]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `nul`, `True`, `1 2`, `]`, `[1}`, `01`, `1.`, `.5`, `+1`, `-`, `1e`, `1e+`,
	`"`, `"\x"`, `"\u12"`, "\"\n\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\xef\xbb\xbf{}", "\"a\x00b\"", "\x00", `"\u0000"`, `{"\u0000":1}`,
	`"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\u0041"`,
	`1e131072`, `10e131071`, `1e-16384`, `0e-16384`, `1.` + strings.Repeat("0", 16384), `1e99999999999999999999`, strings.Repeat("9", 131073),
	strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
	`"` + strings.Repeat("x", jsonvalue.MaxSize-1) + `"`,
	`[` + strings.Repeat(`1e131071,`, 200) + `0]`,
	`[` + strings.Repeat("1,", 1_599_995) + `1]`,
	`[` + strings.Repeat("{},", 376_469) + `{}]`,
	`[` + strings.Repeat(`"", `, 800_000) + strings.Repeat("1234567,", 4) + `"` + strings.Repeat("x", jsonvalue.MaxSize-800_000*3-4*8-3) + `"]`,
	strings.Repeat(" ", 2*jsonvalue.MaxSize) + `1`,
}

func TestCheck(t *testing.T) {
	for _, doc := range accepted {
		if err := jsonvalue.Check([]byte(doc)); err != nil {
			t.Errorf("%.40q: %v", doc, err)
		}
	}
	for _, doc := range refused {
		if jsonvalue.Check([]byte(doc)) == nil {
			t.Errorf("%.40q is accepted", doc)
		}
	}
}

// The size of a document is the size of its shortest form.
func TestSize(t *testing.T) {
	for doc, shortest := range map[string]string{
		` [ 1 , {"a" : "b"} ] `: `[1,{"a":"b"}]`, "\t{\r\n}": `{}`, `null `: `null`, `[true,false]`: `[true,false]`,
		`0`: `0`, `-0`: `0`, `-0.0`: `0.0`, `0e5`: `0`, `0e-3`: `0.000`, `-0.00E1`: `0.0`, `12`: `12`, `-12.50`: `-12.50`,
		`1e3`: `1000`, `1.5E+1`: `15`, `-1.25e1`: `-12.5`, `100e-1`: `10.0`, `5e-3`: `0.005`, `0.05e3`: `50`, `0.5e0`: `0.5`,
		`1e0000000000000001`: `10`, `9.99e-0`: `9.99`,
		`"\/\"\\\b\f\n\r\t"`: `"/\"\\\b\f\n\r\t"`, `"\u0041\u0022\u005c\u000a\u001f\u007f"`: `"A\"\\\n\u001f` + "\u007f" + `"`,
		`"\u00e9\u20ac\ud83d\ude00"`: `"é€😀"`, `"<\u003c"`: `"<<"`,
	} {
		size, err := jsonvalue.Size([]byte(doc))
		if err != nil || size != len(shortest) {
			t.Errorf("%q: size %d, want %d of %q: %v", doc, size, len(shortest), shortest, err)
		}
	}
	if _, err := jsonvalue.Size([]byte(`[1`)); err == nil {
		t.Error("half a document has a size")
	}
}

// A text counts as much as it takes as a string of a document. The escapes that its encoder writes make no difference.
func TestTextSize(t *testing.T) {
	for _, text := range []string{"", "plain", "\x01\b\f\n\r\t\u007f\u2028", `"\/<>&`, "é€😀"} {
		doc, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		size, err := jsonvalue.Size(doc)
		if got := jsonvalue.TextSize(text); err != nil || got != size {
			t.Errorf("%q: %d, as a document %d: %v", text, got, size, err)
		}
	}
}

func TestCheckWithin(t *testing.T) {
	b := jsonvalue.Bounds{Size: 5, Depth: 2}
	for doc, fits := range map[string]bool{
		`[[1]]`: true, `[[ 1 ]]`: true, `[ [ 1 ] ]    `: false, `"abc"`: true, `"abcd"`: false, `[[[]]]`: false, `1e4`: true, `1e5`: false,
	} {
		if err := jsonvalue.CheckWithin([]byte(doc), b); (err == nil) != fits {
			t.Errorf("%q: %v", doc, err)
		}
	}
	if err := jsonvalue.CheckWithin([]byte(`[[[]]]`), jsonvalue.Bounds{Size: 6}); err != nil {
		t.Errorf("a bound that is zero is not that of the stores: %v", err)
	}
	objects := []byte(`[` + strings.Repeat(`{},`, 100_000) + `{}]`)
	if err := jsonvalue.Check(objects); err != nil {
		t.Error(err)
	}
	for _, b := range []jsonvalue.Bounds{{Size: 1 << 20}, {Memory: 64_000_000}} {
		if jsonvalue.CheckWithin(objects, b) == nil {
			t.Errorf("%+v lets 70 MB pass", b)
		}
	}
}

// Each byte of a string is judged by itself, at every position.
func TestCheckStrings(t *testing.T) {
	const around = "0123456789ghijklm"
	for c := range 256 {
		fine := ' ' <= c && c < 0x80 && c != '"' && c != '\\'
		for at := range len(around) {
			doc := []byte(`"` + around[:at] + string([]byte{byte(c)}) + around[at:] + `"`)
			if err := jsonvalue.Check(doc); (err == nil) != fine {
				t.Errorf("%q: %v", doc, err)
			}
		}
	}
}

// Each accepted document is JSON to encoding/json too.
func FuzzCheck(f *testing.F) {
	for _, doc := range append(accepted, refused...) {
		if len(doc) < 1<<10 {
			f.Add([]byte(doc))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		err := jsonvalue.Check(doc)
		if err == nil && !json.Valid(doc) {
			t.Errorf("%q is not JSON", doc)
		}
		if err != nil && json.Valid(doc) && plain(doc) {
			t.Errorf("%q: %v", doc, err)
		}
	})
}

// plain reports whether doc is free of everything that JSON allows and a store does not.
func plain(doc []byte) bool {
	for _, c := range doc {
		if c >= 0x80 || c == '\\' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}

func BenchmarkCheck(b *testing.B) {
	for name, doc := range map[string]string{
		"prose":   `{"messages":["` + strings.Repeat("the quick brown fox ", 200) + `"],"n":[1,2.5,-3]}`,
		"numbers": `[` + strings.Repeat(`1,-23,4.5,6e7,`, 300) + `8]`,
		"members": `[` + strings.Repeat(`{"name": "value", "done": true}, `, 120) + `{}]`,
		"escapes": `"` + strings.Repeat(`line\n\"said\" caf\u00e9 `, 180) + `"`,
	} {
		b.Run(name, func(b *testing.B) {
			doc := []byte(doc)
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if err := jsonvalue.Check(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
