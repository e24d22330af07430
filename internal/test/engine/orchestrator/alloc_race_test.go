//go:build race

package orchestrator_test

const raceDetector = true
