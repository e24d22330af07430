package enginetest

import (
	"context"
	"reflect"
	"slices"

	"github.com/holdfast-go/holdfast/snapshot"
)

// verify compares the stored turns with the true effects and with the answers to callers, when all work is finished.
func (w *world) verify(ctx context.Context, bot *engine) {
	var turns []*Result
	for res, err := range bot.Turns(ctx, session) {
		if err != nil {
			w.accuse(Healthy, "reading turns: %v", err)
			return
		}
		turns = append(turns, res)
	}
	slices.Reverse(turns)
	if r := w.inFlight(ctx); r != nil {
		w.accuse(Idle, "run %s is still %s: %s", r.ID, r.Status, r.Error)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease != nil {
		w.accuseLocked(Idle, "the session was not released")
	}
	w.verifyTurns(turns)
	w.verifyRuns(turns)
	w.verifyTold(turns)
	w.verifyDeliveries(turns)
	settled := make(map[string]int)
	for _, res := range turns {
		if res.Input.Text != short {
			settled[res.RunID]++
		}
	}
	w.verifyEffects(ctx, settled)
	w.verifyPhases(turns)
}

// inFlight returns the runs in flight. drain has looked for owed replies already.
func (w *world) inFlight(ctx context.Context) *snapshot.Run {
	for r, err := range w.Snapshots.Runs(ctx, snapshot.Query{Key: w.key()}) {
		if err != nil {
			w.accuse(Healthy, "reading runs: %v", err)
			return nil
		}
		return &r
	}
	return nil
}

// verifyTurns checks that no turn is missing, and that each is whole.
func (w *world) verifyTurns(turns []*Result) {
	var state State
	for i, res := range turns {
		if res.Turn != i {
			w.accuseLocked(Whole, "turn %d is kept in place %d", res.Turn, i)
		}
		state = w.bot.wants(state, res.RunID, res.Input.Text)
		if got := res.State.unsigned(); !reflect.DeepEqual(got, state) {
			w.accuseLocked(Whole, "turn %d has state %v, want %v", i, got, state)
		}
	}
}

// verifyRuns checks that each run that was accepted and not ended has settled once, and no other run has.
func (w *world) verifyRuns(turns []*Result) {
	settled := make(map[string]int)
	for _, res := range turns {
		settled[res.RunID]++
		for _, intent := range w.bot.intents(res.Input.Text) {
			if r := w.runs[res.RunID]; r != nil && r.ran[intent] == 0 {
				w.accuseLocked(Begun, "turn %d has settled without %s", res.Turn, intent)
			}
		}
		if w.runs[res.RunID] == nil {
			w.accuseLocked(Begun, "turn %d is of a run that never began", res.Turn)
		}
	}
	for id, r := range w.runs {
		want := 0
		if r.begun || r.kept {
			want = 1
		}
		if settled[id] != want {
			w.accuseLocked(Once, "run %s has settled %d times, want %d", id, settled[id], want)
		}
		if why, ok := w.failed[id]; ok && settled[id] > 0 {
			w.accuseLocked(Failed, "run %s has settled after its caller was told: %s", id, why)
		}
		if !r.known && !r.volatile && len(r.ran) > 0 {
			w.accuseLocked(Begun, "run %s did something and never began", id)
		}
	}
}

// verifyTold checks that the turn that a caller or Deliver got is the stored turn.
func (w *world) verifyTold(turns []*Result) {
	for _, told := range slices.Concat(w.told, w.delivered) {
		i := slices.IndexFunc(turns, func(res *Result) bool { return res.RunID == told.RunID })
		if i < 0 {
			w.accuseLocked(Kept, "run %s is lost, although its result was handed out", told.RunID)
			continue
		}
		kept := turns[i]
		same := kept.Turn == told.Turn && kept.Input.Text == told.Input.Text &&
			reflect.DeepEqual(kept.State, told.State)
		if !same {
			w.accuseLocked(Kept, "kept is turn %d of %q with %v, handed out was turn %d of %q with %v",
				kept.Turn, kept.Input.Text, kept.State, told.Turn, told.Input.Text, told.State)
		}
	}
}

// verifyDeliveries checks that every turn was delivered, for the first time in order. Only a fault in a delivery may
// repeat one.
func (w *world) verifyDeliveries(turns []*Result) {
	if !w.bot.deliver {
		return
	}
	times := make(map[string]int)
	var first, want []string
	for _, res := range w.delivered {
		if times[res.RunID]++; times[res.RunID] == 1 {
			first = append(first, res.RunID)
		}
	}
	for _, res := range turns {
		want = append(want, res.RunID)
	}
	if !slices.Equal(first, want) {
		w.accuseLocked(Delivered, "delivered are %v, kept %v", first, want)
	}
	for id, n := range times {
		if n > 1 && !w.mayRepeat {
			w.accuseLocked(Delivered, "run %s was delivered %d times", id, n)
		}
	}
}
