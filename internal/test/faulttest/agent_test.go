package faulttest

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/agent"
)

func TestMemoryAgent(t *testing.T) {
	AgentHistories(t, func(*testing.T) [2]agent.Stores {
		st := agent.InMemory()
		return [2]agent.Stores{st, st}
	}, 10*Histories())
}

// The specification of a session convicts what must not be.
func TestAgentHistoriesConvict(t *testing.T) {
	type history = []porcupine.Operation
	h := func(calls ...any) (ops history) {
		for i := 0; i < len(calls); i += 2 {
			ops = append(ops, porcupine.Operation{
				Input: calls[i], Output: calls[i+1], Call: int64(2 * i), Return: int64(2*i + 1),
			})
		}
		return ops
	}
	say, drop, goOn := wish{op: "say"}, wish{op: "drop"}, wish{op: "continue"}
	a, b, submit := wish{op: "answer", call: "a"}, wish{op: "answer", call: "b"}, wish{op: "submit", call: "a"}
	asks := outcome{version: 1, status: agent.Paused, replies: 1, waits: " a b"}
	one := outcome{version: 2, status: agent.Paused, waits: " b"}
	lost, dropped := outcome{err: errUnknown}, outcome{version: 2, status: agent.Completed}
	last := outcome{version: 3, status: agent.Completed, replies: 1}
	for name, c := range map[string]struct {
		ops   history
		legal bool
	}{
		"a whole one":       {h(say, asks, a, one, b, last), true},
		"a late answer":     {h(say, asks, a, one, a, outcome{err: agent.ErrAnswered}), true},
		"a new life":        {h(say, asks, a, one, wish{op: "delete"}, outcome{}, a, outcome{err: agent.ErrNoCall}), true},
		"two answers":       {h(say, asks, a, one, a, outcome{version: 3, status: agent.Paused, waits: " b"}), false},
		"an answer is lost": {h(say, asks, a, outcome{version: 2, status: agent.Paused, waits: " a b"}), false},
		"a gap":             {h(say, asks, drop, outcome{version: 3, status: agent.Completed}), false},
		"no gap":            {h(say, asks, drop, outcome{version: 2, status: agent.Completed}), true},
		"a model too many":  {h(say, asks, submit, outcome{version: 2, status: agent.Paused, waits: " b", replies: 1}), false},
		"goes on too early": {h(say, asks, goOn, outcome{version: 2, status: agent.Completed, replies: 1}), false},
		"says too early":    {h(say, asks, say, outcome{version: 2, status: agent.Paused, replies: 1, waits: " c d"}), false},
		"an id again": {h(say, asks, a, one, drop, outcome{version: 3, status: agent.Completed}, say,
			outcome{version: 4, status: agent.Paused, replies: 1, waits: " a d"}), false},
		"a lost one settles":     {h(say, lost, say, outcome{err: agent.ErrPending}, drop, dropped), true},
		"a lost one is deleted":  {h(say, lost, say, asks), true},
		"a lost one asks others": {h(say, asks, a, lost, b, last), true},
		"a lost one once":        {h(say, lost, drop, outcome{version: 3, status: agent.Completed}), false},
		"a refused one settles":  {h(say, outcome{err: errDeleted}, drop, dropped), false},
	} {
		if got := porcupine.CheckOperations(talkSpec, c.ops); got != c.legal {
			t.Errorf("%s: legal is %t", name, got)
		}
	}
}
