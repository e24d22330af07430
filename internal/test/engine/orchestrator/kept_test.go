package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// An Append finds its turn kept, because its reply was lost, or because another owner has settled the run.

// A lost reply costs one Mark, which tells whether the session is still ours. All work after the turn is still done.
func TestKeptByUs(t *testing.T) {
	for _, c := range []struct {
		name        string
		deliver     bool
		lost, marks int
	}{
		{"release in the Append", false, 0, 0},
		{"release in the Append, reply lost", false, 1, 1},
		{"release in the last Mark", true, 0, 1},
		{"release in the last Mark, reply lost", true, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &stage{t, newWorld()}
			d := scribe(nil)
			if c.deliver {
				d = new(outbox).deliver(d)
			}
			p := s.processOf(d, Options{})
			for range c.lost {
				p.next("Append", replyLost)
			}
			p.execute(Input{Text: "a"})
			if p.called("Append") != 1+c.lost || p.called("Mark") != c.marks {
				t.Errorf("%d Appends and %d Marks", p.called("Append"), p.called("Mark"))
			}
			s.process(Options{}, nil).execute(Input{Text: "b"})
		})
	}
}

// The usage of a compaction counts in the Result of the turn before it, also after a lost reply.
func TestKeptUsage(t *testing.T) {
	s := &stage{t, newWorld()}
	p := s.process(Options{Compaction: orchestrator.Compaction{After: 1, Keep: 1, Run: new(compactor).Run}}, nil)
	p.execute(Input{Text: "a"})
	p.next("Append", replyLost)
	p.execute(Input{Text: "b"})
	if kinds := p.events.Kinds(); strings.Count(kinds, string(orchestrator.Compacted)) != 1 {
		t.Errorf("events %s", kinds)
	}
}

// The caller's context ends. A late owner still reads the turn that another owner has settled with a newer version of
// the definition.
func TestKeptMigrates(t *testing.T) {
	s := &stage{t, newWorld()}
	older := scribe(nil)
	older.Version = "1"
	older.Migrate = func(ctx context.Context, cp checkpoint.Checkpoint) (state State, err error) {
		if err := ctx.Err(); err != nil {
			return state, err
		}
		return state, json.Unmarshal(cp.State, &state)
	}
	newer := older
	newer.Version = "2"
	zombie, other := s.processOf(older, Options{}), s.processOf(newer, Options{})
	stopped := zombie.stopBefore("Append")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		res, err := zombie.Execute(ctx, scribeKey.Session, Input{Text: "a", RequestID: "r"}, nil)
		if err == nil && (res.Turn != 0 || len(res.State.Said) != iterations) {
			err = errors.New("another turn")
		}
		done <- err
	}()
	stopped.reached()
	s.takeOver()
	other.recovers("settled")
	cancel()
	stopped.goOn()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An owner finishes an earlier run first and learns that another owner settled it. It has lost the session: its own
// turn has not begun.
func TestKeptOfAnotherInput(t *testing.T) {
	s := &stage{t, newWorld()}
	s.crash(Input{Text: "a"})
	d := scribe(nil)
	begins := 0
	d.Begin = func(ctx context.Context, _ *Turn) error {
		begins++
		return ctx.Err()
	}
	zombie, other := s.processOf(d, Options{}), s.process(Options{}, nil)
	stopped := zombie.stopBefore("Append")
	b := zombie.begin(Input{Text: "b", RequestID: "rb"})
	stopped.reached()
	s.takeOver()
	other.recovers("settled")
	stopped.goOn()
	b.fails(orchestrator.ErrInterrupted, lock.ErrFenced)
	if begins != 1 {
		t.Errorf("Begin ran %d times", begins)
	}
	s.ends("a")
}

// An owner settles an earlier run, and learns at the Delete that another owner has taken over. Its own turn does not
// begin.
func TestDroppedAfterTakeOver(t *testing.T) {
	s := &stage{t, newWorld()}
	s.crash(Input{Text: "a"})
	d := scribe(nil)
	begins := 0
	d.Begin = func(context.Context, *Turn) error {
		begins++
		return nil
	}
	zombie, other := s.processOf(d, Options{}), s.process(Options{}, nil)
	stopped := zombie.stopBefore("Delete")
	b := zombie.begin(Input{Text: "b", RequestID: "rb"})
	stopped.reached()
	s.takeOver()
	other.execute(Input{Text: "c"})
	stopped.goOn()
	b.fails(orchestrator.ErrInterrupted, lock.ErrFenced)
	if begins != 1 {
		t.Errorf("Begin ran %d times", begins)
	}
	if zombie.called("Claim") != 1 {
		t.Errorf("%d Claims", zombie.called("Claim"))
	}
	s.ends("a", "c")
}

// If the owner of the session is unknown, the next call does the work after the turn, and the caller is told.
func TestKeptAndUnknown(t *testing.T) {
	t.Parallel()
	s := &stage{t, newWorld()}
	var sent outbox
	var logs bytes.Buffer
	p := s.processOf(sent.deliver(scribe(nil)), Options{
		Limits: orchestrator.Limits{SettleTimeout: impatient}, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
	})
	p.next("Append", replyLost)
	p.from("Mark", requestLost)
	p.execute(Input{Text: "a"})
	if len(sent.results) != 0 || !strings.Contains(logs.String(), "left to the next call") {
		t.Errorf("delivered %+v, logged %q", sent.results, logs.String())
	}
	s.takeOver()
	s.processOf(sent.deliver(scribe(nil)), Options{}).recovers("cleaned")
	if len(sent.results) != 1 {
		t.Errorf("delivered %+v", sent.results)
	}
}
