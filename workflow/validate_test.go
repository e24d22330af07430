package workflow_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// bound is a value at, or behind, a bound of what a store takes.
type bound struct {
	name string
	err  error
	good bool
}

// large returns a document of a size.
func large(size int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`) }

// of returns n times x.
func of(n int) string { return strings.Repeat("x", n) }

func names() []bound {
	return []bound{
		{"a workflow of 0", workflow.ValidateName(""), false},
		{"a workflow of 1", workflow.ValidateName("a"), true},
		{"a workflow of 48", workflow.ValidateName(of(48)), true},
		{"a workflow of 49", workflow.ValidateName(of(49)), false},
		{"a workflow of all characters", workflow.ValidateName("az-09_"), true},
		{"a workflow with a capital", workflow.ValidateName("A"), false},
		{"a workflow and a line", workflow.ValidateName("a\n"), false},
		{"a step of 0", workflow.ValidateStepName(""), false},
		{"a step of 128", workflow.ValidateStepName(of(128)), true},
		{"a step of 129", workflow.ValidateStepName(of(129)), false},
		{"a step of all characters", workflow.ValidateStepName("azAZ09._-"), true},
		{"a step of a branch", workflow.ValidateStepName("a/" + of(128)), true},
		{"a step of 1,024 bytes", workflow.ValidateStepName(strings.Repeat("ab/", 341) + "a"), true},
		{"a step of 1,025 bytes", workflow.ValidateStepName(strings.Repeat("ab/", 341) + "ab"), false},
		{"a step without a branch", workflow.ValidateStepName("/a"), false},
		{"a run of 512", workflow.ValidateRun(of(512)), true},
		{"a run of 513", workflow.ValidateRun(of(513)), false},
		{"any event", workflow.ValidateEvent(workflow.AnyEvent), false},
		{"an event with a star", workflow.ValidateEvent("**"), true},
		{"an event of a step", workflow.ValidateEvent("a/b"), true},
	}
}

func starts() []bound {
	start := func(change func(*workflow.NewRun)) error {
		n := workflow.NewRun{ID: "r", Workflow: "w"}
		change(&n)
		return workflow.ValidateStart([]workflow.NewRun{n})
	}
	return []bound{
		{"an input of 1 MiB", start(func(n *workflow.NewRun) { n.Input = large(workflow.MaxValue) }), true},
		{"an input over 1 MiB", start(func(n *workflow.NewRun) { n.Input = large(workflow.MaxValue + 1) }), false},
		{"spaces do not count", start(func(n *workflow.NewRun) {
			n.Input = append([]byte("  "), large(workflow.MaxValue)...)
		}), true},
		{"a delay of 366 days", start(func(n *workflow.NewRun) { n.Delay = workflow.MaxDelay }), true},
		{"a longer delay", start(func(n *workflow.NewRun) { n.Delay = workflow.MaxDelay + 1 }), false},
		{"a version of 2^30", start(func(n *workflow.NewRun) { n.Version = 1 << 30 }), true},
		{"a greater version", start(func(n *workflow.NewRun) { n.Version = 1<<30 + 1 }), false},
		{"an owner without a fence", start(func(n *workflow.NewRun) { n.Owner = "a" }), false},
		{"an owner with a fence", start(func(n *workflow.NewRun) {
			n.Owner, n.Fence = "a", lock.Fence{Epoch: 1, Nonce: "n"}
		}), true},
		{"no run", workflow.ValidateStart(nil), true},
		{"the same key of two workflows", workflow.ValidateStart([]workflow.NewRun{
			{ID: "a", Workflow: "v", Key: "k"}, {ID: "b", Workflow: "w", Key: "k"},
		}), true},
		{"a key twice", workflow.ValidateStart([]workflow.NewRun{
			{ID: "a", Workflow: "w", Key: "k"}, {ID: "b", Workflow: "w", Key: "k"},
		}), false},
		{"no key twice", workflow.ValidateStart([]workflow.NewRun{{ID: "a", Workflow: "w"}, {ID: "b", Workflow: "w"}}), true},
		{"too many messages", workflow.ValidateSend(slices.Repeat([]workflow.Message{
			{Run: "r", Action: workflow.Cancel},
		}, workflow.MaxBatch+1)), false},
		{"many messages", workflow.ValidateSend(slices.Repeat([]workflow.Message{
			{Run: "r", Action: workflow.Cancel},
		}, workflow.MaxBatch)), true},
	}
}

func writes() []bound {
	write := func(change func(*workflow.Entry, *workflow.Step)) error {
		e := workflow.Entry{Run: "r", Fence: lock.Fence{Epoch: 1, Nonce: "n"}, Steps: []workflow.Step{
			{Name: "s", Kind: workflow.KindStep, Outcome: workflow.Done},
		}}
		change(&e, &e.Steps[0])
		return workflow.ValidateWrite([]workflow.Entry{e})
	}
	type (
		entry = workflow.Entry
		step  = workflow.Step
	)
	return []bound{
		{"an output of 1 MiB", write(func(_ *entry, s *step) { s.Output = large(workflow.MaxValue) }), true},
		{"an output over 1 MiB", write(func(_ *entry, s *step) { s.Output = large(workflow.MaxValue + 1) }), false},
		{"the last step", write(func(_ *entry, s *step) { s.Index = workflow.MaxSteps - 1 }), true},
		{"one step more", write(func(_ *entry, s *step) { s.Index = workflow.MaxSteps }), false},
		{"a sleep of 366 days", write(func(_ *entry, s *step) { s.For = workflow.MaxDelay }), true},
		{"a longer sleep", write(func(_ *entry, s *step) { s.For = workflow.MaxDelay + 1 }), false},
		{"the longest error", write(func(_ *entry, s *step) { s.Error = of(workflow.MaxError) }), true},
		{"a longer error", write(func(_ *entry, s *step) { s.Error = of(workflow.MaxError + 1) }), false},
		{"an Until of the year 9999", write(func(_ *entry, s *step) { s.Until = date(9999) }), true},
		{"an Until of the year 10000", write(func(_ *entry, s *step) { s.Until = date(10000) }), false},
		{"a Due before Christ", write(func(e *entry, _ *step) { e.Due = date(-1) }), false},
		{"mail that is not compared", write(func(e *entry, _ *step) { e.Mail = -1 }), true},
		{"less mail than none", write(func(e *entry, _ *step) { e.Mail = -2 }), false},
		{"a park for 366 days", write(func(e *entry, _ *step) { e.Next, e.After = workflow.Park, workflow.MaxDelay }), true},
		{"a park for any event", write(func(e *entry, _ *step) { e.Next, e.Event = workflow.Park, workflow.AnyEvent }), true},
		{"an end", write(func(e *entry, _ *step) { e.Next, e.Status = workflow.End, workflow.Failed }), true},
		{"an end that runs", write(func(e *entry, _ *step) { e.Next, e.Status = workflow.End, workflow.Running }), false},
		{"a stop as drifted", write(func(e *entry, _ *step) { e.Next, e.Held = workflow.Stop, workflow.Drifted }), true},
		{"a stop as paused", write(func(e *entry, _ *step) { e.Next, e.Held = workflow.Stop, workflow.Paused }), false},
		{"a record without a fence", write(func(e *entry, _ *step) { e.Next, e.Fence = workflow.Record, lock.Fence{} }), true},
		{"an entry without a fence", write(func(e *entry, _ *step) { e.Fence = lock.Fence{} }), false},
		{"a signal's row", write(func(_ *entry, s *step) { s.Kind = workflow.KindSignal }), false},
	}
}

func date(year int) time.Time { return time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC) }

func TestValidate(t *testing.T) {
	for _, c := range slices.Concat(names(), starts(), writes(), subscriptions()) {
		if good := c.err == nil; good != c.good || !good && !errors.Is(c.err, workflow.ErrInvalid) {
			t.Errorf("%s: %v, want it taken: %t", c.name, c.err, c.good)
		}
	}
}

// Ids of later milliseconds are greater, and no two are the same.
func TestNewID(t *testing.T) {
	seen := make(map[string]bool)
	var last string
	var at time.Time
	for range 2000 {
		began := time.Now().Truncate(time.Millisecond)
		id := workflow.NewID()
		if began.After(at) && id <= last {
			t.Errorf("%q of %v comes after %q of %v", id, began, last, at)
		}
		if err := workflow.ValidateRun(id); err != nil || seen[id] || len(id) != 26 {
			t.Errorf("id %q: %v, again: %t", id, err, seen[id])
		}
		if at = time.Now(); id > last {
			last = id
		}
		seen[id] = true
	}
}

// A text of any error can be kept.
func TestErrorText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"plain", "plain"},
		{"a\x00b", "a\uFFFDb"},
		{"a\xffb", "a\uFFFDb"},
		{of(workflow.MaxError), of(workflow.MaxError)},
		{of(workflow.MaxError + 1), of(workflow.MaxError-3) + "…"},
	} {
		if got := workflow.ErrorText(c.text); got != c.want {
			t.Errorf("%.40q is kept as %.40q, want %.40q", c.text, got, c.want)
		}
	}
	for shift := range 4 { // a character at the cut is left out whole
		text := workflow.ErrorText(of(shift) + strings.Repeat("😀", workflow.MaxError))
		if len(text) > workflow.MaxError || !utf8.ValidString(text) || !strings.HasSuffix(text, "😀…") {
			t.Errorf("a long text ends as %q, with %d bytes", text[len(text)-9:], len(text))
		}
	}
	for _, bad := range []string{"\x00", "\xff"} {
		if got := workflow.ErrorText(strings.Repeat(bad, workflow.MaxError)); len(got) > workflow.MaxError {
			t.Errorf("a text grows to %d bytes", len(got))
		}
	}
}

// A client makes of its front what its methods promise.
func TestClient(t *testing.T) {
	ctx, c := t.Context(), workflow.NewClient(new(workflow.Memory))
	if _, err := c.Get(ctx, "none"); !errors.Is(err, workflow.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.Signal(ctx, "none", "e", nil, ""); !errors.Is(err, workflow.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.Start(ctx, "w", func() {}, nil); !errors.Is(err, workflow.ErrInvalid) {
		t.Error(err)
	}
	s, err := c.Start(ctx, "w", 1, nil)
	if err != nil || !s.New || s.Version != 1 {
		t.Fatal(s, err)
	}
	for range 2 { // each call without an id is a signal of its own
		if r, err := c.Signal(ctx, s.ID, "e", nil, ""); err != nil || r != workflow.Kept {
			t.Error(r, err)
		}
	}
	mail := 0
	for _, err := range c.Steps(ctx, s.ID) {
		if mail++; err != nil {
			t.Error(err)
		}
	}
	if mail != 2 {
		t.Errorf("%d signals, want 2", mail)
	}
	if r, err := c.Cancel(ctx, s.ID); err != nil || r != workflow.Applied {
		t.Error(r, err)
	}
	if r, err := c.Await(ctx, s.ID); err != nil || r.Status != workflow.Cancelled {
		t.Error(r, err)
	}
	if r, err := c.Pause(ctx, s.ID); err != nil || r != workflow.Over {
		t.Error(r, err)
	}
}

// SignalFirst gives a signal to the run that has waited longest, and to no other.
func TestSignalFirst(t *testing.T) {
	ctx, m := t.Context(), new(workflow.Memory)
	c := workflow.NewClient(m)
	f := lock.Fence{Epoch: 1, Nonce: "n"}
	for _, id := range []string{"other", "first", "second"} {
		e := workflow.Entry{Run: id, Fence: f, Next: workflow.Park, Event: "e"}
		if id == "other" {
			e.Match = json.RawMessage(`{"user":1}`)
		}
		_, err := m.Start(ctx, []workflow.NewRun{{ID: id, Workflow: "w", Owner: "a", Fence: f}})
		verdicts, written := m.Write(ctx, []workflow.Entry{e})
		if err := errors.Join(err, written, verdicts[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Microsecond) // of two times, by the clock of Memory
	}
	for _, want := range []string{"first", "second"} {
		if got, err := c.SignalFirst(ctx, "w", "e", map[string]int{"user": 2}, ""); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if got, err := c.SignalFirst(ctx, "w", "e", nil, ""); !errors.Is(err, workflow.ErrNotFound) {
		t.Errorf("%q, %v", got, err)
	}
}
