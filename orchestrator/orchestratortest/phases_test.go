package orchestratortest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/turnlog"
)

// caller is a bot that calls a peer, and records that.
func caller() orchestrator.Definition[State] {
	return orchestrator.Definition[State]{Name: "support", Intents: orchestrator.Intents[State]{
		"call": {Run: func(ctx context.Context, t *Turn) error { return t.Record(ctx, "peer-call", nil) }},
	}}
}

// withPhases returns options with a turn log that knows peer-call. Its adapter is not used.
func withPhases(t *testing.T) *orchestrator.Options {
	t.Helper()
	r := turnlog.NewRegistry()
	if err := r.Register("peer-call", "a peer was called"); err != nil {
		t.Fatal(err)
	}
	return &orchestrator.Options{TurnLog: turnlog.New(nil, r)}
}

// logged returns the phases of all turns.
func logged(t *testing.T, w *orchestratortest.World) string {
	t.Helper()
	var names []string
	for turn, err := range w.TurnLog.(turnlog.Lister).Turns(t.Context(), turnlog.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		all, err := w.TurnLog.Restore(t.Context(), turn.First.Run)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			names = append(names, e.Phase)
		}
	}
	return strings.Join(names, " ")
}

// A process dies at each call of the turn log. The next process finishes the turn, with one beginning and one end.
func TestPhases(t *testing.T) {
	for n, phase := range []string{turnlog.Started, "peer-call", turnlog.Settled} {
		for _, after := range []bool{false, true} {
			w := new(orchestratortest.World)
			o := withPhases(t)
			first := orchestratortest.Start(w, caller(), o)
			if after {
				first.DieAfter("turnlog.Record", n+1)
			} else {
				first.DieBefore("turnlog.Record", n+1)
			}
			_, _ = first.Bot.Execute(ctx, "s", in, nil)
			if !first.Dead() {
				t.Fatalf("%s: the process lives", phase)
			}
			if err := first.Expire(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := orchestratortest.Start(w, caller(), o).Bot.Recover(ctx, "s"); err != nil {
				t.Fatal(err)
			}
			want := "started peer-call settled"
			if phase == "peer-call" && after { // the intent runs again
				want = "started peer-call peer-call settled"
			}
			if got := logged(t, w); got != want {
				t.Errorf("dead at %s, after %t: phases %q, want %q", phase, after, got, want)
			}
		}
	}
}

// A bot without a turn log has no step of it. A turn log of the world, set before the first Start, is for all.
func TestTurnLogIsAsked(t *testing.T) {
	log := withPhases(t).TurnLog.(*turnlog.Checked).Over(new(turnlog.Memory))
	const all = "started peer-call settled"
	for name, c := range map[string]struct {
		world *orchestratortest.World
		o     *orchestrator.Options
		want  string
	}{
		"not asked for":  {new(orchestratortest.World), nil, ""},
		"of the options": {new(orchestratortest.World), withPhases(t), all},
		"of the world":   {&orchestratortest.World{TurnLog: log}, nil, all},
		"of both":        {&orchestratortest.World{TurnLog: new(turnlog.Memory)}, withPhases(t), all},
	} {
		t.Run(name, func(t *testing.T) {
			p := orchestratortest.Start(c.world, caller(), c.o)
			p.LoseReply("turnlog.Record", 1)
			if _, err := p.Bot.Execute(ctx, "s", in, nil); err != nil {
				t.Fatal(err)
			}
			if got := logged(t, c.world); got != c.want {
				t.Errorf("phases %q, want %q", got, c.want)
			}
		})
	}
	o := &orchestrator.Options{TurnLog: new(turnlog.Memory)}
	p := orchestratortest.Start(new(orchestratortest.World), caller(), o)
	if _, err := p.Bot.Execute(ctx, "s", in, nil); !errors.Is(err, turnlog.ErrPhase) {
		t.Errorf("a phase that is not registered: %v", err)
	}
}
