package workflowmodel

import (
	"strings"
	"testing"
)

// broken are protocols with one rule changed, in the smallest scenario that shows it, and what they break.
var broken = []struct {
	name, want string
	rules      Rules
	in         Scenario
}{
	{
		name: "no fence", want: "another than the owner",
		rules: Rules{noFence: true}, in: Scenario{suspect: 1},
	},
	{
		name: "who is judged dead while it beats needs no fence", want: "another than the owner",
		rules: Rules{noFenceOfSteps: true}, in: Scenario{suspect: 1, signals: 1},
	},
	{
		name: "a takeover without a new fence", want: "the fence of another owner",
		rules: Rules{takeoverKeeps: true}, in: Scenario{suspect: 1},
	},
	{
		name: "no nonce", want: "another than the owner",
		rules: Rules{noNonce: true}, in: Scenario{outage: 1},
	},
	{
		name: "a claim without epoch + 1", want: "its row is not there",
		rules: Rules{claimKeepsEpoch: true}, in: Scenario{front: true},
	},
	{
		name: "a cancel without epoch + 1", want: "its row is not there",
		rules: Rules{cancelKeepsEpoch: true}, in: Scenario{cancels: 1},
	},
	{
		name: "a pause without epoch + 1", want: "its row is not there",
		rules: Rules{pauseKeepsEpoch: true}, in: Scenario{pauses: 1},
	},
	{
		name: "a pause that a claim ignores", want: "a paused run is claimed",
		rules: Rules{holdIsIgnored: true}, in: Scenario{pauses: 1},
	},
	{
		name: "mail not compared at park", want: "waits beside a signal",
		rules: Rules{noMailAtPark: true}, in: Scenario{signals: 1},
	},
	{
		name: "mail not compared at timeout", want: "times out beside a signal",
		rules: Rules{noMailAtTimeout: true}, in: Scenario{signals: 1},
	},
	{
		name: "a deadline before the mailbox", want: "times out beside a signal",
		rules: Rules{deadlineFirst: true}, in: Scenario{signals: 1},
	},
	{
		name: "a signal that does not make due", want: "waits beside a signal",
		rules: Rules{signalSleeps: true}, in: Scenario{signals: 1},
	},
	{
		name: "a signal that is forgotten once it is taken", want: "stuck",
		rules: Rules{signalTwice: true}, in: Scenario{body: around, signals: 1, lost: 1},
	},
	{
		name: "a refused timeout that is not looked for", want: "its row is not there",
		rules: Rules{noReread: true}, in: Scenario{signals: 1, lost: 1},
	},
	{
		name: "a park that forgets its deadline", want: "stuck",
		rules: Rules{parkForgets: true}, in: Scenario{},
	},
	{
		name: "a sleep that ends with its claim", want: "before its deadline",
		rules: Rules{wakesEarly: true}, in: Scenario{body: []verb{sleep}, pauses: 1, resumes: 1},
	},
	{
		name: "a deadline that moves", want: "a deadline moves",
		rules: Rules{deadlineMoves: true}, in: Scenario{signals: 1, lost: 1},
	},
	{
		name: "an outcome that is not written before the next step", want: "acts on another outcome",
		rules: Rules{noFlush: true}, in: Scenario{body: []verb{step, step}, crash: 1},
	},
	{
		name: "a late outcome that counts", want: "another than the owner",
		rules: Rules{lateCounts: true}, in: Scenario{suspect: 1},
	},
	{
		name: "a late outcome of a cancelled run that counts", want: "a run that is over gets a row",
		rules: Rules{lateCounts: true}, in: Scenario{cancels: 1},
	},
	{
		name: "a repeated write that is taken for a refusal", want: "told as refused",
		rules: Rules{repeatIsRefused: true}, in: Scenario{lost: 1},
	},
	{
		name: "a claim without an answer is not asked for", want: "stuck",
		rules: Rules{noAgain: true}, in: Scenario{lost: 1},
	},
	{
		name: "a start without an answer is not asked for", want: "stuck",
		rules: Rules{noAgain: true}, in: Scenario{front: true, lost: 1},
	},
	{
		name: "a claim without an answer is asked for once", want: "stuck",
		rules: Rules{againOnce: true}, in: Scenario{delay: 1},
	},
	{
		name: "a late question that takes a run from its stay", want: "takes a run from its stay",
		rules: Rules{againSame: true}, in: Scenario{lost: 1, delay: 1},
	},
	{
		name: "what a question without an answer has got is not asked for", want: "stuck",
		rules: Rules{againForgets: true}, in: Scenario{lost: 2, delay: 1},
	},
	{
		name: "what a question without an answer has got is adopted, and asked for", want: "takes a run from its stay",
		rules: Rules{againAdopts: true}, in: Scenario{lost: 2, delay: 1},
	},
	{
		name: "a child that does not lock its parent", want: "a child goes on",
		rules: Rules{parentIsFree: true}, in: Scenario{body: oneStep, family: true},
	},
	{
		name: "children that are found by the first statement", want: "a child goes on",
		rules: Rules{oneStatement: true}, in: Scenario{body: oneStep, family: true},
	},
	{
		name: "a start that does not wait for the disk", want: "a start was answered, and the run is gone",
		rules: Rules{startIsNotDurable: true}, in: Scenario{front: true, outage: 1},
	},
	{
		name: "a write that does not wait for the disk", want: "has changed or is gone",
		rules: Rules{writeIsNotDurable: true}, in: Scenario{outage: 1},
	},
	{
		name: "a signal that does not wait for the disk", want: "a signal was answered, and is gone",
		rules: Rules{sendIsNotDurable: true}, in: Scenario{signals: 1, outage: 1},
	},
	{
		name: "a claim that counts before it locks", want: "more runs have an owner than the limit says",
		rules: Rules{countsFirst: true}, in: Scenario{runs: 2, limit: 1, body: oneStep},
	},
	{
		name: "a takeover that needs a place", want: "stuck",
		rules: Rules{heldBack: true}, in: Scenario{limit: 1, body: oneStep, crash: 1},
	},
	{
		name: "a refusal that does not wait for the disk", want: "stuck",
		rules: Rules{refusalIsNotFirm: true}, in: Scenario{suspect: 1, outage: 1},
	},
}

// TestModelConvicts changes one rule at a time. The model finds each, and finds nothing without the change.
func TestModelConvicts(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			w := b.in
			if w.rules, w.runs = b.rules, max(w.runs, 1); w.family {
				w.runs = 2
			}
			if w.body == nil {
				w.body = short
			}
			f := w.explore(1_000_000)
			if !strings.Contains(f.bad, b.want) {
				t.Errorf("want %q, and it is %v", b.want, &f)
			}
			t.Log(&f)
			w.rules = Rules{}
			if f := w.explore(1_000_000); f.bad != "" || !f.whole {
				t.Errorf("without the change: %v", &f)
			}
		})
	}
}
