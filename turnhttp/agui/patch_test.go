package agui

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// A patch makes one document the other, whatever they hold.
func TestDiff(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`{"a":1,"b":"long enough"}`, `{"a":2,"b":"long enough","much":"` + strings.Repeat("x", 99) + `"}`, ""},
		{`[1,2,3,` + strings.Repeat(`"x",`, 40) + `4]`, `[1,2,3,` + strings.Repeat(`"x",`, 40) + `5]`, "replace /43"},
		{`{"a/b":{"~":1},"c":"` + strings.Repeat("x", 99) + `"}`, `{"a/b":{},"c":"` + strings.Repeat("x", 99) + `"}`, "remove /a~1b/~0"},
		{`{"a":1.0}`, `{"a":1}`, ""},
		{`1`, `2`, ""},
	} {
		var all []string
		for _, op := range diff(json.RawMessage(c.from), json.RawMessage(c.to)) {
			all = append(all, op.Op+" "+op.Path)
		}
		if got := strings.Join(all, ", "); c.want != "" && got != c.want {
			t.Errorf("from %.40s to %.40s: %q, want %q", c.from, c.to, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for range 2000 {
		from, to := random(r, 3), random(r, 3)
		a, b := marshal(t, from), marshal(t, to)
		var ops []operation
		changes(&ops, "", a, b)
		for _, op := range ops {
			from = apply(t, from, op)
		}
		if got := marshal(t, from); !sameJSON(got, b) {
			t.Fatalf("%s by %v is %s, want %s", a, ops, got, b)
		}
	}
}

func marshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	doc, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func random(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 2 && depth > 0:
		all := make([]any, r.IntN(4))
		for i := range all {
			all[i] = random(r, depth-1)
		}
		return all
	case n < 6 && depth > 0:
		all := make(map[string]any)
		for _, name := range []string{"a", "b/c", "~1", ""} {
			if r.IntN(3) > 0 {
				all[name] = random(r, depth-1)
			}
		}
		return all
	case n == 6:
		return nil
	}
	return fmt.Sprint("some text ", r.IntN(3))
}

// apply does what RFC 6902 says.
func apply(t *testing.T, doc any, op operation) any {
	t.Helper()
	var value any
	if op.Op != "remove" {
		if err := json.Unmarshal(op.Value, &value); err != nil {
			t.Fatal(err)
		}
	}
	if op.Path == "" {
		return value
	}
	head, rest, more := strings.Cut(op.Path[1:], "/")
	if more {
		rest = "/" + rest
	}
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(head)
	inner := operation{op.Op, rest, op.Value}
	switch at := doc.(type) {
	case map[string]any:
		switch {
		case more:
			at[name] = apply(t, at[name], inner)
		case op.Op == "remove":
			delete(at, name)
		default:
			at[name] = value
		}
		return at
	case []any:
		i, err := strconv.Atoi(name)
		switch {
		case name == "-" && op.Op == "add":
			return append(at, value)
		case err != nil || i >= len(at):
			t.Fatalf("no element %s", op.Path)
		case more:
			at[i] = apply(t, at[i], inner)
		case op.Op == "remove":
			return append(at[:i:i], at[i+1:]...)
		default:
			at[i] = value
		}
		return at
	}
	t.Fatalf("no place for %s", op.Path)
	return nil
}

// A cursor that is none is zero: a client may send anything.
func TestCursor(t *testing.T) {
	for text, want := range map[string]cursor{
		"17.2": {17, 2}, "": {}, "17": {}, "0.1": {}, "-1.1": {}, "1.-1": {}, "a.b": {}, "9999999999999999999.1": {},
		cursor{afterEvents, 3}.String(): {afterEvents, 3},
	} {
		if got := cursorOf(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
