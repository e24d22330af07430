//go:build unix

package workflows_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// A service with a bot and an engine gets SIGTERM while a step is a turn. If the turn ends, its step is durable. If
// not, both are handed off: the run has no owner, no crash and no attempt, and the next process finishes the turn. In
// either case the turn settles once.
func TestServeHandsOff(t *testing.T) {
	for name, build := range sites {
		for _, waits := range []string{inTurn, handedOff} {
			t.Run(name+"/"+waits, func(t *testing.T) {
				t.Parallel()
				serveHandsOff(t, build(t), waits)
			})
		}
	}
}

func serveHandsOff(t *testing.T, at site, waits string) {
	w := at.here(t)
	c := workflow.NewClient(w.store)
	p := job{Site: at, Turn: waits, Serve: true}.start(t)
	s, err := c.Start(t.Context(), "turns", "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.hear(here)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if waits == inTurn {
		p.say(goOn)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the service does not end well: %v", err)
	}
	r, err := c.Get(t.Context(), s.ID)
	if err != nil || r.Owner != "" || r.Hold != "" || r.Status.Over() != (waits == inTurn) {
		t.Errorf("%+v: %v", r, err)
	}
	b, err := w.bot(nil, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	w.run(t, w.turns(b, nil, nowhere))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if r, err = c.Await(ctx, s.ID); err != nil || r.Status != workflow.Completed || string(r.Output) != "1" {
		t.Errorf("%+v: %v", r, err)
	}
	for st, err := range c.Steps(ctx, s.ID) {
		if err != nil || st.Attempts != 1 {
			t.Errorf("%+v: %v", st, err)
		}
	}
	turns := 0
	for _, err := range b.Turns(ctx, "s") {
		if err != nil {
			t.Error(err)
		}
		turns++
	}
	calls, err := w.calls(ctx)
	if err != nil || turns != 1 || len(calls) != 1 {
		t.Errorf("%d turns, calls %v: %v", turns, calls, err)
	}
}
