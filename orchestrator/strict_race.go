//go:build race

package orchestrator

// strict makes a flight that takes a way which is not in the table panic. A program that looks for races looks for this
// mistake too.
const strict = true
