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
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A readEffects notes what is read of effects.
type readEffects struct {
	ledger.Ledger
	queries []ledger.Query
}

func (l *readEffects) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	l.queries = append(l.queries, q)
	return l.Ledger.Effects(ctx, q)
}

// The cost of suspended runs to a drain. The first pass for all reads all runs once without their payloads, and so the
// open effects; it looks at no run by itself. After that no pass reads a suspended run, and a pass for all asks what a
// person has answered. A drain starts no goroutine for a suspended run.
func TestSuspendedCost(t *testing.T) {
	const suspended, mostBytes = 10_000, 1 << 20
	const mostGoroutines = suspended / 10 // the count is of the whole process, and tests before this one may start some
	runs, effects := &readRuns{Store: new(snapshot.Memory)}, &readEffects{Ledger: new(ledger.Memory)}
	w := worldOf(new(checkpoint.Memory), runs)
	d := single(func(context.Context, *Turn) error { return nil })
	for i := range suspended {
		suspend(t, w.Snapshots, effects, d.Name, fmt.Sprint(i), doubting("effect 7"))
	}
	bot := w.Start(t, d, Options{Ledger: effects, Limits: orchestrator.Limits{DeadAfter: -1}})
	shop := snapshot.Query{Key: snapshot.Key{Orchestrator: d.Name}, Brief: true}
	waiting, unattended := shop, shop
	waiting.Status, unattended.Unattended = snapshot.Waiting, true
	open := ledger.Query{Orchestrator: d.Name, Open: true, Brief: true}
	answered := ledger.Query{AnsweredWithin: time.Nanosecond, Brief: true}
	for _, pass := range []struct {
		name    string
		all     bool
		runs    snapshot.Query
		effects []ledger.Query
	}{
		{"the first for all", true, shop, []ledger.Query{open}},
		{"for what is due", false, waiting, nil},
		{"another for all", true, unattended, []ledger.Query{answered}},
	} {
		runs.Queries, runs.Reads, runs.Payloads, effects.queries = nil, 0, 0, nil
		started, bytes := goroutines(), allocated()
		found := recoverable(t, bot, pass.all)
		started, bytes = goroutines()-started, allocated()-bytes
		t.Logf("%s: %d runs read, %d bytes allocated, %d goroutines started", pass.name, runs.Reads, bytes, started)
		if pass.name != "the first for all" && (bytes > mostBytes || runs.Reads > 0) {
			t.Errorf("%s: %d runs read, and %d bytes allocated; at most %d are allowed",
				pass.name, runs.Reads, bytes, mostBytes)
		}
		if len(found) > 0 || runs.Payloads > 0 || started > mostGoroutines {
			t.Errorf("%s: %d sessions, %d payloads read, %d goroutines started",
				pass.name, len(found), runs.Payloads, started)
		}
		for i := range effects.queries {
			effects.queries[i].AnsweredWithin = min(effects.queries[i].AnsweredWithin, time.Nanosecond)
		}
		if !slices.Equal(runs.Queries, []snapshot.Query{pass.runs}) || !slices.Equal(effects.queries, pass.effects) {
			t.Errorf("%s: runs are asked for %+v, and effects %+v", pass.name, runs.Queries, effects.queries)
		}
	}
	// The answered one, and none of the others, is found by the pass for all, and read.
	answer(t, effects, "effect 7")
	runs.Reads = 0
	found := recoverable(t, bot, true)
	if !slices.Equal(found, []string{"7"}) || runs.Payloads != 1 || runs.Reads != 2 {
		t.Errorf("after an answer the sessions %q are found; %d runs and %d payloads are read",
			found, runs.Reads, runs.Payloads)
	}
}

// A drain looks at all suspended runs now and then. In between it finds those for which a person has answered.
func TestSuspendedLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, effects := &readRuns{Store: new(snapshot.Memory)}, &awayEffects{Ledger: new(ledger.Memory)}
		d := single(func(context.Context, *Turn) error { return nil })
		bot := worldOf(new(checkpoint.Memory), runs).Start(t, d,
			Options{Ledger: effects, Limits: orchestrator.Limits{DeadAfter: -1}})
		want := func(when string, sessions ...string) {
			t.Helper()
			if found := recoverable(t, bot, true); !slices.Equal(found, sessions) {
				t.Errorf("%s: %q are found, want %q", when, found, sessions)
			}
		}
		whole := func() { // the next pass looks at all
			t.Helper()
			time.Sleep(5 * time.Minute)
			recoverable(t, bot, true)
		}
		for _, session := range []string{"answered", "committed late", "late", "at work", "never"} {
			suspend(t, runs, effects, d.Name, session, doubting("effect "+session))
		}
		whole()

		answer(t, effects, "effect answered")
		for range 4 { // for as long as it does not go on, even if each pass fails to recover it
			want("after an answer", "answered")
			time.Sleep(time.Minute)
		}
		change(t, runs, d.Name, "answered", snapshot.Waiting)
		want("when the answered one has gone on")

		// The transaction of an answer takes longer than the pause between two passes.
		answer(t, effects, "effect committed late")
		effects.Hidden = true
		for range 5 {
			time.Sleep(10 * time.Second)
			want("before the answer is committed")
		}
		effects.Hidden = false
		time.Sleep(time.Second)
		want("after the answer was committed", "committed late")
		change(t, runs, d.Name, "committed late", snapshot.Parked)

		// A former owner brings a result. No person has answered.
		whole()
		o := ledger.Outcome{State: ledger.Completed, Result: []byte(`1`)}
		if _, err := effects.Finish(t.Context(), "effect late", 1, o); err != nil {
			t.Fatal(err)
		}
		want("after a late result")
		time.Sleep(5 * time.Minute)
		want("five minutes later", "late")
		change(t, runs, d.Name, "late", snapshot.Parked)

		// A person answers while the run is at work on something else. Minutes later it is suspended.
		whole()
		change(t, runs, d.Name, "at work", snapshot.Waiting)
		answer(t, effects, "effect at work")
		want("while the run is at work")
		time.Sleep(2 * time.Minute)
		want("while the run is at work still")
		change(t, runs, d.Name, "at work", snapshot.Suspended)
		want("when the run is suspended", "at work")
		change(t, runs, d.Name, "at work", snapshot.Parked)

		// A run waits for an effect that another run has issued by its Key.
		suspend(t, runs, effects, d.Name, "first", doubting("effect of both"))
		suspend(t, runs, effects, d.Name, "second", doubting("effect of both"))
		for _, own := range []string{"effect first", "effect second"} {
			answer(t, effects, own)
		}
		issueUnknown(t, effects, ledger.Effect{
			ID: "effect of both", Orchestrator: d.Name, Session: "first", RunID: "run first", Name: "pay", Key: "7",
		})
		whole()
		time.Sleep(2 * time.Minute)
		want("before the answer for both")
		answer(t, effects, "effect of both")
		want("after the answer for both", "first", "second")
		runs.Queries = nil
		want("after the answer for both, again", "first", "second")
		if slices.ContainsFunc(runs.Queries, func(q snapshot.Query) bool { return q.Status == snapshot.Suspended }) {
			t.Error("one answer makes two looks at all suspended runs")
		}

		// A run that cannot be read is told in each pass.
		change(t, runs, d.Name, "first", snapshot.Parked)
		change(t, runs, d.Name, "second", snapshot.Parked)
		suspend(t, runs, effects, d.Name, "damaged", []byte(`{"v":1}`))
		whole()
		answer(t, effects, "effect damaged")
		for range 3 {
			told := 0
			for session, err := range bot.Recoverable(t.Context(), true) {
				if wantErr(t, err, snapshot.ErrDamaged); session == "damaged" {
					told++
				}
			}
			if told != 1 {
				t.Errorf("a damaged run is told %d times", told)
			}
			time.Sleep(time.Minute)
		}
	})
}

// A look that a ledger ends, or that its caller leaves, is made once more.
func TestSuspendedLookFails(t *testing.T) {
	runs, effects := new(snapshot.Memory), &awayEffects{Ledger: new(ledger.Memory)}
	d := single(func(context.Context, *Turn) error { return nil })
	bot := worldOf(new(checkpoint.Memory), runs).Start(t, d,
		Options{Ledger: effects, Limits: orchestrator.Limits{DeadAfter: -1}})
	for _, session := range []string{"a", "b"} {
		suspend(t, runs, effects.Ledger, d.Name, session, doubting("effect "+session))
		answer(t, effects.Ledger, "effect "+session)
	}
	fails := func() {
		t.Helper()
		effects.Away = true
		for session, err := range bot.Recoverable(t.Context(), true) {
			if wantErr(t, err, errAway); session != "" {
				t.Errorf("session %q is found", session)
			}
		}
		effects.Away = false
	}
	fails()
	for session, err := range bot.Recoverable(t.Context(), true) {
		if session != "a" || err != nil {
			t.Errorf("%q, %v", session, err)
		}
		break
	}
	for range 2 {
		if found := recoverable(t, bot, true); !slices.Equal(found, []string{"a", "b"}) {
			t.Errorf("%q are found", found)
		}
		fails()
	}
}

// doubting returns a payload of 4 KiB of a run that waits for an effect.
func doubting(effect string) []byte {
	return fmt.Appendf(nil, `{"v":1,"born":1,"input":{"text":%q},"doubt":[%q]}`, strings.Repeat("x", 4096), effect)
}

// answer says that an effect landed.
func answer(t *testing.T, l ledger.Ledger, effect string) {
	t.Helper()
	a := ledger.Answer{Landed: true, Result: []byte(`1`), By: "ann"}
	if err := ledger.Resolve(t.Context(), l, effect, a); err != nil {
		t.Fatal(err)
	}
}

// change saves the run of a session anew, which is not due for a while.
func change(t *testing.T, runs snapshot.Store, bot, session string, status snapshot.Status) {
	t.Helper()
	for r, err := range runs.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: bot, Session: session}}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Seq++
		r.Status, r.Pause = status, time.Hour
		if err := runs.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
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
	issueUnknown(t, l, ledger.Effect{
		ID: "effect " + session, Orchestrator: bot, Session: session, RunID: "run " + session,
		Intent: "work", Name: "pay",
	})
}

// issueUnknown issues an effect, which is in doubt from then on.
func issueUnknown(t *testing.T, l ledger.Ledger, e ledger.Effect) {
	t.Helper()
	e.Fence = lock.Fence{Epoch: 1, Nonce: "n"}
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
