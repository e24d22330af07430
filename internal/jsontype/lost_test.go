package jsontype_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/jsontype"
)

// Deep has a struct at each place where one can be.
type Deep struct {
	Name   string
	One    Base `json:"one"`
	Ptr    **Base
	Slice  []Base
	Array  [2]Base
	Digest [4]byte
	ByName map[string]Base
	ByID   map[int][]map[string]*Base
	Bytes  []byte
	Next   *Deep
	Kids   []Deep
	Opt
	*Tagged
	hidden
	When   time.Time
	Big    big.Int
	Level  Level
	Raw    json.RawMessage
	Any    any
	Left   int `json:"-"`
	Symbol int `json:"a&b"`
}

// Tagged is embedded by pointer.
type Tagged struct {
	Tag string `json:"tag"`
}

type (
	// Kids is a slice of structs that hold such slices.
	Kids []Kid
	// Kid holds Kids.
	Kid struct{ Kids Kids }
)

func lost[T any](doc string) []string {
	return jsontype.MembersOf(reflect.TypeFor[T]()).Lost([]byte(doc))
}

func TestLost(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []string
		want string
	}{
		{"nothing", lost[Deep](`{"Name":"x","one":{"Name":"y"},"Slice":null,"Kids":[],"Ptr":{"Name":""}}`), ""},
		{"any case", lost[Deep](`{"nAME":"x","ONE":{"name":"y"},"\u004eext":{"TAG":"z"},"\u212Aids":[{}]}`), ""},
		{"a field", lost[Deep](`{"Note":1,"Name":"x","Tip":{"a":[{"}":"]"}]},"one":{"Name":"y"}}`), "Note Tip"},
		{
			"everywhere", lost[Deep](`{"one":{"q":1},"Ptr":{"q":1},"Slice":[{"q":1},{"q":2}],"Array":[{},{"q":1}],
			"ByName":{"anna":{"q":1}},"ByID":{"7":[{"b":{"q":1}}]},"Next":{"Next":{"q":1}},
			"Kids":[{"Kids":[{"q":1}]}]}`),
			"one.q Ptr.q Slice[].q Array[].q ByName[].q ByID[][][].q Next.Next.q Kids[].Kids[].q",
		},
		{"embedded", lost[Deep](`{"Z":1,"tag":"x","X":2,"Y":3,"Opt":{"Z":1}}`), "Y Opt"},
		{"trusted", lost[Deep](`{"When":{"x":1},"Big":{"x":1},"Level":"L1","Raw":{"x":1},"Any":{"x":{"y":1}}}`), ""},
		{"left out", lost[Deep](`{"Left":1,"-":2,"a\u0026b":3}`), "Left -"},
		{"named -", jsontype.MembersOf(tagged(`json:"-,"`, `json:"-"`)).Lost([]byte(`{"-":1,"A":2,"B":3}`)), "A B"},
		{
			"elements", lost[Deep](`{"Digest":[1,2,3,4,5,6],"Array":[{},{},{"Name":"x"}],"Bytes":"AAAA"}`),
			"Digest[4] Array[2]",
		},
		{"twice", lost[Deep](`{"Name":"x","NAME":"y"}`), "NAME"},
		{"exact first", lost[struct{ Name, NAME string }](`{"Name":"x","NAME":"y","name":"z"}`), "name"},
		{"escapes", lost[Deep](`{"Name":"\\","No\"te":"\\\"}","one":{"Name":"\"","Tip\u00e9":"x"}}`), `No"te one.Tipé`},
		{"space", lost[Deep](" { \"Name\" : \"x\" ,\n\t\"one\" : { \"x\" : [ 1 , 2 ] } , \"y\" : null } "), "one.x y"},
		{"scalar root", lost[int](`7`), ""},
		{"maps only", lost[Forest](`{"a":{"b":{}}}`), ""},
		{"slices only", lost[Endless](`[[],[[]]]`), ""},
		{"loop", lost[Loop](`null`), ""},
		{"recursive slice", lost[Kids](`[{"Kids":[{"x":1}]}]`), "[].Kids[].x"},
		{"recursive struct", lost[Kid](`{"Kids":[{"Kids":[{"x":1}]}]}`), "Kids[].Kids[].x"},
		{"root slice", lost[[]Base](`[{"Name":"x"},{"x":1}]`), "[].x"},
		{"root map", lost[map[string]Base](`{"anna":{"x":1}}`), "[].x"},
		{"nameless", lost[struct{ time.Time }](`"2026-03-01T09:30:00Z"`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(c.got, " "); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// A document may have any names, and any number of them.
func TestLostIsBounded(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(`{"` + strings.Repeat("é", 100) + `":0`)
	for i := range 1000 {
		fmt.Fprintf(&doc, `,"member %d":{}`, i)
	}
	got := lost[Base](doc.String() + `}`)
	if len(got) != jsontype.MostLost {
		t.Errorf("%d paths", len(got))
	}
	if want := strings.Repeat("é", 50) + "…"; len(got) == 0 || got[0] != want {
		t.Errorf("first is %q, want %q", got, want)
	}
}

// A struct may have more fields than a word has bits.
func TestLostOfManyFields(t *testing.T) {
	var fields []reflect.StructField
	for i := range 150 {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: reflect.TypeFor[int]()})
	}
	members := jsontype.MembersOf(reflect.StructOf(fields))
	if got := members.Lost([]byte(`{"F149":1,"f148":1,"F0":1,"F70":1}`)); got != nil {
		t.Errorf("lost %q", got)
	}
	if got := members.Lost([]byte(`{"F149":1,"f149":1,"F150":1}`)); !slices.Equal(got, []string{"f149", "F150"}) {
		t.Errorf("lost %q", got)
	}
}

func TestShape(t *testing.T) {
	shape := func(t reflect.Type) string { return jsontype.MembersOf(t).Shape() }
	type state struct {
		A int
		B []Base
		C *Deep
	}
	type renamed struct {
		A int
		X []Base `json:"B"`
		C *Deep
	}
	base := shape(reflect.TypeFor[state]())
	if got := shape(reflect.TypeFor[renamed]()); got != base {
		t.Errorf("the names of fields in Go changed the shape\nwas %s\nis  %s", base, got)
	}
	for _, other := range []reflect.Type{
		reflect.TypeFor[struct {
			A int
			B []Base
		}](),
		reflect.TypeFor[struct {
			A int8
			B []Base
			C *Deep
		}](),
		reflect.TypeFor[struct {
			A int
			B [3]Base
			C *Deep
		}](),
		reflect.TypeFor[struct {
			A int
			B []Opt
			C *Deep
		}](),
		reflect.TypeFor[struct {
			A int `json:",string"`
			B []Base
			C *Deep
		}](),
		reflect.TypeFor[struct {
			A int
			B map[string]Base
			C *Deep
		}](),
		reflect.TypeFor[struct {
			A time.Time
			B []Base
			C *Deep
		}](),
	} {
		if shape(other) == base {
			t.Errorf("%v has the shape of %v", other, reflect.TypeFor[state]())
		}
	}
}

// Lost returns a path exactly if a document loses something when a type reads it and writes it again.
func TestLostAgreesWithRoundTrip(t *testing.T) {
	lossy, kept := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		writes := anyType(3).Draw(t, "written")
		if !fillable(writes) {
			return
		}
		reads := changed(t, writes, 3)
		in := reflect.New(writes)
		in.Elem().Set(anyValue(t, writes))
		doc, err := json.Marshal(in.Interface())
		if err != nil {
			return // the type has no JSON
		}
		out := reflect.New(reads)
		if json.Unmarshal(doc, out.Interface()) != nil {
			return // a member has another type
		}
		again, err := json.Marshal(out.Interface())
		if err != nil {
			return
		}
		paths := jsontype.MembersOf(reads).Lost(doc)
		if covers(plain(t, doc), plain(t, again)) {
			kept++
			if paths != nil {
				t.Errorf("%v reads %s and writes %s: %q would be lost", reads, doc, again, paths)
			}
			return
		}
		lossy++
		if paths == nil {
			t.Errorf("%v reads %s and writes %s: nothing would be lost", reads, doc, again)
		}
	})
	t.Logf("%d documents lost something, %d did not", lossy, kept)
	if lossy == 0 || kept == 0 {
		t.Error("the search is not about the difference")
	}
}

// fillable reports whether a test may set all fields of t.
func fillable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if t.PkgPath() != "time" && t.PkgPath() != "math/big" && (!f.IsExported() || !fillable(f.Type)) {
				return false
			}
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return fillable(t.Elem()) && (t.Kind() != reflect.Map || fillable(t.Key()))
	}
	return true
}

// changed draws a type that another version of a program may have in place of t. It has no tags that leave out zero
// values: such a value is not lost.
func changed(t *rapid.T, typ reflect.Type, depth int) reflect.Type {
	if rapid.IntRange(0, 15).Draw(t, "replace") == 0 {
		other := anyType(depth).Draw(t, "replaced")
		// The unmarshaling of Lenient drops what it does not know, and is trusted.
		shape := jsontype.MembersOf(other).Shape()
		if strings.Contains(shape, "Lenient") || strings.Contains(shape, "omit") {
			return typ
		}
		return other
	}
	if typ.Name() != "" {
		return typ
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return reflect.PointerTo(changed(t, typ.Elem(), depth))
	case reflect.Slice:
		return reflect.SliceOf(changed(t, typ.Elem(), depth))
	case reflect.Map:
		return reflect.MapOf(typ.Key(), changed(t, typ.Elem(), depth))
	case reflect.Array:
		return reflect.ArrayOf(rapid.IntRange(1, 3).Draw(t, "length"), changed(t, typ.Elem(), depth))
	case reflect.Struct:
		return changedStruct(t, typ, depth)
	}
	return typ
}

func changedStruct(t *rapid.T, typ reflect.Type, depth int) reflect.Type {
	var fields []reflect.StructField
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch rapid.IntRange(0, 7).Draw(t, "change") {
		case 0:
			continue // removed
		case 1:
			name = "renamed"
		case 2:
			name = strings.ToUpper(name)
		case 3:
			name = strings.ToLower(f.Name)
		}
		fields = append(fields, reflect.StructField{
			Name: f.Name, Type: changed(t, f.Type, depth-1), Tag: reflect.StructTag(fmt.Sprintf("json:%q", name)),
		})
	}
	return reflect.StructOf(fields)
}

func plain(t *rapid.T, doc []byte) (v any) {
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// covers reports whether b has a place for each member and element of a.
func covers(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok {
			return true // written in another way
		}
		for i := range a {
			if i >= len(b) || !covers(a[i], b[i]) {
				return false
			}
		}
	case map[string]any:
		b, ok := b.(map[string]any)
		return !ok || coversMembers(a, b)
	}
	return true
}

// coversMembers gives each member of a its own member of b: that of its name, or one that differs in case.
func coversMembers(a, b map[string]any) bool {
	taken := make(map[string]bool)
	match := func(name string, same func(string, string) bool) bool {
		for other, value := range b {
			if !taken[other] && same(name, other) && covers(a[name], value) {
				taken[other] = true
				return true
			}
		}
		return false
	}
	var rest []string
	for name := range a {
		if _, exact := b[name]; !exact {
			rest = append(rest, name)
		} else if !match(name, func(x, y string) bool { return x == y }) {
			return false
		}
	}
	for _, name := range rest {
		if !match(name, strings.EqualFold) {
			return false
		}
	}
	return true
}

// BenchmarkLost compares the check with the decoding that comes before it.
func BenchmarkLost(b *testing.B) {
	type item struct {
		ID, Note string
		Price    float64
	}
	type state struct {
		Name  string
		Items []item
		Facts map[string]string
		Said  []string
	}
	s := state{Name: "anna", Facts: map[string]string{"city": "Turin", "size": "M"}}
	for i := range 5 {
		s.Items = append(s.Items, item{fmt.Sprint("A-", i), "a note of the usual length", 9.5})
		s.Said = append(s.Said, "what a user said to the bot, a sentence of the usual length")
	}
	doc, err := json.Marshal(s)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var s state
			if err := json.Unmarshal(doc, &s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lost", func(b *testing.B) {
		members := jsontype.MembersOf(reflect.TypeFor[state]())
		b.ReportAllocs()
		for b.Loop() {
			if members.Lost(doc) != nil {
				b.Fatal("lost")
			}
		}
	})
}

// FuzzLost reads any document.
func FuzzLost(f *testing.F) {
	f.Add([]byte(`{"one":{"x":"\\\""},"Kids":[{"Kids":[{}]}],"Digest":[1,2,3,4,5]}`))
	f.Add([]byte(`{"a\`))
	f.Add([]byte(`[[{]`))
	members := jsontype.MembersOf(reflect.TypeFor[Deep]())
	f.Fuzz(func(_ *testing.T, doc []byte) { members.Lost(doc) })
}
