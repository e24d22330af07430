package workflowmodel

import (
	"os"
	"testing"
)

// Bodies. A long one has each verb, and a step that acts on what the wait has seen.
var (
	long     = []verb{step, wait, step, sleep}
	short    = []verb{step, wait, step}
	waits    = []verb{wait, wait, step}
	around   = []verb{wait, step, wait}
	oneStep  = []verb{step}
	stepWait = []verb{step, wait}
)

// holds are the scenarios of the protocol. No process, no client and no fault may break it.
var holds = []Scenario{
	{name: "no fault", runs: 1, body: long, signals: 1},
	{name: "an answer is lost", runs: 1, body: long, signals: 1, crash: 1, suspect: 1, lost: 1},
	{name: "a request is delayed", runs: 1, body: long, signals: 1, suspect: 1, delay: 1},
	{
		name: "a process owns what it starts", runs: 1, front: true, body: short, signals: 1,
		crash: 1, suspect: 1, lost: 1,
	},
	{
		name: "a start is delayed", runs: 1, front: true, body: stepWait, signals: 1,
		suspect: 1, delay: 1, lost: 1,
	},
	{name: "the server crashes", runs: 1, body: short, signals: 1, crash: 1, suspect: 1, outage: 2},
	{
		name: "the server crashes, and a start is lost", runs: 1, front: true, body: short, signals: 1,
		suspect: 1, outage: 1, lost: 1,
	},
	{name: "two waits, two signals", runs: 1, body: waits, signals: 2, suspect: 1, lost: 1},
	{
		name: "cancel, pause and resume", runs: 1, body: long, signals: 1,
		suspect: 1, cancels: 1, pauses: 1, resumes: 1,
	},
	{name: "a process shuts down", runs: 1, body: short, signals: 1, handedBack: 1, suspect: 1, lost: 1},
	{name: "a child beside a cancel", runs: 2, body: oneStep, family: true, crash: 1, suspect: 1},
	{name: "two runs", runs: 2, body: oneStep, crash: 1, suspect: 1, lost: 1},
	{name: "two runs, and the server crashes", runs: 2, body: oneStep, suspect: 1, outage: 1},
	{name: "a limit of one", runs: 2, limit: 1, body: oneStep, crash: 1, suspect: 1, lost: 1},
	{name: "a limit of one, and the server crashes", runs: 2, limit: 1, body: oneStep, suspect: 1, outage: 1},
	{name: "a limit of one, and runs that wait", runs: 2, limit: 1, body: []verb{wait}, signals: 1, suspect: 1},
}

// soaked are scenarios that take longer.
var soaked = []Scenario{
	{
		name: "all of the faults", runs: 1, body: short, signals: 1,
		crash: 1, suspect: 1, lost: 1, delay: 1, outage: 1,
	},
	{name: "two answers are lost", runs: 1, body: long, signals: 1, crash: 1, suspect: 1, lost: 2},
	{name: "two suspicions", runs: 1, body: long, signals: 1, crash: 2, suspect: 2, outage: 1},
	{
		name: "two waits, and the server crashes", runs: 1, body: around, signals: 2,
		crash: 1, suspect: 1, outage: 1, lost: 1,
	},
	{
		name: "pauses, and the server crashes", runs: 1, body: short, signals: 1,
		suspect: 1, cancels: 1, pauses: 2, resumes: 2, outage: 1, lost: 1,
	},
	{
		name: "pauses, and a request is delayed", runs: 1, body: short, signals: 1,
		suspect: 1, cancels: 1, pauses: 1, resumes: 1, delay: 1, lost: 1,
	},
	{
		name: "a limit of one, all of the faults", runs: 2, limit: 1, body: oneStep,
		crash: 1, suspect: 1, outage: 1, lost: 1, delay: 1,
	},
	{name: "two runs that wait", runs: 2, body: []verb{wait}, signals: 1, crash: 1, suspect: 1, lost: 1},
	{name: "two runs, all of the faults", runs: 2, body: oneStep, crash: 1, suspect: 1, outage: 1, lost: 1},
	{name: "two starts", runs: 2, front: true, body: oneStep, crash: 1, suspect: 1, delay: 1, lost: 1},
	{
		name: "a process shuts down, and the server crashes", runs: 1, body: short, signals: 1,
		handedBack: 1, crash: 1, suspect: 1, outage: 1, lost: 1,
	},
}

// TestModelHolds explores all interleavings within the bounds of each scenario. With HOLDFAST_SOAK=1 there are more,
// and larger ones.
func TestModelHolds(t *testing.T) {
	all := holds
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		all = append(all[:len(all):len(all)], soaked...)
	}
	for _, w := range all {
		t.Run(w.name, func(t *testing.T) {
			f := w.explore(20_000_000)
			t.Logf("%d states", f.states)
			if f.bad != "" {
				t.Error(&f)
			} else if !f.whole {
				t.Error("too many states")
			}
		})
	}
}
