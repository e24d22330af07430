package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// randomSeedEnv names the variable with the seed of one conversation.
const randomSeedEnv = "HOLDFAST_RANDOM_SEED"

// Models reply at random: calls of any tool with any arguments and any ids, texts of any length, halves of replies,
// nothing, and errors. People say, answer, submit, stop, go on, drop, branch and update at random. A model is only ever
// asked with what a model API takes, what was said is valid after each turn, and no session is stuck in the end.
//
// The seed makes the conversation. With HOLDFAST_RANDOM_SEED=17 only that of seed 17 is tried.
func TestAlwaysValid(t *testing.T) {
	first, seeds := uint64(1), uint64(400)
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		seeds = 10_000
	}
	if fixed := os.Getenv(randomSeedEnv); fixed != "" {
		var err error
		if first, err = strconv.ParseUint(fixed, 10, 64); err != nil {
			t.Fatal(err)
		}
		seeds = 1
	}
	done := make(map[string]int)
	for seed := first; seed < first+seeds && !t.Failed(); seed++ {
		newRandom(t, seed).play(done)
	}
	t.Log(done)
}

// A random is a conversation.
type random struct {
	t    *testing.T
	seed uint64
	st   agent.Stores
	a    *agent.Agent[none]
	turn string // the session whose turn may be stopped

	window bool // the model does not see all

	mu   sync.Mutex // protects following fields
	rng  *rand.Rand
	calm bool // models answer in plain words
}

func (r *random) draw(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rng.IntN(n)
}

func one[T any](r *random, of ...T) T { return of[r.draw(len(of))] }

func newRandom(t *testing.T, seed uint64) *random {
	t.Helper()
	r := &random{t: t, seed: seed, st: agent.InMemory(), rng: rand.New(rand.NewPCG(seed, 2))}
	d := new(shop).Definition()
	d.Model, d.MaxSteps, d.Window = r.model(), 1+r.draw(4), one(r, 0, 0, 2, 5, 40)
	r.window = d.Window > 0
	childs := d
	childs.Name = "child"
	child := r.agent(childs)
	d.Tools = append(d.Tools, agent.ChildTool(child, "works"))
	if r.draw(2) == 0 {
		d.Finish = agent.Output[refundArgs]("finish", "ends the turn")
	}
	if r.draw(3) == 0 {
		d.MaxCost = 0.05
	}
	r.a = r.agent(d)
	return r
}

func (r *random) agent(d agent.Definition[none]) *agent.Agent[none] {
	a := newAgent(r.t, d, r.st)
	a.SetTail(one(r, 0, 400, 16<<10))
	return a
}

// model returns a model that says anything.
func (r *random) model() agent.ModelFunc {
	return func(_ context.Context, req agent.Request, token func(string)) (agent.Reply, error) {
		if err := agent.Valid(req.Said, nil); err != nil {
			r.t.Errorf("seed %d: %v: %.2000s", r.seed, err, print(req.Said))
		}
		if r.calm {
			return says("fine")
		}
		token(one(r, "", "let me \x00see"))
		if r.draw(16) == 0 {
			_ = r.a.Stop(context.Background(), r.turn, "", "enough")
		}
		if r.draw(16) == 0 {
			return agent.Reply{}, errModel
		}
		text := one(r, "x", "x", "", "\x00", "\xff\x00é", strings.Repeat("long ", 5000), strings.Repeat("é", 300_000))
		var calls []message.Block
		for range one(r, 0, 0, 1, 1, 2, 3) {
			id := one(r, "", "c1", "c2", "a b", "c1\x00", strings.Repeat("i", 100))
			tool := one(r, "lookup", "camera", "camera", "refund", "refund", "child", "finish", "nosuch", "", "\x00")
			calls = append(calls, call(id, tool, r.args(tool)))
		}
		reply, err := says(text, calls...)
		reply.Cut = r.draw(12) == 0
		if r.draw(20) == 0 {
			reply.Message.Role = one(r, "", "user", "tool")
		}
		return reply, err
	}
}

// args returns arguments. Most of them fit the tool.
func (r *random) args(tool string) string {
	switch {
	case r.draw(4) == 0:
		return one(r, `{"order":"\u0000"}`, ``, `null`, `[1]`, `not json`, "\xff",
			`{"order":"`+strings.Repeat("x", 20_000)+`"}`)
	case tool == "child":
		return `{"input":"go"}`
	case tool == "camera":
		return `{}`
	}
	return `{"order":"A"}`
}

// play does sixteen things in up to three sessions, and then brings each of them to its end.
func (r *random) play(done map[string]int) {
	ctx := r.t.Context()
	sessions := []string{"s"}
	for n := range 16 {
		r.turn = one(r, sessions...)
		what := one(r, "say", "say", "say", "answer", "answer", "answer", "answer", "submit", "continue", "drop",
			"update", "branch")
		err := r.act(ctx, what, n)
		if what == "branch" && err == nil {
			if to := fmt.Sprint("s", n); len(sessions) < 3 {
				sessions = append(sessions, to)
			}
		}
		if err == nil {
			done[what]++
		}
		r.check(what, err)
	}
	r.mu.Lock()
	r.calm = true
	r.mu.Unlock()
	for _, s := range sessions {
		_, err := r.a.Drop(ctx, s)
		if errors.Is(err, agent.ErrUnknown) {
			continue
		}
		r.check("drop "+s+" in the end", err)
		o, err := r.a.Say(ctx, s, agent.Text("so?"), nil)
		if err != nil || o.Status != agent.Completed && o.Reason != agent.Budget {
			r.t.Errorf("seed %d: %s is stuck: %+v, %v", r.seed, s, o, err)
			continue
		}
		r.told(s)
	}
}

// act does something in the session.
func (r *random) act(ctx context.Context, what string, n int) (err error) {
	switch what {
	case "say":
		_, err = r.a.Say(ctx, r.turn, agent.Text(one(r, "go", "\x00", "", strings.Repeat("go ", 6000))), nil)
	case "continue":
		_, err = r.a.Continue(ctx, r.turn, nil)
	case "drop":
		_, err = r.a.Drop(ctx, r.turn)
	case "update":
		_, err = r.a.Update(ctx, r.turn, 0, func(s *agent.State[none]) error { s.User = "Ann"; return nil })
	case "branch":
		_, version, getErr := r.a.Get(ctx, r.turn)
		if err = getErr; err == nil {
			err = r.a.Branch(ctx, r.turn, 1+r.draw(version), fmt.Sprint("s", n))
		}
	default:
		s, _, getErr := r.a.Get(ctx, r.turn)
		waits := []agent.Pending{{Call: agent.Call{ID: "nosuch"}}}
		for _, o := range s.Open {
			waits = append(append(waits, o.Waits...), o.Waits...)
		}
		w := one(r, waits...)
		answers := map[agent.Kind][]agent.Answer{
			agent.Client:   {agent.Done("x\x00"), agent.CouldNot("\xff"), agent.Approve("Ann")},
			agent.Approval: {agent.Approve("Ann"), agent.Refuse("Bob", strings.Repeat("no ", 10_000)), agent.Done("x")},
			"":             {agent.Done("x")},
		}
		answer := r.a.Answer
		if what == "submit" {
			answer = r.a.Submit
		}
		if err = getErr; err == nil {
			_, err = answer(ctx, r.turn, w.Call.ID, one(r, answers[w.Kind]...))
		}
	}
	return err
}

// told fails the test if what a session sees is not valid. Beyond a window an id may have come before.
func (r *random) told(session string) {
	s, _, err := r.a.Get(r.t.Context(), session)
	if err != nil {
		return
	}
	var all []message.Message
	for m, err := range r.a.Messages(r.t.Context(), session) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, m)
	}
	waiting := make(map[string]bool)
	for _, o := range s.Open {
		waiting[o.Call.ID] = true
	}
	if err := agent.Valid(all, waiting); err != nil && (!r.window || !strings.Contains(err.Error(), "another call")) {
		r.t.Errorf("seed %d: %v: %.2000s", r.seed, err, print(all))
	}
}

// check fails the test if an error is none that a model or an input has deserved, or if what was said is not valid.
func (r *random) check(what string, err error) {
	var in *orchestrator.InputError
	switch {
	case err == nil, errors.As(err, &in), errors.Is(err, agent.ErrUnknown), errors.Is(err, agent.ErrExists):
	case strings.Contains(err.Error(), "agent: the model"):
	default:
		r.t.Errorf("seed %d: %s: %v", r.seed, what, err)
	}
	r.told(r.turn)
	if r.t.Failed() {
		s, _, _ := r.a.Get(r.t.Context(), r.turn)
		text, _ := json.Marshal(s)
		r.t.Fatalf("seed %d: after %s the state of %s is %.3000s", r.seed, what, r.turn, text)
	}
}
