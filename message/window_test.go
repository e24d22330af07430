package message_test

import (
	"math"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/message"
)

// history returns n messages, numbered from 1. Each message costs its number.
func history(n int) []message.Message {
	h := make([]message.Message, n, n+4)
	for i := range h {
		h[i].Turn = i + 1
	}
	return h
}

func turns(h []message.Message) (turns []int) {
	for _, m := range h {
		turns = append(turns, m.Turn)
	}
	return turns
}

func cost(m message.Message) int { return m.Turn }

func TestLast(t *testing.T) {
	for _, c := range []struct {
		of, n int
		want  []int
	}{
		{0, 2, nil},
		{3, math.MinInt, nil},
		{3, 0, nil},
		{3, 1, []int{3}},
		{3, 3, []int{1, 2, 3}},
		{3, math.MaxInt, []int{1, 2, 3}},
	} {
		if got := turns(message.Last(history(c.of), c.n)); !slices.Equal(got, c.want) {
			t.Errorf("Last %d of %d: %v, want %v", c.n, c.of, got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		name       string
		of, budget int
		cost       func(message.Message) int
		want       []int
	}{
		{"nothing", 0, 5, cost, nil},
		{"negative budget", 3, -1, func(message.Message) int { return 0 }, nil},
		{"no budget", 3, 0, cost, nil},
		{"no budget, no cost", 3, 0, func(message.Message) int { return 0 }, []int{1, 2, 3}},
		{"newest too much", 3, 2, cost, nil},
		{"exactly", 3, 5, cost, []int{2, 3}},
		{"no gaps", 4, 8, cost, []int{3, 4}},
		{"all", 3, math.MaxInt, cost, []int{1, 2, 3}},
		{"no overflow", 3, math.MaxInt, func(message.Message) int { return math.MaxInt }, []int{3}},
		{"negative cost", 3, 0, func(m message.Message) int { return 5 - 2*m.Turn }, []int{3}},
		{"lowest cost", 3, math.MaxInt, func(message.Message) int { return math.MinInt }, []int{1, 2, 3}},
	} {
		if got := turns(message.Fit(history(c.of), c.budget, c.cost)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Tokenizers cost time, so Fit asks for no cost that it does not need.
func TestFitAsksNoFurther(t *testing.T) {
	var asked []int
	message.Fit(history(5), 6, func(m message.Message) int {
		asked = append(asked, m.Turn)
		return m.Turn
	})
	if !slices.Equal(asked, []int{5, 4}) {
		t.Errorf("asked for %v", asked)
	}
}

func TestNilHistory(t *testing.T) {
	if message.Last(nil, 3) != nil || message.Fit(nil, 3, nil) != nil {
		t.Error("a window over nil is not nil")
	}
}

// A caller may append the new question to the window. That must not change the history behind the window.
func TestAppendingToAWindowCopies(t *testing.T) {
	h := history(3)
	for _, window := range [][]message.Message{message.Last(h, 2), message.Last(h, 0), message.Fit(h, 3, cost)} {
		_ = append(window, message.User("next"))
		if spare := h[:4][3]; spare.Role != "" {
			t.Errorf("the history's array holds %+v", spare)
		}
	}
}
