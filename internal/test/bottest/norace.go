//go:build !race

package bottest

// RaceDetector reports whether the race detector runs.
const RaceDetector = false
