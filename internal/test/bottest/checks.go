package bottest

import (
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Execute runs a turn of session s.
func Execute(t testing.TB, bot *Bot, in Input) *Result {
	t.Helper()
	res, err := bot.Execute(t.Context(), "s", in, nil)
	if err != nil {
		t.Fatalf("%q: %v", in.Text, err)
	}
	return res
}

// Turns returns the texts of the kept turns, oldest first.
func Turns(t testing.TB, bot *Bot) []string {
	t.Helper()
	var texts []string
	for res, err := range bot.Turns(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, res.Input.Text)
	}
	slices.Reverse(texts)
	return texts
}

// Abandon ends the run in flight.
func Abandon(t testing.TB, bot *Bot, session string) error {
	t.Helper()
	_, err := bot.Abandon(t.Context(), session, "")
	return err
}

// Unpark checks whether the run of session s was unparked.
func Unpark(t *testing.T, bot *Bot, want bool) {
	t.Helper()
	if unparked, err := bot.Unpark(t.Context(), "s"); unparked != want || err != nil {
		t.Errorf("unparked: %t, %v; want %t", unparked, err, want)
	}
}

// Recoverable returns the sessions that a pass would visit.
func Recoverable(t testing.TB, bot *Bot, all bool) []string {
	t.Helper()
	var sessions []string
	for session, err := range bot.Recoverable(t.Context(), all) {
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, session)
	}
	return sessions
}

// WantSaid compares what a state has said.
func WantSaid(t testing.TB, s State, want ...string) {
	t.Helper()
	if !slices.Equal(s.Said, want) {
		t.Errorf("said %q, want %q", s.Said, want)
	}
}

// WantErr checks that err is each of the targets.
func WantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("got %v, want %v", err, target)
		}
	}
}

// WantOp checks how far a turn came.
func WantOp(t testing.TB, err error, op string) {
	t.Helper()
	if got := Details(t, err).Op; got != op {
		t.Fatalf("got %v of %q, want an error of %q", err, got, op)
	}
}

// Details returns the *Error in err.
func Details(t testing.TB, err error) orchestrator.Error {
	t.Helper()
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	return *e
}

// WantRuns returns the runs in flight, and checks their number.
func WantRuns(t testing.TB, bot *Bot, want int) []snapshot.Run {
	t.Helper()
	var runs []snapshot.Run
	for r, err := range bot.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		r.Age = 0 // it grows
		runs = append(runs, r)
	}
	if len(runs) != want {
		t.Fatalf("%d runs in flight, want %d: %v", len(runs), want, runs)
	}
	return runs
}

// Enqueue accepts inputs by their texts, which are their request ids.
func Enqueue(t testing.TB, bot *Bot, texts ...string) {
	t.Helper()
	for _, text := range texts {
		in := Input{RequestID: text, Text: text, Kind: "job", By: "ada"}
		if err := bot.Enqueue(t.Context(), "s", in); err != nil {
			t.Fatal(err)
		}
	}
}

// RecoverAll makes one pass.
func RecoverAll(t testing.TB, bot *Bot) (outcomes []string) {
	t.Helper()
	for session, err := range bot.Recoverable(t.Context(), true) {
		outcome := ""
		if err == nil {
			outcome, err = bot.Recover(t.Context(), session)
		}
		if err != nil {
			outcome = "error"
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes
}

// WantTurns compares the texts of the kept turns.
func WantTurns(t testing.TB, bot *Bot, want ...string) {
	t.Helper()
	if got := Turns(t, bot); !slices.Equal(got, want) {
		t.Errorf("turns %q, want %q", got, want)
	}
}

// Followed collects what Follow yields, until it ends.
func Followed(t *testing.T, bot *Bot, after int64) (all []Event, last int64) {
	t.Helper()
	last = after
	for shown, err := range bot.Follow(t.Context(), "s", after) {
		if err != nil {
			t.Fatal(err)
		}
		if after >= 0 && shown.Number != last+1 {
			t.Errorf("event %d follows %d", shown.Number, last)
		}
		all, last = append(all, shown.Event), shown.Number
	}
	return all, last
}

// Inspect returns the standing of session s.
func Inspect(t *testing.T, bot *Bot) orchestrator.Standing {
	t.Helper()
	st, err := bot.Inspect(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// WantStanding compares what the checkpoint store says of session s.
func WantStanding(t *testing.T, got, want orchestrator.Standing) {
	t.Helper()
	want.Session = "s"
	got.Run, got.LeaseLeft, got.Beats = nil, 0, 0
	if got != want {
		t.Errorf("the standing is %+v, want %+v", got, want)
	}
}

// WantParked makes a pass, which parks the run of session s.
func WantParked(t *testing.T, bot *Bot) {
	t.Helper()
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "parked" || err != nil {
		t.Fatalf("%q, %v", outcome, err)
	}
	if r := WantRuns(t, bot, 1)[0]; r.Status != snapshot.Parked {
		t.Fatalf("the run is %s", r.Status)
	}
}
