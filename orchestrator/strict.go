//go:build !race

package orchestrator

// strict is true in a program that is built with the race detector.
const strict = false
