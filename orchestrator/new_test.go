package orchestrator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// New names every fault at once.
func TestNewFaults(t *testing.T) {
	d := Def{
		Version: "\x00", First: "nobody", Evaluate: func(context.Context, *Turn) (Next, error) { return Next{}, nil },
		Intents: Intents{
			"a": {Next: orchestrator.To("elsewhere"), Timeout: -1, Retry: retry.Policy{Attempts: -1}},
			"":  {Run: say("x")},
		},
	}
	o := &Options{
		KeepSnapshots: -1, OnInterrupted: 9,
		Limits: orchestrator.Limits{FanOut: -1, LeaseTTL: time.Microsecond},
	}
	_, err := orchestrator.New(d, nil, o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, fault := range []string{
		"empty name", "version holds U+0000", `First "nobody" is no intent`, `intent "": empty name`,
		`intent "a": no Run`,
		`Next "elsewhere" is no intent`, "Next without Iterate", "Timeout is negative", "Retry.Attempts is negative",
		"Evaluate without Iterate", "KeepSnapshots is negative", "OnInterrupted 9", "Limits.FanOut is negative",
		"Limits.LeaseTTL is shorter than 10ms", "no checkpoint store",
	} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is not named in: %v", fault, err)
		}
	}
	_, err = orchestrator.New(Def{Name: "n"}, new(checkpoint.Memory), nil)
	if err == nil || !strings.Contains(err.Error(), "no intents") {
		t.Errorf("got %v", err)
	}
}

// New refuses a Compaction that cannot work, and takes one that is off.
func TestCompactionFaults(t *testing.T) {
	run := func(context.Context, orchestrator.Range) (orchestrator.Usage, error) {
		return orchestrator.Usage{}, nil
	}
	due := func(context.Context, orchestrator.Range) bool { return true }
	for _, c := range []struct {
		compaction orchestrator.Compaction
		fault      string
	}{
		{orchestrator.Compaction{After: -1, Run: run}, "Compaction has a negative field"},
		{orchestrator.Compaction{Keep: -1, Run: run}, "Compaction has a negative field"},
		{orchestrator.Compaction{Timeout: -1, Run: run}, "Compaction has a negative field"},
		{orchestrator.Compaction{After: 1}, "Compaction.Run is missing"},
		{orchestrator.Compaction{Due: due}, "Compaction.Run is missing"},
		{orchestrator.Compaction{Keep: 1, Timeout: 1}, ""},
		{orchestrator.Compaction{Run: run}, ""},
	} {
		_, err := orchestrator.New(echo(), new(checkpoint.Memory), &Options{Compaction: c.compaction})
		if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%+v: got %v, want %q", c.compaction, err, c.fault)
		}
	}
}

// New refuses a limit just past its bound, names it, and takes the bound itself.
func TestBoundsOfOptions(t *testing.T) {
	const most = jsonvalue.MaxSize - 1<<20
	for fault, c := range map[string]struct{ at, past Options }{
		"Limits.LeaseTTL is shorter than 10ms": {
			Options{Limits: orchestrator.Limits{LeaseTTL: 10 * time.Millisecond}},
			Options{Limits: orchestrator.Limits{LeaseTTL: 10*time.Millisecond - 1}},
		},
		"Limits.LeaseTTL is longer than 24h": {
			Options{Limits: orchestrator.Limits{LeaseTTL: 24 * time.Hour}},
			Options{Limits: orchestrator.Limits{LeaseTTL: 24*time.Hour + 1}},
		},
		"Limits.SettleTimeout is shorter than 1ms": {
			Options{Limits: orchestrator.Limits{SettleTimeout: time.Millisecond}},
			Options{Limits: orchestrator.Limits{SettleTimeout: 1}},
		},
		"Limits.Input is more than": {
			Options{Limits: orchestrator.Limits{Input: most}}, Options{Limits: orchestrator.Limits{Input: most + 1}},
		},
		"Limits.State is more than": {
			Options{Limits: orchestrator.Limits{State: most}}, Options{Limits: orchestrator.Limits{State: most + 1}},
		},
	} {
		if _, err := orchestrator.New(echo(), new(checkpoint.Memory), &c.at); err != nil {
			t.Errorf("at the bound %q: %v", fault, err)
		}
		_, err := orchestrator.New(echo(), new(checkpoint.Memory), &c.past)
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("got %v, want %q", err, fault)
		}
	}
}

// New refuses a definition that leaves open what runs. The first turn would find out too late.
func TestRoutingFaults(t *testing.T) {
	a, b := Intent{Run: say("a")}, Intent{Run: say("b")}
	for fault, d := range map[string]Def{
		"neither First nor Route":           {Intents: Intents{"a": a, "b": b}},
		"neither Route, Evaluate nor every": {Intents: Intents{"a": a}, Iterate: true},
	} {
		d.Name = "n"
		if _, err := orchestrator.New(d, new(checkpoint.Memory), nil); err == nil ||
			!strings.Contains(err.Error(), fault) {
			t.Errorf("want %q, got %v", fault, err)
		}
	}
}

type secretive struct {
	Shown  string
	hidden int
}

// New refuses a state that JSON would change: it behaves one way before a crash and another way after.
func TestStateFaults(t *testing.T) {
	type lossy struct {
		Any   any
		Func  func()
		Inner []secretive
	}
	_, err := orchestrator.New(orchestrator.Definition[lossy]{
		Name: "n", Intents: orchestrator.Intents[lossy]{"a": {Run: func(context.Context,
			*orchestrator.Turn[lossy],
		) error {
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, fault := range []string{"Any", "json.RawMessage", "Func", "Inner[].hidden"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is not named in: %v", fault, err)
		}
	}
	_ = secretive{hidden: 1}
}

// New refuses a state that is a pointer, or a pointer to one: it would be nil in a first turn.
func TestPointerState(t *testing.T) {
	const fault = "the state is a pointer, which is nil in a first turn: use "
	for want, err := range map[string]error{
		"bottest.State": newOf[*State](), "int": newOf[**int](), "[]*int": newOf[***[]*int](),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), fault+want) {
			t.Errorf("got %v, want %s%s", err, fault, want)
		}
	}
}

// newOf returns the error of New for a state.
func newOf[S any]() error {
	run := func(context.Context, *orchestrator.Turn[S]) error { return nil }
	_, err := orchestrator.New(orchestrator.Definition[S]{
		Name: "n", Intents: orchestrator.Intents[S]{"a": {Run: run}},
	}, new(checkpoint.Memory), nil)
	return err
}

// Some changes of a definition change the signature, and others do not. The signature is stored: its value is pinned.
func TestSignature(t *testing.T) {
	signature := func(d Def) string {
		w := newWorld()
		execute(t, w.Start(t, d, Options{}), Input{Text: "a"})
		cp, err := checkpoint.Load(t.Context(), w.Checkpoints, checkpoint.Key{Orchestrator: d.Name, Session: "s"},
			checkpoint.Newest)
		if err != nil {
			t.Fatal(err)
		}
		return cp.Signature
	}
	base := signature(echo())
	if want := "71f5776f9820"; !strings.HasPrefix(base, want) {
		t.Errorf("signature %.12s, pinned %s", base, want)
	}
	same := echo()
	same.Version, same.Begin = "2", func(context.Context, *Turn) error { return nil }
	same.Intents = Intents{"echo": {Run: say("else"), Description: "d", Timeout: time.Hour}}
	if got := signature(same); got != base {
		t.Error("a body, a description, a limit or the version changed the signature")
	}
	for name, change := range map[string]func(*Def){
		"name":    func(d *Def) { d.Name = "other" },
		"intents": func(d *Def) { d.Intents["more"], d.First = Intent{Run: say("x")}, "echo" },
		"first":   func(d *Def) { d.First = "echo" },
		"iterate": func(d *Def) {
			d.Iterate = true
			d.Intents["echo"] = Intent{Run: d.Intents["echo"].Run, Next: orchestrator.End}
		},
	} {
		d := echo()
		change(&d)
		if signature(d) == base {
			t.Errorf("another %s has the same signature", name)
		}
	}
}
