package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/stream"
)

// A listed store yields rows that it does not have. errs are the errors of rows, by their place.
type listed struct {
	snapshot.Store
	runs []snapshot.Run
	errs map[int]error
}

func (l listed) Runs(context.Context, snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for i, r := range l.runs {
			if !yield(r, l.errs[i]) {
				return
			}
		}
	}
}

// inStatuses is a list of runs: one at work, two that wait, three that are suspended, four that are parked, one that
// has ended and is about to be deleted, and one that is damaged.
func inStatuses(s snapshot.Store) listed {
	l := listed{Store: s, errs: make(map[int]error)}
	for status, n := range map[snapshot.Status]int{
		snapshot.Running: 1, snapshot.Waiting: 2, snapshot.Suspended: 3, snapshot.Parked: 4, snapshot.Ended: 1, "": 1,
	} {
		for range n {
			k := snapshot.Key{Orchestrator: "echo", Session: string('a' + rune(len(l.runs)))}
			if status == "" {
				l.errs[len(l.runs)] = snapshot.Damaged(k, errors.New("no JSON"))
			}
			l.runs = append(l.runs, snapshot.Run{Key: k, ID: "r", Status: status})
		}
	}
	return l
}

// A Backlog counts the runs by their statuses, and those that cannot be read. If the store fails, nothing is counted.
func TestBacklogCounts(t *testing.T) {
	w := newWorld()
	l := inStatuses(w.Snapshots)
	w.Snapshots = l
	got, err := w.Start(t, echo(), Options{}).Backlog(t.Context())
	want := orchestrator.Backlog{Running: 1, Waiting: 2, Suspended: 3, Parked: 4, Damaged: 1}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	l.errs[5] = snapshot.ErrRefused
	_, err = w.Start(t, echo(), Options{}).Backlog(t.Context())
	wantErr(t, err, orchestrator.ErrUnavailable)
}

// Runs yields all but what has ended, goes on after a damaged run, and ends with the first other error, or the loop.
func TestRunsGoOn(t *testing.T) {
	w := newWorld()
	l := inStatuses(w.Snapshots)
	w.Snapshots = l
	bot := w.Start(t, echo(), Options{})
	whole, damaged := 0, 0
	for r, err := range bot.Runs(t.Context()) {
		switch {
		case err == nil && r.Status != snapshot.Ended:
			whole++
		case errors.Is(err, snapshot.ErrDamaged) && r.Session != "":
			damaged++
		default:
			t.Errorf("%+v, %v", r, err)
		}
	}
	if whole != 10 || damaged != 1 {
		t.Errorf("%d runs, %d damaged", whole, damaged)
	}
	for r, err := range bot.Runs(t.Context()) {
		t.Log("the loop ends after", r.Session, err)
		break
	}
	l.errs[3] = snapshot.ErrRefused
	var errs []error
	rows := 0
	for _, err := range bot.Runs(t.Context()) {
		if rows++; err != nil && !errors.Is(err, snapshot.ErrDamaged) {
			errs = append(errs, err)
		}
	}
	if len(errs) != 1 || !errors.Is(errs[0], orchestrator.ErrUnavailable) || rows > 4 {
		t.Errorf("%d rows, %v", rows, errs)
	}
}

// Turns of a name that no session can have yields one error.
func TestTurnsRefused(t *testing.T) {
	var errs []error
	for res, err := range newWorld().Start(t, echo(), Options{}).Turns(t.Context(), "") {
		if res != nil || err == nil {
			t.Error(res, err)
		}
		errs = append(errs, err)
	}
	if len(errs) != 1 {
		t.Errorf("%v", errs)
	}
}

// Turn reads one kept turn. Its errors name the turn, and are those of Turns.
func TestOneTurn(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, echo(), Options{KeepSnapshots: 2})
	for _, text := range []string{"a", "b", "c"} {
		execute(t, bot, Input{Text: text})
	}
	for turn, want := range map[int]string{checkpoint.Newest: "c", 2: "c", 1: "b"} {
		if res, err := bot.Turn(t.Context(), "s", turn); err != nil || res.Input.Text != want {
			t.Errorf("turn %d: %v, %v, want %s", turn, res, err, want)
		}
	}
	for _, c := range []struct {
		bot     *Bot
		session string
		turn    int
		want    error
	}{
		{bot, "s", 0, checkpoint.ErrNotFound},
		{bot, "s", 3, checkpoint.ErrNotFound},
		{bot, "unknown", 1, checkpoint.ErrNotFound},
		{bot, "", 1, nil},
		{worldOf(refusingTurns{w.Checkpoints}, w.Snapshots).Start(t, echo(), Options{}), "s", 1, orchestrator.ErrUnavailable},
	} {
		res, err := c.bot.Turn(t.Context(), c.session, c.turn)
		e, ok := errors.AsType[*orchestrator.Error](err)
		if res != nil || !ok || e.Op != "turn" || e.Turn != c.turn || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("turn %d of %q: %v, %v", c.turn, c.session, res, err)
		}
	}
}

// refusingTurns reads no turn.
type refusingTurns struct{ checkpoint.Store }

func (s refusingTurns) Turns(context.Context, checkpoint.Key, int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) { yield(checkpoint.Checkpoint{}, store.ErrRefused) }
}

// LastShown says where a reader stands, and whether to wait for more.
func TestLastShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events, next := newWorld(), new(stream.Memory), make(chan struct{})
		bot := w.Start(t, talks(next), Options{Stream: events})
		want := func(number int64, more bool) {
			t.Helper()
			n, m, err := bot.LastShown(t.Context(), "s")
			if err != nil || n != number || m != more {
				t.Errorf("%d, %t, %v, want %d, %t", n, m, err, number, more)
			}
		}
		want(0, false)
		call := bot.Stream(t.Context(), "s", Input{Text: "one", RequestID: "r"}, nil)
		synctest.Wait()
		want(0, true) // the turn is at work, and nothing is shown yet
		time.Sleep(time.Second)
		n, more, err := bot.LastShown(t.Context(), "s")
		if err != nil || n == 0 || !more {
			t.Errorf("in flight: %d, %t, %v", n, more, err)
		}
		next <- struct{}{}
		if _, err := call.Result(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		all, last := followed(t, bot, 0)
		want(last, false)
		if int64(len(all)) != last || last <= n {
			t.Errorf("%d events up to %d, after %d", len(all), last, n)
		}
	})
}

// LastShown and Follow refuse a bad name, and a bot without a stream. They return the error of a store that fails.
func TestShownRefused(t *testing.T) {
	bad := errors.New("the store is away")
	for name, c := range map[string]struct {
		events  stream.Store
		session string
		want    error
	}{
		"no session": {new(stream.Memory), "", nil},
		"no stream":  {nil, "s", orchestrator.ErrNoStream},
		"away":       {lastAway{new(stream.Memory), bad}, "s", bad},
	} {
		t.Run(name, func(t *testing.T) {
			bot := newWorld().Start(t, echo(), Options{Stream: c.events})
			number, more, err := bot.LastShown(t.Context(), c.session)
			var followed []error
			for _, err := range bot.Follow(t.Context(), c.session, 0) {
				followed = append(followed, err)
			}
			for _, err := range append(followed, err) {
				if err == nil || number != 0 || more {
					t.Errorf("%d, %t, %v", number, more, err)
				}
				if c.want != nil {
					wantErr(t, err, c.want)
				}
				wantOp(t, err, "follow")
			}
			if len(followed) != 1 {
				t.Errorf("Follow yields %v", followed)
			}
		})
	}
}

// lastAway is a stream store whose Last fails.
type lastAway struct {
	stream.Store
	err error
}

func (l lastAway) Last(context.Context, stream.Key) (int64, string, stream.Status, error) {
	return 0, "", stream.Active, l.err
}

// A chunk that is no event ends a reader: it is to begin anew.
func TestFollowForeignChunk(t *testing.T) {
	w, events := newWorld(), new(stream.Memory)
	bot := w.Start(t, echo(), Options{Stream: events})
	k := stream.Key{Orchestrator: bot.Name(), Session: "s"}
	docs := []json.RawMessage{json.RawMessage(`{"kind":"token"}`), json.RawMessage(`"no event"`)}
	if _, err := events.Append(t.Context(), k, "r", 1, stream.Ended, docs); err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, err := range bot.Follow(t.Context(), "s", 0) {
		errs = append(errs, err)
	}
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], stream.ErrGone) {
		t.Errorf("%v", errs)
	}
}

// Without a checkpoint.Inspector, Inspect says the newest turn by reading it.
func TestInspectWithoutInspector(t *testing.T) {
	w := newWorld()
	execute(t, w.Start(t, echo(), Options{}), Input{Text: "a"})
	execute(t, w.Start(t, echo(), Options{}), Input{Text: "b"})
	plain := worldOf(struct{ checkpoint.Store }{w.Checkpoints}, w.Snapshots)
	st, err := plain.Start(t, echo(), Options{}).Inspect(t.Context(), "s")
	if err != nil || st.Turn != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}
