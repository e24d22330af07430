package jsontype_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-go/holdfast/internal/jsontype"
)

type Order struct {
	ID     string
	secret string //nolint:unused // the field is the fault
}

type State struct {
	Orders []Order
	ByID   map[string]*Order
	Worst  Order
}

type Tree struct {
	Left, Right *Tree
	Note        any
}

type (
	Forest  map[string]Forest
	Endless []Endless
	Loop    *Loop
	Chans   []chan int
)

type Base struct{ Name string }

type hidden struct{ X int }

type number int

// Stamp gets its methods of marshaling from time.Time.
type Stamp struct {
	time.Time
	Zone string
}

type Ring struct {
	*Ring
	A int
}

// Level has text as its JSON.
type Level int

func (l Level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "L%d", int(l)), nil }

func (l *Level) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "L%d", (*int)(l))
	return err
}

type OnlyWrites int

func (OnlyWrites) MarshalText() ([]byte, error) { return []byte("w"), nil }

type OnlyReads int

func (*OnlyReads) UnmarshalText([]byte) error { return nil }

type OnlyJSON struct{ X int }

func (OnlyJSON) MarshalJSON() ([]byte, error) { return []byte("1"), nil }

// Lenient has its own reader, but encoding/json writes it.
type Lenient struct{ X int }

func (l *Lenient) UnmarshalJSON(doc []byte) error {
	type plain Lenient
	return json.Unmarshal(doc, (*plain)(l))
}

// tagged returns a struct of ints named A, B, C. Linters would refuse such tags in source code.
func tagged(tags ...reflect.StructTag) reflect.Type {
	var fields []reflect.StructField
	for i, tag := range tags {
		fields = append(fields, reflect.StructField{
			Name: string(rune('A' + i)), Type: reflect.TypeFor[int](),
			Tag: tag,
		})
	}
	return reflect.StructOf(fields)
}

func check[T any]() []string { return jsontype.Check(reflect.TypeFor[T]()) }

const noInterface = ": interface, and JSON does not keep what is in it: json.RawMessage does"

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []string
		want []string
	}{
		{"unexported field", check[Order](), []string{"Order.secret: unexported field"}},
		{"everywhere", check[State](), []string{
			"State.Orders[].secret: unexported field",
			"State.ByID[]: jsontype_test.Order, see State.Orders[]",
			"State.Worst: jsontype_test.Order, see State.Orders[]",
		}},
		{"pointer", check[**Order](), []string{"Order.secret: unexported field"}},
		{"nameless", check[struct{ a int }](), []string{"S.a: unexported field"}},
		{"mutex", check[struct{ Mu sync.Mutex }](), []string{"S.Mu.mu: unexported field"}},
		{"embedded unexported non-struct", check[struct{ number }](), []string{"S.number: unexported field"}},
		{
			"embedded pointer", check[struct{ *hidden }](),
			[]string{"S.hidden: embedded pointer to an unexported struct, which cannot be read"},
		},
		{"embedded pointer with a name", check[struct {
			*hidden `json:"h"`
		}](), []string{"S.hidden: embedded pointer to an unexported struct, which cannot be read"}},
		{"interfaces", check[struct {
			A any
			B map[string]any
			C []error
			D *fmt.Stringer
		}](), []string{"S.A" + noInterface, "S.B[]" + noInterface, "S.C[]" + noInterface, "S.D" + noInterface}},
		{"root interface", check[any](), []string{"S" + noInterface}},
		{"root slice", check[[]any](), []string{"S[]" + noInterface}},
		{"embedded interface", check[struct{ fmt.Stringer }](), []string{"S.Stringer" + noInterface}},
		{"no JSON", check[struct {
			A, B complex128
			C    complex64
			D    func()
			E    chan int
			F    unsafe.Pointer
			G    [2]Chans
		}](), []string{
			"S.A: complex128 has no JSON", "S.B: complex128 has no JSON", "S.C: complex64 has no JSON",
			"S.D: func has no JSON", "S.E: chan has no JSON", "S.F: unsafe.Pointer has no JSON",
			"S.G[][]: chan has no JSON",
		}},
		{"keys", check[struct {
			A map[bool]int
			B map[float64]int
			C map[Base]int
			D map[any]int
			E map[*int]int
			F map[OnlyWrites]int
			G map[OnlyReads]int
			H map[[2]int]int
		}](), []string{
			"S.A: bool cannot be a key in JSON",
			"S.B: float64 cannot be a key in JSON",
			"S.C: jsontype_test.Base cannot be a key in JSON",
			"S.D: interface as a key comes back as another",
			"S.E: ptr as a key comes back as another",
			"S.F: key jsontype_test.OnlyWrites has MarshalText without UnmarshalText",
			"S.G: key jsontype_test.OnlyReads has UnmarshalText without MarshalText",
			"S.H: [2]int cannot be a key in JSON",
		}},
		{"left out", check[struct {
			A int  `json:"-"`
			B Base `json:"-"`
		}](), []string{`S.A: not stored: json:"-"`, `S.B: not stored: json:"-"`}},
		{"same name", jsontype.Check(tagged(`json:"x"`, `json:"x,omitempty"`, `json:"y"`)), []string{
			`S.A: not stored: another field is "x" in JSON too`,
			`S.B: not stored: another field is "x" in JSON too`,
		}},
		{"shadowed", check[struct {
			Base
			Name string
		}](), []string{`S.Base.Name: not stored: another field is "Name" in JSON too`}},
		{"a tag wins", check[struct {
			Name  string
			Other string `json:"Name"`
		}](), []string{`S.Name: not stored: another field is "Name" in JSON too`}},
		{"named -", jsontype.Check(tagged(`json:"-,"`, `json:"-,omitempty"`)), []string{
			`S.A: not stored: another field is "-" in JSON too`,
			`S.B: not stored: another field is "-" in JSON too`,
		}},
		{"invalid tag", jsontype.Check(tagged(``, `json:"x\\y"`, `json:"B"`)), []string{
			`S.B: not stored: another field is "B" in JSON too`,
		}},
		{"embeds itself", check[Ring](), []string{"Ring.Ring: not stored: jsontype_test.Ring is embedded in itself"}},
		{
			"embedded methods", check[map[string]Stamp](),
			[]string{"S[]: the embedded Time has its own marshaling, which leaves out the other fields"},
		},
		{"one way", check[struct {
			A OnlyWrites
			B *OnlyJSON
		}](), []string{"S.A: MarshalText without UnmarshalText", "S.B: MarshalJSON without UnmarshalJSON"}},
		{"address", check[struct {
			A map[string]big.Int
			B map[string][2]big.Float
		}](), []string{
			"S.A[]: MarshalJSON needs a pointer, and there is none to what is in a map",
			"S.B[][]: MarshalText needs a pointer, and there is none to what is in a map",
		}},
		{"omitempty", check[struct {
			A map[string]int `json:",omitempty"`
			B map[string]int `json:",omitzero"`
		}](), []string{"S.A: omitempty makes an empty map come back as nil, which cannot be written to"}},
		{"string", check[struct {
			A Level  `json:",string"`
			B *Level `json:",string"`
		}](), []string{
			`S.A: json:",string" of a type with its own marshaling cannot be read`,
			`S.B: json:",string" of a type with its own marshaling cannot be read`,
		}},
		{"recursive", check[Tree](), []string{"Tree.Note" + noInterface}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !slices.Equal(c.got, c.want) {
				t.Errorf("got  %q\nwant %q", c.got, c.want)
			}
		})
	}
}
