package bootdrain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// tell is the job of a process with a turn log. Its turns end in different ways, each in a session of its own.
const tell = "tell"

// The ways in which turns end. The name of a session begins with one.
const (
	completes = "completes"
	fails     = "fails"
	abandoned = "abandoned"
)

// logPoints are the calls of a turn at which its process is killed, before them and after them.
var logPoints = []string{
	"Claim", "Begin", "log started", "work", "log llm-complete", "Adopt", "Save", "Append", "log settled", "Delete",
	"Deliver", "Mark",
}

// recorder returns a bot with a turn log. at is called before and after each call.
func (w opened) recorder(deliver, healthy bool, at passage) (*bot, error) {
	around := func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		name := c.Method
		if name == "RecordPhase" {
			name = "log " + c.Phase
		}
		at(c.Session, "before "+name)
		err := next(ctx)
		at(c.Session, "after "+name)
		return err
	}
	d := orchestrator.Definition[talk]{
		Name: "support", First: "work",
		Intents: orchestrator.Intents[talk]{"work": {Run: func(ctx context.Context, t *turn) error {
			at(t.Session, "before work")
			defer at(t.Session, "after work")
			if err := t.Record(ctx, turnlog.LLMComplete, nil); err != nil {
				return err
			}
			t.State.Said = append(t.State.Said, t.Input.Text)
			how, _, _ := strings.Cut(t.Session, " ")
			switch {
			case healthy:
			case how == fails:
				return errors.New("it fails")
			case how == abandoned:
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}}},
	}
	if deliver {
		d.Deliver = func(_ context.Context, res *orchestrator.Result[talk]) error {
			at(res.Session, "before Deliver")
			err := w.note(&turn{Session: res.Session, Input: orchestrator.Input{Text: "delivered"}})
			at(res.Session, "after Deliver")
			return err
		}
	}
	return orchestrator.New(d, faulttest.Checkpoints(w.checkpoints, around), &orchestrator.Options{
		Snapshots: faulttest.Snapshots(w.snapshots, around), TurnLog: faulttest.TurnLog(w.log, around),
		Limits: w.limits, Logger: quiet,
	})
}

// tell plays the turns. Each stops at the point DieIn, if it comes there. When all have stopped or ended, the process
// is killed.
func (k *worker) tell(ctx context.Context, w opened) error {
	var arrived sync.WaitGroup
	arrived.Add(len(k.Sessions))
	once := make(map[string]func())
	working := make(map[string]chan struct{})
	for _, session := range k.Sessions {
		once[session], working[session] = sync.OnceFunc(arrived.Done), make(chan struct{}, 1)
	}
	bot, err := w.recorder(k.Body == "deliver", false, func(session, point string) {
		if point == "before work" {
			working[session] <- struct{}{}
		}
		if point == k.DieIn {
			once[session]()
			select {} // until the process is killed
		}
	})
	if err != nil {
		return err
	}
	for _, session := range k.Sessions {
		over := make(chan struct{})
		go func() {
			_, _ = bot.Execute(ctx, session, orchestrator.Input{Text: "hello"}, nil)
			close(over)
			if !strings.HasPrefix(session, abandoned) {
				once[session]()
			}
		}()
		if strings.HasPrefix(session, abandoned) {
			go func() {
				<-working[session]
				_, _ = bot.Abandon(ctx, session, "")
				once[session]()
			}()
		}
	}
	arrived.Wait()
	fmt.Println(inFlight)
	<-k.goOn
	return nil
}

// A process is killed before and after each call of a turn, of one that fails and of one that is abandoned, with
// Deliver and without. A second process finishes. The log has one started, first, and one settled, last, which says
// what the stores have. A reply is handed over once, unless the process was killed right after it. B3, B22, B36, B44,
// B48. Each site has a part of the calls.
func TestTurnLogKilled(t *testing.T) {
	sites(t, func(t *testing.T, s site, w opened) {
		if w.log == nil {
			return
		}
		for _, deliver := range []string{"deliver", ""} {
			b, err := w.recorder(deliver != "", true, func(string, string) {})
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range logPoints {
				if name == "Deliver" && deliver == "" {
					continue
				}
				for j, point := range []string{"before " + name, "after " + name} {
					if !s.takes(i + j + len(deliver)) {
						continue
					}
					sessions := []string{
						strings.Join([]string{completes, point, deliver}, " "),
						strings.Join([]string{fails, point, deliver}, " "),
						strings.Join([]string{abandoned, point, deliver}, " "),
					}
					p := job{Do: tell, Site: s, Body: deliver, DieIn: point, Sessions: sessions}.start(t)
					p.hear(inFlight)
					p.kill()
					w.freeIfOwned(t, sessions...)
					w.passOnce(t, b, sessions)
					for _, session := range sessions {
						w.wantLogged(t, b, session, deliver != "", point)
					}
				}
			}
		}
	})
	leaktest.None(t, testenv.Leaks()...)
}

// passOnce finishes the runs of the sessions in one pass. A call of the dead process may come to the server after its
// death, and own a session again. Then there is another pass.
func (w opened) passOnce(t *testing.T, b *bot, sessions []string) {
	t.Helper()
	ctx := patience(t)
	for again := true; again; again = w.freeIfOwned(t, sessions...) {
		if got, err := passes(ctx, b); err != nil {
			t.Fatal(got, err)
		}
	}
	wantRuns(t, b, 0)
}

// freeIfOwned is free for sessions that may have no owner. It reports whether one had.
func (w opened) freeIfOwned(t *testing.T, sessions ...string) bool {
	t.Helper()
	owned, err := w.checkpoints.Held(t.Context(), "support", sessions)
	if err != nil {
		t.Fatal(err)
	}
	sessions = slices.DeleteFunc(slices.Clone(sessions), func(session string) bool { return owned[session] == "" })
	w.free(t, sessions...)
	return len(sessions) > 0
}

// wantLogged checks that the log of a session says what the stores have.
func (w opened) wantLogged(t *testing.T, b *bot, session string, deliver bool, point string) {
	t.Helper()
	var all []turnlog.Entry
	runs := 0
	for turn, err := range w.log.Turns(t.Context(), turnlog.Query{Session: session}) {
		if err != nil {
			t.Fatal(err)
		}
		runs++
		if all, err = w.log.Restore(t.Context(), turn.First.Run); err != nil {
			t.Fatal(err)
		}
	}
	settled := 0
	for _, err := range b.Turns(t.Context(), session) {
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			t.Fatal(err)
		}
		settled++
	}
	var phases []string
	var end turnlog.SettledState
	for i, e := range all {
		// An owner that recorded twice in a millisecond is ahead of the one that took its run at once.
		if i > 0 && !all[i-1].At.Before(e.At) && !strings.HasPrefix(session, abandoned) {
			t.Errorf("%s: %s is not later than what was before", session, e.Phase)
		}
		if e.Phase != turnlog.LLMComplete {
			phases = append(phases, e.Phase)
		}
		if e.Phase == turnlog.Settled {
			if err := json.Unmarshal(e.State, &end); err != nil {
				t.Error(err)
			}
		}
	}
	if runs == 0 && settled == 0 { // killed before it began
		if !slices.Contains([]string{"before Claim", "after Claim", "before Begin"}, point) {
			t.Errorf("%s: nothing is left of it", session)
		}
		return
	}
	if runs != 1 || !slices.Equal(phases, []string{turnlog.Started, turnlog.Settled}) ||
		all[0].Phase != turnlog.Started || all[len(all)-1].Phase != turnlog.Settled {
		t.Errorf("%s: %d runs, with %q", session, runs, phases)
	}
	if (end.TurnState == turnlog.Complete) != (settled == 1) || settled > 1 {
		t.Errorf("%s: the log says %s, and %d turns have settled", session, end.TurnState, settled)
	}
	if settled == 1 && deliver && point != "after Deliver" && point != "before Mark" {
		w.wantStarts(t, session, "delivered", 1)
	}
}
