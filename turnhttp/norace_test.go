//go:build !race

package turnhttp_test

const raced = false
