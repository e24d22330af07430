package orchestrator_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// When an attempt counts, and what a run keeps when another owner goes on with it.

// A run that starts over from a newer state goes on from that state, also if its process dies before the next save.
func TestMovedRunForgetsItsState(t *testing.T) {
	s := &stage{t, newWorld()}
	s.crash(Input{Text: "a"})
	s.aside(Input{Text: "b"})
	var p *process
	p = s.process(Options{}, func(context.Context, *Turn) error {
		for _, method := range []string{"Append", "Mark", "Save", "Delete"} {
			p.from(method, func(func() error) error { return lock.ErrFenced })
		}
		return errDead
	})
	if _, err := p.Recover(t.Context(), scribeKey.Session); err == nil {
		t.Fatal("the process did not die")
	}
	s.takeOver()
	s.process(Options{}, nil).recovers("settled")
	s.ends("b", "a")
}
