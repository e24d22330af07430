package agent_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/agenttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
)

// What the sessions of agents do on any stores, in memory.
func TestSessions(t *testing.T) {
	agenttest.Run(t, func(*testing.T) agent.Stores { return agent.InMemory() })
}

// The tests of this package share the words of the suite.
type (
	none       = agenttest.None
	refundArgs = agenttest.Order
	shop       = agenttest.Shop
	seen       = agenttest.Seen
	plan       = agenttest.Plan
)

var (
	quiet    = agenttest.Quiet
	errModel = agenttest.ErrModel
)

func says(text string, calls ...message.Block) (agent.Reply, error) {
	return agenttest.Says(text, calls...)
}

func call(id, name, args string) message.Block { return agenttest.Call(id, name, args) }

func last(r agent.Request) message.Message { return agenttest.Last(r) }

func answers(calls ...message.Block) agent.ModelFunc { return agenttest.Answers(calls...) }

func print(all []message.Message) string { return agenttest.Print(all) }

func lookup(f func(context.Context, refundArgs) (string, error)) agent.Tool {
	return agenttest.Lookup(f)
}

func pay(paid *atomic.Int32, class ledger.Class) agent.Effect[refundArgs, string] {
	return agenttest.Pay(paid, class)
}

func family(t *testing.T, st agent.Stores, paid *atomic.Int32) (boss, clerk, payer *agent.Agent[none]) {
	t.Helper()
	return agenttest.Family(t, st, paid)
}

func sessionsOf(t *testing.T, st agent.Stores, name string) []string {
	t.Helper()
	return agenttest.Sessions(t, st, name)
}

func newAgent[C any](t *testing.T, d agent.Definition[C], st agent.Stores) *agent.Agent[C] {
	t.Helper()
	return agenttest.New(t, d, st)
}

func settled[C any](t *testing.T, o *agent.Outcome[C], err error) *agent.Outcome[C] {
	t.Helper()
	return agenttest.Settled(t, o, err)
}

func say[C any](t *testing.T, a *agent.Agent[C], session, text string) *agent.Outcome[C] {
	t.Helper()
	return agenttest.Say(t, a, session, text)
}

func get[C any](t *testing.T, a *agent.Agent[C], session string) (agent.State[C], int) {
	t.Helper()
	return agenttest.Get(t, a, session)
}

func by[C any](s *agent.State[C], call, who string) bool { return agenttest.By(s, call, who) }

func told[C any](t *testing.T, a *agent.Agent[C], session string) string {
	t.Helper()
	return agenttest.Told(t, a, session)
}
