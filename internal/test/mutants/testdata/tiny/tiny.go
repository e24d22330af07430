// Package tiny has mutants whose fate is known.
package tiny

import (
	"errors"
	"strconv"
	"time"
)

var errNegative = errors.New("negative")

// Clamp returns n, or limit if n is more.
func Clamp(n, limit int) int {
	if n > limit { // >= is the same
		return limit
	}
	return n
}

// Half returns half of n, which is not negative.
func Half(n int) (int, error) {
	if n < 0 {
		return 0, errNegative
	}
	return n / 2, nil
}

// Read reads a number. Its test does not look at what is wrong.
func Read(text string) (int, error) {
	return strconv.Atoi(text)
}

// Unused has no test.
func Unused(a, b bool) bool {
	return a && b
}

// Down counts to zero. Without its statement it does not end.
func Down(n int) int {
	for n > 0 {
		n--
	}
	return n
}

type flag bool

// Level returns a type that is not bool.
func Level(n int) flag {
	return n > 1 && n < 4
}

// Wait is how long to wait.
var Wait = 2 * time.Second
