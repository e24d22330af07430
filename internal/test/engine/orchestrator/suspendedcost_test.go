package orchestrator_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A readRuns notes what is read of runs.
type readRuns struct {
	snapshot.Store
	queries        []snapshot.Query
	runs, payloads int
}

func (s *readRuns) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	s.queries = append(s.queries, q)
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.Store.Runs(ctx, q) {
			s.runs++
			if r.Payload != nil {
				s.payloads++
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// A readEffects notes what is read of effects.
type readEffects struct {
	ledger.Ledger
	queries []ledger.Query
}

func (l *readEffects) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	l.queries = append(l.queries, q)
	return l.Ledger.Effects(ctx, q)
}

// The cost of suspended runs to a drain. Which runs are due is asked for alone. All runs are read once without their
// payloads, and so are the open effects; no run is looked at by itself. A drain starts no goroutine for a suspended run.
func TestSuspendedCost(t *testing.T) {
	const suspended, mostBytes = 10_000, 1 << 20
	const mostGoroutines = suspended / 10 // the count is of the whole process, and tests before this one may start some
	runs, effects := &readRuns{Store: new(snapshot.Memory)}, &readEffects{Ledger: new(ledger.Memory)}
	w := world{new(checkpoint.Memory), runs}
	d := single(func(context.Context, *Turn) error { return nil })
	payload := fmt.Appendf(nil, `{"v":1,"born":1,"input":{"text":%q},"doubt":["effect 7"]}`, strings.Repeat("x", 4096))
	for i := range suspended {
		suspend(t, w.snapshots, effects, d.Name, fmt.Sprint(i), payload)
	}
	bot := w.start(t, d, Options{Ledger: effects, Limits: orchestrator.Limits{DeadAfter: -1}})
	recoverable(t, bot, true) // from now on no other pass is for all
	for _, all := range []bool{false, true} {
		runs.queries, runs.runs, runs.payloads, effects.queries = nil, 0, 0, nil
		started, bytes := goroutines(), allocated()
		found := recoverable(t, bot, all)
		started, bytes = goroutines()-started, allocated()-bytes
		t.Logf("all %t: %d runs read, %d bytes allocated, %d goroutines started", all, runs.runs, bytes, started)
		want := snapshot.Query{Key: snapshot.Key{Orchestrator: d.Name}, Brief: true}
		var asked []ledger.Query
		if all {
			asked = []ledger.Query{{Orchestrator: d.Name, Open: true, Brief: true}}
		} else {
			want.Status = snapshot.Waiting
			if bytes > mostBytes || runs.runs > 0 {
				t.Errorf("a pass for what is due reads %d runs, and allocates %d bytes; at most %d are allowed",
					runs.runs, bytes, mostBytes)
			}
		}
		if len(found) > 0 || runs.payloads > 0 || started > mostGoroutines {
			t.Errorf("all %t: %d sessions, %d payloads read, %d goroutines started", all, len(found), runs.payloads, started)
		}
		if !slices.Equal(runs.queries, []snapshot.Query{want}) || !slices.Equal(effects.queries, asked) {
			t.Errorf("all %t: runs are asked for %+v, and effects %+v", all, runs.queries, effects.queries)
		}
	}
	// The answered one, and none of the others, is found by the pass for all.
	answer := ledger.Answer{Landed: true, Result: []byte(`1`), By: "ann"}
	if err := ledger.Resolve(t.Context(), effects, "effect 7", answer); err != nil {
		t.Fatal(err)
	}
	if found := recoverable(t, bot, true); !slices.Equal(found, []string{"7"}) || runs.payloads > 1 {
		t.Errorf("after an answer the sessions %q are found, and %d payloads are read", found, runs.payloads)
	}
}

// suspend leaves a session with a suspended run and its open effect.
func suspend(t *testing.T, runs snapshot.Store, l ledger.Ledger, bot, session string, payload []byte) {
	t.Helper()
	f := lock.Fence{Epoch: 1, Nonce: "n"}
	if _, err := runs.Begin(t.Context(), snapshot.Run{
		Key: snapshot.Key{Orchestrator: bot, Session: session}, ID: "run " + session, Attempt: 1,
		Status: snapshot.Suspended, Fence: f, Payload: payload,
	}); err != nil {
		t.Fatal(err)
	}
	e := ledger.Effect{
		ID: "effect " + session, Orchestrator: bot, Session: session, RunID: "run " + session, Intent: "work", Name: "pay",
		Fence: f,
	}
	now, _, err := l.Issue(t.Context(), e, false)
	if err == nil {
		_, err = l.Finish(t.Context(), e.ID, now.Attempts, ledger.Outcome{State: ledger.Unknown})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goroutines returns how many goroutines this process has started.
func goroutines() uint64 {
	s := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// allocated returns how many bytes this process has allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
