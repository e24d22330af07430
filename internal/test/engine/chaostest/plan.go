package chaostest

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A plan is the part of a history that a seed decides before the first step. Each history has few kinds of trouble, and
// much of each: if everything failed at once, few turns would settle, and few could be lost.
type plan struct {
	sessions, processes int
	calls, atOnce       int

	keep     int // turns of a session
	attempts int
	delivers bool // the bot has Deliver
	begins   bool // the bot has Begin
	timeout  bool // turns have a timeout
	volatile bool // there is no snapshot store
	policies []orchestrator.OnInterrupted
	// joined, for each process: it settles a turn and deletes the run at once, if the stores can.
	joined []bool

	fails int // per thousand functions of the bot

	// Per thousand messages.
	lost, astray, deaf, slow, twice int

	// Per thousand steps.
	late, tick, stop, kill, shutdown, takeover, leave int
}

func newPlan(rng *rand.Rand) plan {
	some := func(most int) int { // nothing, a little or much
		return []int{0, most / 5, most}[rng.IntN(3)]
	}
	p := plan{
		sessions: 1 + rng.IntN(4)/3, processes: 2 + rng.IntN(2),
		calls: 8 + rng.IntN(20), atOnce: 2 + rng.IntN(3),
		keep: []int{1, 1, 2, checkpoint.KeepAll}[rng.IntN(4)], attempts: 2 + rng.IntN(4),
		delivers: rng.IntN(4) > 0, begins: rng.IntN(2) == 0, timeout: rng.IntN(6) == 0, volatile: rng.IntN(12) == 0,
		fails: some(150),
		lost:  some(40), astray: some(60), deaf: some(60), slow: some(80), twice: some(100),
		late: 3 + some(30), tick: some(60), leave: some(15),
		stop: some(20), kill: some(10), shutdown: some(5), takeover: some(15),
	}
	for range p.processes {
		policy := []orchestrator.OnInterrupted{
			orchestrator.ResumeFirst, orchestrator.ResumeFirst, orchestrator.Reject, orchestrator.AbandonFirst,
		}[rng.IntN(4)]
		p.policies = append(p.policies, policy)
	}
	all := rng.IntN(2) == 0
	for range p.processes {
		p.joined = append(p.joined, all || rng.IntN(2) == 0)
	}
	return p
}

// calm returns the plan without trouble.
func (p plan) calm() plan {
	p.fails, p.lost, p.astray, p.deaf, p.slow, p.twice = 0, 0, 0, 0, 0, 0
	p.late, p.tick, p.stop, p.kill, p.shutdown, p.takeover, p.leave = 0, 0, 0, 0, 0, 0, 0
	p.calls = 0
	return p
}

// options returns the options of the process with a number.
func (p plan) options(number int, quantum time.Duration) orchestrator.Options {
	o := orchestrator.Options{
		Locker: everybody{}, KeepSnapshots: p.keep, OnInterrupted: p.policies[number%len(p.policies)], Logger: quiet,
		Limits: orchestrator.Limits{
			Attempts: p.attempts,
			LeaseTTL: leaseTTL * quantum, LockWait: lockWait * quantum, SettleTimeout: settleTimeout * quantum,
		},
	}
	if p.timeout {
		o.Limits.TurnTimeout = turnTimeout * quantum
	}
	return o
}
