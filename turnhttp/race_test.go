//go:build race

package turnhttp_test

// raced says that the race detector is on, which needs memory of its own.
const raced = true
