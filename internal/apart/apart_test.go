package apart_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/apart"
)

var errBad = errors.New("bad")

// divided returns what is unknown of n numbers of which some are bad, which are done, and how many calls that took.
func divided(n, pieces int, bad ...int) (unknown, done []int, calls int, err error) {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	unknown, err = apart.Do(all, func(some []int) error {
		calls++
		for _, i := range some {
			if slices.Contains(bad, i) {
				return fmt.Errorf("%w: %d", errBad, i)
			}
		}
		done = append(done, some...)
		return nil
	}, func(err error, _ int) int {
		if !errors.Is(err, errBad) {
			return 0
		}
		return pieces
	})
	slices.Sort(done)
	return unknown, done, calls, err
}

func TestDo(t *testing.T) {
	for _, c := range []struct {
		n, pieces int
		bad       []int
		most      int // calls
	}{
		{0, 2, nil, 1},
		{1, 2, []int{0}, 1},
		{1000, 2, nil, 1},
		{1000, 2, []int{0}, 21},
		{1000, 2, []int{500, 999}, 41},
		{12, 2, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 23},
		{12, 12, []int{3, 7}, 13},
		{12, 100, []int{3}, 13},
		{12, 0, []int{3}, 1},
	} {
		unknown, done, calls, err := divided(c.n, c.pieces, c.bad...)
		if (err != nil) != (len(c.bad) > 0) || calls > c.most {
			t.Errorf("%+v: error %v after %d calls", c, err, calls)
		}
		want := c.bad
		if c.pieces == 0 {
			want = append(slices.Clone(done), unknown...) // nothing is divided
		}
		if !slices.Equal(unknown, want) || len(done)+len(unknown) != c.n {
			t.Errorf("%+v: unknown %v, done %v", c, unknown, done)
		}
	}
}
