package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A listing counts the requests and the documents of a pass over runs and replies.
type listing struct{ runs, documents, held, owing int }

type listedSnapshots struct {
	snapshot.Store
	seen *listing
}

func (s listedSnapshots) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	s.seen.runs++
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.Store.Runs(ctx, q) {
			s.seen.documents += len(r.Payload)
			if !yield(r, err) {
				return
			}
		}
	}
}

type listedCheckpoints struct {
	checkpoint.Store
	seen *listing
}

func (s listedCheckpoints) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (map[string]string, error) {
	s.seen.held++
	return s.Store.Held(ctx, orchestrator, sessions)
}

func (s listedCheckpoints) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	s.seen.owing++
	return s.Store.Sessions(ctx, q)
}

// owned makes sessions of bot echo with an owner for a minute. Each has a run of 50 KB in flight, or an owed reply.
func owned(t *testing.T, w world, runs, owing int) {
	t.Helper()
	payload := json.RawMessage(`"` + strings.Repeat("x", 50_000) + `"`)
	for i := range runs + owing {
		k := checkpoint.Key{Orchestrator: "echo", Session: fmt.Sprint("s", i)}
		c, err := w.Checkpoints.Claim(t.Context(), k,
			checkpoint.ClaimRequest{Owner: "o", Nonce: fmt.Sprint(i), TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if i < runs {
			_, err = w.Snapshots.Begin(t.Context(), snapshot.Run{
				Key: k, ID: fmt.Sprint("run", i), Status: snapshot.Running, Fence: c.Fence,
				Payload: payload,
			})
		} else {
			err = w.Checkpoints.Append(t.Context(), c.Lease, checkpoint.Checkpoint{
				RunID: fmt.Sprint("run", i), State: json.RawMessage("{}"), Signature: "s",
			}, checkpoint.AppendOptions{Owes: true})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A pass reads no run that has an owner, and asks for all owners at once. It finds a run that no longer has an owner.
func TestPassOverLiveRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		owned(t, w, 300, 20)
		seen := new(listing)
		w.Checkpoints, w.Snapshots = listedCheckpoints{w.Checkpoints, seen}, listedSnapshots{w.Snapshots, seen}
		bot := w.Start(t, delivered(echo()), Options{})
		if got := recoverable(t, bot, true); len(got) > 0 {
			t.Errorf("%d sessions are to be recovered that others own", len(got))
		}
		if want := (listing{runs: 1, held: 1, owing: 1}); *seen != want {
			t.Errorf("the pass asked %+v, want %+v", *seen, want)
		}
		time.Sleep(time.Minute)
		if got := recoverable(t, bot, true); len(got) != 320 || seen.documents > 0 {
			t.Errorf("of 320 sessions whose owners are dead %d are found, by reading %d bytes", len(got),
				seen.documents)
		}
	})
}

// Processes that can recover the same runs share one watcher. Other processes have another watcher. A store that does
// not know processes has none.
func TestWatching(t *testing.T) {
	w := newWorld()
	migrating := echo()
	migrating.Migrate = func(context.Context, checkpoint.Checkpoint) (State, error) { return State{}, nil }
	newer := echo()
	newer.Version = "2"
	other := echo()
	other.Intents["another"] = Intent{Run: say("another")}
	other.First = "echo"
	elsewhere := echo()
	elsewhere.Name = "elsewhere"
	watches := func(bot *Bot) bool {
		t.Helper()
		left, err := bot.Watching(t.Context(), time.Minute, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return left == 0
	}
	first := w.Start(t, echo(), Options{})
	if second := w.Start(t, echo(), Options{}); !watches(first) || watches(second) || !watches(first) {
		t.Error("two processes watch, or none")
	}
	// Another state, of the same definition and version, loses other runs.
	before := bottest.StartAs(t, w, lesser())
	if left, err := before.Watching(t.Context(), time.Minute, time.Hour); left != 0 || err != nil {
		t.Errorf("a process of another state is told that another watches for %v, %v", left, err)
	}
	stateless := worldOf(w.Checkpoints, nil)
	for what, bot := range map[string]*Bot{
		"with Migrate": w.Start(t, migrating, Options{}), "with Deliver": w.Start(t, delivered(echo()), Options{}),
		"of another version": w.Start(t, newer, Options{}), "of another signature": w.Start(t, other, Options{}),
		"of another bot":           w.Start(t, elsewhere, Options{}),
		"without a snapshot store": stateless.Start(t, echo(), Options{}),
	} {
		if !watches(bot) {
			t.Errorf("a process %s is told that another watches", what)
		}
	}
	if left, err := first.Watching(t.Context(), time.Hour, time.Hour); left != 0 || err != nil {
		t.Errorf("a process that looks less often is told that another watches for %v, %v", left, err)
	}
	plain := worldOf(struct{ checkpoint.Store }{w.Checkpoints}, w.Snapshots)
	_, err := plain.Start(t, echo(), Options{}).Watching(t.Context(), time.Minute, time.Hour)
	wantErr(t, err, errors.ErrUnsupported)
	_, err = first.Watching(t.Context(), time.Minute, -1)
	wantOp(t, err, "watching")
}

// If a store fails while it lists, the sessions that it listed before are recovered all the same.
func TestRecoverableBeforeAnError(t *testing.T) {
	w := newWorld()
	left := snapshot.Run{
		Key: snapshot.Key{Orchestrator: "echo", Session: "left"}, ID: "run", Attempt: 1, Status: snapshot.Running,
		Fence: lock.Fence{Epoch: 1, Nonce: "n"},
	}
	if found, err := w.Snapshots.Begin(t.Context(), left); found != nil || err != nil {
		t.Fatal(found, err)
	}
	for what, broken := range map[string]world{
		"runs":     worldOf(w.Checkpoints, faulttest.Snapshots(w.Snapshots, faulttest.On(listsAndFails, "Runs"))),
		"sessions": worldOf(faulttest.Checkpoints(w.Checkpoints, faulttest.Fail(errBot, "Sessions")), w.Snapshots),
		"held":     worldOf(faulttest.Checkpoints(w.Checkpoints, faulttest.Fail(errBot, "Held")), w.Snapshots),
	} {
		var sessions []string
		failed := false
		for session, err := range broken.Start(t, echo(), Options{}).Recoverable(t.Context(), true) {
			if err == nil {
				sessions = append(sessions, session)
			}
			failed = failed || errors.Is(err, errBot)
		}
		if !slices.Equal(sessions, []string{"left"}) || !failed {
			t.Errorf("%s fail: to recover are %q, and the error is told: %v", what, sessions, failed)
		}
	}
}

// listsAndFails fails after what it has listed.
func listsAndFails(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
	_ = next(ctx)
	return errBot
}
