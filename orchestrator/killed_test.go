package orchestrator_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// killedSeedEnv names the variable with the seed of one bot to kill.
const killedSeedEnv = "HOLDFAST_KILLED_SEED"

// A bot made of random choices serves two inputs in processes that live, and then again and again in processes that die
// at any step of the second input. A user must see no difference: the same turns, states, decisions and errors, each
// effect once, each reply in its order. The turn log of each turn is whole, and no run is left.
//
// Two things may differ. After a kill the usage may be larger, never smaller. The function that was under way runs
// again, and so does a branch that no save had; nothing else does.
//
// The seed makes the bot and the kills. With HOLDFAST_KILLED_SEED=17 only those of seed 17 are tried.
func TestKilledAnywhere(t *testing.T) {
	first, seeds, rounds := uint64(1), uint64(60), 4
	if soak() {
		seeds, rounds = 300, 10
	}
	if fixed := os.Getenv(killedSeedEnv); fixed != "" {
		var err error
		if first, err = strconv.ParseUint(fixed, 10, 64); err != nil {
			t.Fatal(err)
		}
		seeds, rounds = 1, 10
	}
	trials := 0
	for seed := first; seed < first+seeds && !t.Failed(); seed++ {
		trials += killAnywhere(t, newPlan(seed), rounds)
	}
	t.Logf("%d bots, %d trials", seeds, trials)
}

// killAnywhere compares a bot that lives with the same bot that dies, until they differ.
func killAnywhere(t *testing.T, p *plan, rounds int) (trials int) {
	lived := p.play(t, nil)
	if !lived.judge(t, p, nil, lived.faults) {
		return 1
	}
	for _, kills := range p.kills(lived.steps, rounds) {
		trials++
		died := p.play(t, kills)
		if !died.judge(t, p, kills, append(died.faults, died.differs(lived)...)) {
			break
		}
	}
	return trials
}

// kills makes two lists of kills each round: one kill, and three in a row. A process that goes on has fewer steps.
func (p *plan) kills(steps, rounds int) (all [][]kill) {
	r := rand.New(rand.NewPCG(p.seed, 1))
	some := func(steps int) kill { return kill{1 + r.IntN(steps), r.IntN(2) == 0} }
	for range rounds {
		all = append(all, []kill{some(steps)}, []kill{some(steps), some(steps/2 + 1), some(steps/2 + 1)})
	}
	return all
}

// play lets processes serve the inputs and die, and returns the outcome.
func (p *plan) play(t *testing.T, kills []kill) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		l := newLives(t, p)
		l.serve(kills)
		o = l.outcome()
	})
	return o
}

// An outcome is what users see in the end, and what only the test knows.
type outcome struct {
	failed []string
	seen   []string // turns, effects and deliveries
	usage  []usage

	faults  []string
	steps   int
	history []string
}

// A usage is that of a turn or of a step.
type usage struct {
	of   string
	used int
	// least counts each function once, in the last process that ran it.
	least int
}

// judge reports wrongs, with what is needed to play them again.
func (o outcome) judge(t *testing.T, p *plan, kills []kill, wrongs []string) (right bool) {
	t.Helper()
	if len(wrongs) > 0 {
		t.Errorf("seed %d, kills %+v:\n%s\nthe processes:\n%s\nplay it again with %s=%d", p.seed, kills,
			strings.Join(wrongs, "\n"), strings.Join(o.history, "\n"), killedSeedEnv, p.seed)
	}
	return len(wrongs) == 0
}

// differs says how the outcome after kills differs from that of processes that lived.
func (o outcome) differs(lived outcome) (wrongs []string) {
	wrongs = append(differences(o.failed, lived.failed), differences(o.seen, lived.seen)...)
	if len(wrongs) > 0 {
		return wrongs
	}
	for i, want := range lived.usage {
		if got := o.usage[i]; got.used < want.least {
			wrongs = append(wrongs, fmt.Sprintf("%s used %d, want %d at least", got.of, got.used, want.least))
		}
	}
	return wrongs
}

// differences returns the first difference of two lists.
func differences(got, want []string) []string {
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return []string{fmt.Sprintf("got  %s\nwant %s", g, w)}
		}
	}
	return nil
}

// outcome finishes what is unfinished, and looks at everything. A settled turn may have left a run that waits. It is
// deleted when it is due.
func (l *lives) outcome() (o outcome) {
	time.Sleep(longestPause)
	ctx, p := l.t.Context(), l.spawn(kill{})
	if outcome, err := p.bot.Recover(ctx, "s"); err != nil {
		l.notes.fault("recovered in the end: %s, %v", outcome, err)
	}
	for res, err := range p.bot.Turns(ctx, "s") {
		if err != nil {
			l.notes.fault("turns: %v", err)
			break
		}
		o.seen = append(o.seen, seenOf(res))
		o.usage = append(o.usage, l.usageOf(res)...)
		if l.withLog {
			l.checkLog(res)
		}
	}
	for r, err := range p.bot.Runs(ctx) {
		l.notes.fault("a run is left: %v, %v", r.Status, err)
	}
	l.notes.checkEffects()
	for _, bot := range l.bots {
		_ = bot.Shutdown(ctx)
	}
	o.failed, o.steps, o.history, o.faults = l.failed, l.steps, l.history, l.notes.faults
	paid := slices.Sorted(maps.Keys(l.notes.paid))
	o.seen = append(o.seen, fmt.Sprint("effects ", paid), fmt.Sprint("deliveries ", l.notes.told))
	return o
}

// seenOf is a turn as a user sees it, but for its usage.
func seenOf(res *orchestrator.Result[odd]) string {
	state, err := json.Marshal(res.State)
	if err != nil {
		panic(err)
	}
	if len(state) > 2000 {
		h := sha256.Sum256(state)
		state = fmt.Appendf(nil, "%s… %x", state[:600], h[:6])
	}
	text := fmt.Sprintf("turn %d %s %s, state %s", res.Turn, res.Input.Text, res.Input.Data, state)
	for i, step := range res.Steps {
		text += fmt.Sprintf(", step %d:", i)
		for _, intent := range step.Next.Intents {
			text += " " + intent
			if items, is := step.Next.Items(intent); is {
				text += fmt.Sprintf(" for %d items", items)
			}
		}
	}
	return text
}

// usageOf is that of a turn, and of each of its steps. Begin belongs to no step.
func (l *lives) usageOf(res *orchestrator.Result[odd]) []usage {
	turn := fmt.Sprint("turn ", res.Turn)
	all := []usage{{turn, res.Usage.Input, l.notes.usedBy(res.RunID, func(place) bool { return true })}}
	for i, step := range res.Steps {
		least := l.notes.usedBy(res.RunID, func(at place) bool { return at.where != "begin" && at.iteration == i })
		all = append(all, usage{fmt.Sprint(turn, ", step ", i), step.Usage.Input, least})
	}
	return all
}

// checkLog notes if the turn log of a turn does not begin with Started, end with Settled, and have each once. Without a
// snapshot store, a run may begin more than once.
func (l *lives) checkLog(res *orchestrator.Result[odd]) {
	entries, err := l.log.Restore(l.t.Context(), res.RunID)
	if err != nil {
		l.notes.fault("restore: %v", err)
		return
	}
	var phases []string
	count := make(map[string]int)
	for _, e := range entries {
		phases = append(phases, e.Phase)
		count[e.Phase]++
	}
	last := len(entries) - 1
	if last < 1 || phases[0] != turnlog.Started || phases[last] != turnlog.Settled || count[turnlog.Settled] != 1 ||
		l.withSnapshots && count[turnlog.Started] != 1 {
		l.notes.fault("turn log of turn %d: %v, want %s, any others and %s", res.Turn, phases, turnlog.Started,
			turnlog.Settled)
	}
}
