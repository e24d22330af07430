package orchestrator_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// The model of the protocol has broken readings that lose, double or reorder a turn. These are their scenarios, with
// the real engine on the real stores. Each test names the reading that it convicts.

// Convicts: recognising a settled run by its turn number. A late Begin, for a number that another owner has settled
// meanwhile, is an accepted input all the same.
func TestProtocolLateBegin(t *testing.T) {
	for name, next := range map[string]func(p *process) []string{
		"next input": func(p *process) []string { p.execute(Input{Text: "c"}); return []string{"b", "a", "c"} },
		"drain":      func(p *process) []string { p.recovers("settled"); return []string{"b", "a"} },
		"same again": func(p *process) []string {
			p.execute(Input{Text: "a", RequestID: "r"})
			return []string{
				"b",
				"a",
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			stages(t, func(s *stage) {
				late, other := s.process(Options{}, nil), s.process(Options{}, nil)
				stopped := late.stopBefore("Begin")
				a := late.begin(Input{Text: "a", RequestID: "r"})
				stopped.reached()
				s.takeOver()
				s.aside(Input{Text: "b"})
				stopped.goOn()
				a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
				s.ends(next(other)...)
			})
		})
	}
}

// Convicts: going on from a moved run's payload. The payload was made from a state that is no longer the newest, so the
// run starts over from its input.
func TestProtocolMovedRun(t *testing.T) {
	stages(t, func(s *stage) {
		late, other := s.process(Options{}, nil), s.process(Options{}, nil)
		stopped := late.stopBefore("Begin")
		a := late.begin(Input{Text: "a"})
		stopped.reached()
		s.takeOver()
		s.aside(Input{Text: "b"})
		stopped.goOn()
		a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
		if run := wantRuns(t, other.Bot, 1)[0]; run.Seq == 0 || run.Base != "" {
			t.Fatalf("nothing of the run is saved: %+v", run)
		}
		other.recovers("settled")
		s.ends("b", "a")
	})
}

// Convicts: ErrFenced told as failure. The new owner settles the turn, and the client, who was told that it failed,
// sends it again.
func TestProtocolFenced(t *testing.T) {
	for iteration, method := range map[int]string{0: "save", 1: "append"} {
		t.Run(method, func(t *testing.T) {
			stages(t, func(s *stage) {
				old, adopted := s.stop(), s.stop()
				zombie := s.process(Options{}, old.stopAt(iteration))
				other := s.process(Options{}, adopted.stopAt(1))
				a := zombie.begin(Input{Text: "a", RequestID: "r"})
				old.reached()
				s.takeOver()
				again := other.begin(Input{Text: "a", RequestID: "r"})
				adopted.reached()
				old.goOn()
				a.fails(orchestrator.ErrIndeterminate, lock.ErrFenced)
				adopted.goOn()
				again.settles()
				s.ends("a")
			})
		})
	}
}

// Convicts: a lost reply told as failure. Whether the request arrived or not, the turn is in flight, or even settled.
func TestProtocolLostReply(t *testing.T) {
	for _, method := range []string{"Begin", "Save", "Append"} {
		for name, lost := range map[string]rule{"reply": replyLost, "request": requestLost} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				stages(t, func(s *stage) {
					cut := s.process(Options{Limits: orchestrator.Limits{SettleTimeout: impatient}}, nil)
					cut.from(method, lost)
					cut.begin(Input{Text: "a", RequestID: "r"}).fails(orchestrator.ErrIndeterminate, errLost)
					res := s.process(Options{}, nil).execute(Input{Text: "a", RequestID: "r"})
					if settled := method == "Append" && name == "reply"; res.Replayed != settled || res.Turn != 0 {
						t.Errorf("%+v", res)
					}
					s.ends("a")
				})
			})
		}
	}
}

// Convicts: an error although the reply can be had by asking again.
func TestProtocolLostReplyOnce(t *testing.T) {
	for _, method := range []string{"Claim", "Adopt", "Save", "Append", "Delete", "Mark"} {
		for name, lost := range map[string]rule{"reply": replyLost, "request": requestLost} {
			t.Run(method+" "+name, func(t *testing.T) {
				stages(t, func(s *stage) {
					s.crash(Input{Text: "a"})
					shaky := s.process(Options{}, nil)
					shaky.next(method, lost)
					shaky.execute(Input{Text: "b"})
					s.takeOver() // if the release was lost
					s.ends("a", "b")
				})
			})
		}
	}
}
