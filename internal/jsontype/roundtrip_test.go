package jsontype_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/jsontype"
	"github.com/holdfast-go/holdfast/message"
)

// Whole has one of each kind of field that JSON keeps.
type Whole struct {
	Bool     bool
	Int      int64 `json:"int,omitempty"`
	Quoted   uint8 `json:",string"`
	Float    float64
	Text     string
	Bytes    []byte
	Digest   [4]byte
	Raw      json.RawMessage
	Number   json.Number
	Big      big.Int
	PBig     *big.Int
	Time     time.Time
	Took     time.Duration `json:",omitzero"`
	Addr     netip.Addr
	Level    Level
	Lenient  Lenient
	Pointer  *string `json:",omitempty"`
	Slice    []Base
	Array    [2]Base
	ByText   map[string]*Base
	ByInt    map[int8][]string
	ByLevel  map[Level]Level
	Next     *Whole
	Children []Whole
	Base
	hidden
	number2 `json:"n2"`
	*Opt
	_ struct{ never int }
}

type number2 struct{ Y int }

// Opt is embedded by pointer.
type Opt struct{ Z int }

// Price needs an address to be written.
type Price struct{ Cents big.Int }

// Mixed writes text and reads JSON.
type Mixed struct{ OnlyWrites }

func (*Mixed) UnmarshalJSON([]byte) error { return nil }

func TestPasses(t *testing.T) {
	type alias = Whole
	for _, typ := range []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[string](), reflect.TypeFor[[]string](),
		reflect.TypeFor[map[string]int](),
		reflect.TypeFor[*int](), reflect.TypeFor[struct{}](), reflect.TypeFor[[0]int](), reflect.TypeFor[uintptr](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[*time.Time](), reflect.TypeFor[struct{ time.Time }](),
		reflect.TypeFor[map[string]time.Time](), reflect.TypeFor[map[netip.Addr]*big.Int](), reflect.TypeFor[big.Int](),
		reflect.TypeFor[Forest](), reflect.TypeFor[Endless](), reflect.TypeFor[Loop](),
		reflect.TypeFor[Whole](), reflect.TypeFor[*Whole](), reflect.TypeFor[alias](),
		reflect.TypeFor[map[string]struct{ *Price }](), reflect.TypeFor[Mixed](),
		reflect.TypeFor[message.Message](), reflect.TypeFor[map[string][]message.Message](),
		reflect.TypeFor[struct {
			Name, NAME string // two names in JSON
			Base       `json:"base"`
		}](),
	} {
		if faults := jsontype.Check(typ); faults != nil {
			t.Errorf("%v: %q", typ, faults)
		}
	}
}

func TestWholeRoundTrips(t *testing.T) {
	text := "q\"<"
	inner := Whole{
		Raw: json.RawMessage(`{"a":[1]}`), Number: "1e400", PBig: big.NewInt(7), Bytes: []byte{0, 255},
		Digest: [4]byte{1},
		Time:   time.Date(2026, 3, 1, 9, 30, 0, 1, time.UTC), Addr: netip.MustParseAddr("10.0.0.1"), Pointer: &text,
	}
	inner.Big.Exp(big.NewInt(10), big.NewInt(50), nil)
	want := Whole{
		Bool: true, Int: 1 << 62, Quoted: 200, Float: 0.1, Text: text, Raw: json.RawMessage(`7`), Number: "0",
		Took:  time.Hour,
		Level: 3, Lenient: Lenient{4}, Slice: []Base{{"a"}}, Array: [2]Base{{"b"}},
		ByText: map[string]*Base{"": nil, "c": {"d"}},
		ByInt:  map[int8][]string{-128: {"e"}}, ByLevel: map[Level]Level{1: 2}, Next: &inner, Children: []Whole{inner},
		Base: Base{"f"}, hidden: hidden{5}, number2: number2{6}, Opt: &Opt{},
	}
	if err := roundTrip(reflect.ValueOf(want)); err != nil {
		t.Error(err)
	}
}

// If a type passes Check, all its values come back the same.
func TestPassingTypesRoundTrip(t *testing.T) {
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		typ := anyType(3).Draw(t, "type")
		if jsontype.Check(typ) != nil {
			t.Skip("has faults")
		}
		passed++
		if err := roundTrip(anyValue(t, typ)); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
	})
	if passed == 0 {
		t.Error("no type passed")
	}
}

func roundTrip(want reflect.Value) error {
	in := reflect.New(want.Type())
	in.Elem().Set(want)
	doc, err := json.Marshal(in.Interface())
	if err != nil {
		return err
	}
	out := reflect.New(want.Type())
	if err := json.Unmarshal(doc, out.Interface()); err != nil {
		return fmt.Errorf("%s: %w", doc, err)
	}
	if !reflect.DeepEqual(in.Interface(), out.Interface()) {
		return fmt.Errorf("%+v became %+v by %s", in.Elem(), out.Elem(), doc)
	}
	return nil
}

// leaves are good and bad types. Their methods need an address or not, and work both ways or one way.
var leaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[uint64](), reflect.TypeFor[float32](),
	reflect.TypeFor[string](), reflect.TypeFor[byte](), reflect.TypeFor[Level](), reflect.TypeFor[Lenient](),
	reflect.TypeFor[*big.Int](), reflect.TypeFor[big.Int](), reflect.TypeFor[time.Time](), reflect.TypeFor[Base](),
	reflect.TypeFor[hidden](), reflect.TypeFor[Opt](), reflect.TypeFor[Stamp](), reflect.TypeFor[OnlyWrites](),
	reflect.TypeFor[any](), reflect.TypeFor[complex64](), reflect.TypeFor[Order](),
}

func anyType(depth int) *rapid.Generator[reflect.Type] {
	leaf := rapid.SampledFrom(leaves)
	if depth == 0 {
		return leaf
	}
	part := rapid.Deferred(func() *rapid.Generator[reflect.Type] { return anyType(depth - 1) })
	return rapid.OneOf(
		leaf,
		rapid.Map(part, reflect.SliceOf),
		rapid.Map(part, reflect.PointerTo),
		rapid.Map(part, func(t reflect.Type) reflect.Type { return reflect.ArrayOf(2, t) }),
		rapid.Custom(func(t *rapid.T) reflect.Type {
			key := rapid.SampledFrom(leaves[:8]).Draw(t, "key")
			return reflect.MapOf(key, part.Draw(t, "element"))
		}),
		rapid.Custom(func(t *rapid.T) reflect.Type { return structType(t, part) }),
	)
}

func structType(t *rapid.T, part *rapid.Generator[reflect.Type]) reflect.Type {
	var fields []reflect.StructField
	for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
		tag := rapid.SampledFrom([]string{
			``, ``, ``, `json:"a"`, `json:"b"`, `json:"F0"`, `json:"-"`, `json:"-,"`, `json:",omitempty"`,
			`json:",omitzero"`,
			`json:",string"`, `json:"a\\b"`,
		}).Draw(t, "tag")
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("F%d", i), Type: part.Draw(t, "field"), Tag: reflect.StructTag(tag),
		})
	}
	return reflect.StructOf(fields)
}

// anyValue draws a value, but none of the values that the package comment excludes.
func anyValue(t *rapid.T, typ reflect.Type) reflect.Value {
	v := reflect.New(typ).Elem()
	switch typ {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "unix"), 1).UTC()))
		return v
	case reflect.TypeFor[big.Int]():
		v.Addr().MethodByName("SetInt64").Call([]reflect.Value{reflect.ValueOf(rapid.Int64().Draw(t, "big"))})
		return v
	}
	switch typ.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8:
		v.SetInt(int64(rapid.Int8().Draw(t, "int")))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float")))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	default:
		fill(t, v)
	}
	return v
}

// fill draws the parts of v.
func fill(t *rapid.T, v reflect.Value) {
	typ, n := v.Type(), rapid.IntRange(0, 2).Draw(t, "length")
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			v.Field(i).Set(anyValue(t, typ.Field(i).Type))
		}
	case reflect.Array:
		for i := range typ.Len() {
			v.Index(i).Set(anyValue(t, typ.Elem()))
		}
	case reflect.Slice:
		for range n {
			v.Set(reflect.Append(v, anyValue(t, typ.Elem())))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(typ))
		for range n {
			v.SetMapIndex(anyValue(t, typ.Key()), anyValue(t, typ.Elem()))
		}
	case reflect.Pointer:
		if elem := anyValue(t, typ.Elem()); n > 0 && !isNull(elem) {
			v.Set(reflect.New(typ.Elem()))
			v.Elem().Set(elem)
		}
	}
}

func isNull(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return v.IsNil()
	}
	return false
}
