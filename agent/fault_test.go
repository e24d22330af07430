package agent_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/agenttest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/transcript"
)

// A store fails once, at any call of what a program asks of a session whose grandchild waits. Without an error all of
// it is done. Otherwise the same again does it.
func TestStoreFailsOnce(t *testing.T) {
	type boss = *agent.Agent[none]
	waits := func(t *testing.T, all []boss) (n int) {
		for _, a := range all {
			for o, err := range a.Waiting(t.Context(), "") {
				if n++; err != nil {
					t.Fatal(o, err)
				}
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		do   func(context.Context, boss) error
		done func(*testing.T, agent.Stores, []boss) bool
	}{
		"branch": {
			func(ctx context.Context, a boss) error { return a.Branch(ctx, "s", 1, "b") },
			func(t *testing.T, _ agent.Stores, all []boss) bool {
				s, _ := get(t, all[0], "b")
				return len(s.Open) == 0 && strings.Count(told(t, all[0], "b"), agenttest.Long) == 1
			},
		},
		"delete": {
			func(ctx context.Context, a boss) error { return a.Delete(ctx, "s") },
			func(t *testing.T, st agent.Stores, all []boss) bool {
				left := 0
				for _, a := range all {
					left += len(sessionsOf(t, st, a.Name()))
				}
				k := transcript.Key{Orchestrator: "boss", Session: "s"}
				for _, err := range st.Transcript.Read(t.Context(), k, []transcript.Span{{From: 1, Through: 1}}) {
					if err == nil {
						left++
					}
				}
				return left == 0
			},
		},
		"drop": {
			func(ctx context.Context, a boss) error { _, err := a.Drop(ctx, "s"); return err },
			func(t *testing.T, _ agent.Stores, all []boss) bool { return waits(t, all) == 0 },
		},
		"answer": {
			func(ctx context.Context, a boss) error {
				_, err := a.Answer(ctx, "s", "p", agent.Approve("ann"))
				return err
			},
			func(t *testing.T, _ agent.Stores, all []boss) bool {
				s, _ := get(t, all[0], "s")
				if s.Status == agent.Failed { // what was said could not be read for the model: the results are there
					o, err := all[0].Continue(t.Context(), "s", nil)
					s.Status = settled(t, o, err).Status
				}
				return s.Status == agent.Completed && waits(t, all) == 0 &&
					strings.HasSuffix(told(t, all[0], "s"), "assistant paid")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls := int32(1)
			for number := int32(1); number <= calls && !t.Failed(); number++ {
				synctest.Test(t, func(t *testing.T) {
					st, paid := agent.InMemory(), new(atomic.Int32)
					a, clerk, payer := family(t, st, paid)
					all := []boss{a, clerk, payer}
					say(t, a, "s", agenttest.Long)
					around, seen := fault{}.at(number)
					weak, _, _ := family(t, agent.Stores{
						Checkpoints: faulttest.Checkpoints(st.Checkpoints, around),
						Snapshots:   faulttest.Joined(st.Snapshots, st.Checkpoints, nil, around),
						Transcript:  faulttest.Transcripts(st.Transcript, around),
						Ledger:      faulttest.Ledger(st.Ledger, around),
						Inbox:       faulttest.Inbox(st.Inbox, around),
					}, paid)
					err := c.do(t.Context(), weak)
					calls = seen.Load() + 1
					if err == nil && !c.done(t, st, all) {
						t.Errorf("call %d: no error, and it is not done", number)
					}
					time.Sleep(time.Hour) // what is owned is free
					if err != nil {
						if again := c.do(t.Context(), a); again != nil || !c.done(t, st, all) {
							t.Errorf("call %d: %v; again %v, and it is not done", number, err, again)
						}
					}
				})
			}
			if calls < 8 {
				t.Errorf("only %d calls", calls)
			}
		})
	}
}
