package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A set is written in the order in which the map is ranged over: each time another.
type set map[string]bool

func (s set) MarshalJSON() ([]byte, error) { return json.Marshal(slices.Collect(maps.Keys(s))) }

func (s *set) UnmarshalJSON(doc []byte) error {
	var names []string
	err := json.Unmarshal(doc, &names)
	*s = make(set)
	for _, name := range names {
		(*s)[name] = true
	}
	return err
}

type many struct {
	Embedded
	Tags  set
	Notes map[string]int
	At    time.Time
	Left  string `json:"left,omitempty"`
	Right *int
	Raw   json.RawMessage
}

type Embedded struct{ E int }

func branchOf[S any](t *testing.T, start S, do func(*S)) spread[S] {
	t.Helper()
	raw, err := encode(&start)
	if err != nil {
		t.Fatal(err)
	}
	before, err := decode[S](raw)
	if err != nil {
		t.Fatal(err)
	}
	after, err := decode[S](raw)
	if err != nil {
		t.Fatal(err)
	}
	do(&after)
	c, err := changes(before, after)
	if err != nil {
		t.Fatal(err)
	}
	return spread[S]{before, c}
}

type spread[S any] struct {
	base S
	change
}

// What no branch has touched is not a change, however it is written.
func TestUnchangedIsNoChange(t *testing.T) {
	start := many{
		Tags: set{}, At: time.Now(), Raw: json.RawMessage(`{"b":1, "a":[1.0]}`), Notes: map[string]int{"a": 1},
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		start.Tags[name] = true
	}
	for range 50 {
		if b := branchOf(t, start, func(*many) {}); len(b.Fields) > 0 || b.State != nil {
			t.Fatalf("changed %q: %s", b.Fields, b.State)
		}
		b := branchOf(t, start, func(s *many) { s.Left = "x" })
		if !slices.Equal(b.Fields, []string{"Left"}) {
			t.Fatalf("changed %q", b.Fields)
		}
	}
}

func TestMergeChanges(t *testing.T) {
	start := many{Notes: map[string]int{"a": 1}}
	one := branchOf(t, start, func(s *many) { s.E = 7; s.Notes["b"] = 2 })
	two := branchOf(t, start, func(s *many) { s.Left = "l"; n := 3; s.Right = &n })
	merged, err := mergeChanges(one.base, []change{one.change, two.change})
	if err != nil || merged.E != 7 || merged.Left != "l" || *merged.Right != 3 || merged.Notes["b"] != 2 {
		t.Errorf("%+v, %v", merged, err)
	}
	agrees := branchOf(t, start, func(s *many) { s.E = 7 })
	if _, err := mergeChanges(one.base, []change{one.change, agrees.change}); !errors.Is(err, ErrMerge) {
		t.Errorf("two branches have set E: %v", err)
	}
	cleared := branchOf(t, many{Left: "x"}, func(s *many) { s.Left = "" })
	if merged, err := mergeChanges(cleared.base, []change{cleared.change}); err != nil || merged.Left != "" {
		t.Errorf("%+v, %v", merged, err)
	}
}

// The keys of a map are its fields, also where there was none.
func TestMergeMaps(t *testing.T) {
	type state map[string]int
	for name, start := range map[string]state{"nil": nil, "empty": {}, "some": {"gone": 1, "kept": 2}} {
		sets := func(s *state) { add(s, "a", 1); delete(*s, "gone") }
		a := branchOf(t, start, sets)
		b := branchOf(t, start, func(s *state) { add(s, "b", 2) })
		merged, err := mergeChanges(a.base, []change{a.change, b.change})
		if err != nil || merged["a"] != 1 || merged["b"] != 2 || merged["gone"] != 0 ||
			merged["kept"] != start["kept"] {
			t.Errorf("%s: %v, %v", name, merged, err)
		}
		base := branchOf(t, start, sets).base
		if _, err := mergeChanges(base, []change{a.change, a.change}); !errors.Is(err, ErrMerge) {
			t.Errorf("%s: two branches have set a: %v", name, err)
		}
	}
}

func add[M ~map[string]int](m *M, name string, n int) {
	if *m == nil {
		*m = make(M)
	}
	(*m)[name] = n
}

// A state without fields is one.
func TestMergeWhole(t *testing.T) {
	up := branchOf(t, 1, func(n *int) { *n++ })
	same := branchOf(t, 1, func(*int) {})
	if merged, err := mergeChanges(1, []change{same.change, up.change}); err != nil || merged != 2 {
		t.Errorf("%d, %v", merged, err)
	}
	if _, err := mergeChanges(1, []change{up.change, up.change}); !errors.Is(err, ErrMerge) {
		t.Errorf("both have counted: %v", err)
	}
}

// A counting store adds up what runs are saved with.
type weighing struct {
	snapshot.Memory
	bytes int
}

func (w *weighing) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	w.weigh(r)
	return w.Memory.Begin(ctx, r)
}

func (w *weighing) Save(ctx context.Context, r snapshot.Run) error {
	w.weigh(r)
	return w.Memory.Save(ctx, r)
}

func (w *weighing) weigh(r snapshot.Run) {
	w.bytes += len(r.Payload)
	for _, doc := range r.Parts {
		w.bytes += len(doc)
	}
}

// Branches are saved by their changes: the state and the input are written once, however many branches there are.
func TestFanOutCostsWhatItChanges(t *testing.T) {
	const branches, size = 40, 100_000
	type wide map[string]string
	d := Definition[wide]{Name: "fan", Intents: make(Intents[wide]), Iterate: true}
	var names []string
	for i := range branches {
		name := "branch" + string(rune('A'+i))
		names = append(names, name)
		d.Intents[name] = Intent[wide]{Next: End, Run: func(_ context.Context, t *Turn[wide]) error {
			t.State[name] = "done"
			return nil
		}}
	}
	d.Begin = func(_ context.Context, t *Turn[wide]) error {
		t.State = wide{"big": strings.Repeat("x", size)}
		return nil
	}
	d.Route = func(context.Context, *Turn[wide]) (Next, error) { return To(names...), nil }
	store := new(weighing)
	bot, err := New(d, new(checkpoint.Memory), &Options{Snapshots: store, Limits: Limits{FanOut: branches}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
	if err != nil || len(res.State) != branches+1 {
		t.Fatal(err)
	}
	if most := size + 1000*branches; store.bytes > most {
		t.Errorf("%d bytes were written, more than %d", store.bytes, most)
	}
}
