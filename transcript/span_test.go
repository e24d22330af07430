package transcript_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/transcript"
)

func ExampleJoin() {
	var said []transcript.Span
	for _, s := range []transcript.Span{{From: 1, Through: 2}, {From: 3, Through: 3}, {}, {From: 7, Through: 9}} {
		said = transcript.Join(said, s)
	}
	fmt.Println(said, transcript.Count(said), transcript.First(said, 4))
	// Output: [{1 3} {7 9}] 6 [{1 3} {7 7}]
}

// Neither function changes the spans that it is given: an older state may have them.
func TestSpansAreShared(t *testing.T) {
	all := make([]transcript.Span, 2, 3)
	all[0], all[1] = transcript.Span{From: 1, Through: 2}, transcript.Span{From: 5, Through: 6}
	before := slices.Clone(all)
	transcript.Join(all, transcript.Span{From: 7, Through: 7})
	transcript.Join(all, transcript.Span{From: 9, Through: 9})
	transcript.First(all, 3)
	if !slices.Equal(all, before) || all[:3][2] != (transcript.Span{}) {
		t.Errorf("%v became %v", before, all[:3])
	}
}

func TestCount(t *testing.T) {
	for want, all := range map[int64][]transcript.Span{
		0: {{}, {}}, 1: {{From: 7, Through: 7}}, 5: {{}, {From: 1, Through: 2}, {}, {From: 1, Through: 3}},
	} {
		if got := transcript.Count(all); got != want {
			t.Errorf("%v has %d messages, want %d", all, got, want)
		}
	}
}

func TestFirst(t *testing.T) {
	all := []transcript.Span{{From: 4, Through: 5}, {}, {From: 1, Through: 3}}
	for n, want := range map[int64]string{
		-1: "[]", 0: "[]", 1: "[{4 4}]", 2: "[{4 5}]", 3: "[{4 5} {1 1}]", 5: "[{4 5} {1 3}]", 9: "[{4 5} {1 3}]",
	} {
		if got := fmt.Sprint(transcript.First(all, n)); got != want {
			t.Errorf("first %d: %s, want %s", n, got, want)
		}
	}
}

func TestUnion(t *testing.T) {
	for _, c := range []struct {
		all  [][]transcript.Span
		want string
	}{
		{nil, "[]"},
		{[][]transcript.Span{{{}}, nil, {{From: 4, Through: 5}}}, "[{4 5}]"},
		{[][]transcript.Span{{{From: 7, Through: 9}, {From: 1, Through: 2}}, {{From: 3, Through: 3}}}, "[{1 3} {7 9}]"},
		{[][]transcript.Span{{{From: 1, Through: 9}}, {{From: 2, Through: 3}, {From: 9, Through: 12}}}, "[{1 12}]"},
	} {
		if got := fmt.Sprint(transcript.Union(c.all...)); got != c.want {
			t.Errorf("%v: %s, want %s", c.all, got, c.want)
		}
	}
}
