package stores_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Stores of one database settle a turn, record its end and delete its run in one transaction. If one of the three is
// not to be, the run stays.
func TestJoinEnds(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		all, ok := db.(relational)
		if !ok {
			t.Skip("has no turn log")
		}
		prepare(t, db)
		runs, ok := db.Snapshots().(snapshot.EndJoiner)
		if !ok {
			t.Fatalf("%T is no EndJoiner", db.Snapshots())
		}
		for what, settle := range map[string]snapshot.SettleEnd{
			"another database": runs.JoinEnds(new(checkpoint.Memory), all.TurnLog()),
			"another log":      runs.JoinEnds(db.Checkpoints(), new(turnlog.Memory)),
			"a checked log":    runs.JoinEnds(db.Checkpoints(), turnlog.New(all.TurnLog(), nil)),
		} {
			if settle != nil {
				t.Errorf("joins with %s", what)
			}
		}
		settle := runs.JoinEnds(db.Checkpoints(), all.TurnLog())
		if settle == nil {
			t.Skip("calls functions of the database")
		}
		end := snapshot.End{At: time.UnixMilli(1_700_000_000_000).UTC(), State: json.RawMessage(`{"turn_state": "complete"}`)}
		try := func(session string, fence func(*checkpoint.Lease)) (forgotten bool, err error) {
			t.Helper()
			k := checkpoint.Key{Orchestrator: "shop", Session: session}
			c, err := db.Checkpoints().Claim(t.Context(), k, checkpoint.ClaimRequest{
				Owner: "a", Nonce: "n", TTL: time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			r := snapshot.Run{
				Key: k, ID: "run of " + session, Status: snapshot.Running, Fence: c.Fence, Seq: 1, Attempt: 1,
				Payload: json.RawMessage(`{}`), Parts: map[string]json.RawMessage{"part": json.RawMessage(`1`)},
			}
			if found, err := db.Snapshots().Begin(t.Context(), r); found != nil || err != nil {
				t.Fatal(found, err)
			}
			fence(&c.Lease)
			cp := checkpoint.Checkpoint{RunID: r.ID, State: json.RawMessage(`{}`)}
			o := checkpoint.AppendOptions{Relabel: true, Labels: []checkpoint.Label{{Name: "wait"}, {Name: "user"}}}
			return settle(t.Context(), c.Lease, cp, o, end)
		}
		// want fails unless the session has so many turns, runs in flight, and entries.
		want := func(session string, turns, inFlight, entries int) {
			t.Helper()
			k := checkpoint.Key{Orchestrator: "shop", Session: session}
			for _, err := range db.Checkpoints().Turns(t.Context(), k, checkpoint.Newest) {
				if turns--; err != nil {
					t.Fatal(err)
				}
			}
			for _, err := range db.Snapshots().Runs(t.Context(), snapshot.Query{Key: k}) {
				if inFlight--; err != nil {
					t.Fatal(err)
				}
			}
			found, err := all.TurnLog().Restore(t.Context(), "run of "+session)
			if err != nil {
				t.Fatal(err)
			}
			if turns != 0 || inFlight != 0 || len(found) != entries {
				t.Errorf("%s: lacks %d turns and %d runs, and has %d entries of %d",
					session, turns, inFlight, len(found), entries)
			}
		}
		same := func(*checkpoint.Lease) {}

		if forgotten, err := try("all", same); !forgotten || err != nil {
			t.Errorf("forgotten %t, %v", forgotten, err)
		}
		want("all", 1, 0, 1)
		for s, err := range all.TurnLog().Turns(t.Context(), turnlog.Query{Session: "all"}) {
			last := s.Last
			if err != nil || last.Phase != turnlog.Settled || !turnlog.Same(last.State, end.State) || last.Turn != 0 {
				t.Errorf("%+v, %v", s, err)
			}
		}

		forgotten, err := try("fenced", func(l *checkpoint.Lease) { l.Fence.Nonce = "another" })
		if forgotten || !errors.Is(err, lock.ErrFenced) {
			t.Errorf("a lease of before: forgotten %t, %v", forgotten, err)
		}
		want("fenced", 0, 1, 0)

		known := turnlog.Entry{
			Run: "run of known", Orchestrator: "shop", Session: "known",
			Phase: turnlog.Settled, At: end.At, State: json.RawMessage(`{"turn_state": "failed"}`),
		}
		if err := all.TurnLog().Record(t.Context(), known); err != nil {
			t.Fatal(err)
		}
		if forgotten, err := try("known", same); forgotten || err != nil {
			t.Errorf("an end that is known: forgotten %t, %v", forgotten, err)
		}
		want("known", 1, 1, 1)

		var labeled []string
		for s, err := range db.Checkpoints().Sessions(t.Context(), checkpoint.SessionQuery{
			Orchestrator: "shop", Label: "wait",
		}) {
			labeled = append(labeled, s)
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(labeled, []string{"all", "known"}) {
			t.Errorf("labeled: %q", labeled)
		}
	})
}

// A store of runs that counts the calls of Delete.
type counted struct {
	snapshot.Store
	snapshot.EndJoiner
	deletes int
	fails   bool // a settle that records the end
}

func (c *counted) JoinEnds(turns checkpoint.Store, log turnlog.Log) snapshot.SettleEnd {
	if settle := c.EndJoiner.JoinEnds(turns, log); settle == nil || !c.fails {
		return settle
	}
	return func(
		context.Context, checkpoint.Lease, checkpoint.Checkpoint, checkpoint.AppendOptions, snapshot.End,
	) (bool, error) {
		return false, errors.New("the row of the turn log is damaged")
	}
}

func (c *counted) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	c.deletes++
	return c.Store.Delete(ctx, k, id, f)
}

// A turn with a turn log ends in the transaction that settles it, if all three stores are one database. If the turn log
// fails there, the turn settles all the same.
func TestTurnEndsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		all, ok := db.(relational)
		if !ok {
			t.Skip("has no turn log")
		}
		prepare(t, db)
		joiner, ok := db.Snapshots().(snapshot.EndJoiner)
		if !ok || joiner.JoinEnds(db.Checkpoints(), all.TurnLog()) == nil {
			t.Skip("calls functions of the database")
		}
		for what, log := range map[string]turnlog.Log{
			"bare": all.TurnLog(), "checked": turnlog.New(all.TurnLog(), nil), "elsewhere": new(turnlog.Memory),
			"fails": all.TurnLog(),
		} {
			runs := &counted{Store: db.Snapshots(), EndJoiner: joiner, fails: what == "fails"}
			b, err := orchestrator.New(orchestrator.Definition[state]{
				Name: "shop", First: "answer",
				Intents: orchestrator.Intents[state]{"answer": {
					Run: func(context.Context, *orchestrator.Turn[state]) error { return nil },
				}},
			}, db.Checkpoints(), &orchestrator.Options{Snapshots: runs, TurnLog: log})
			if err != nil {
				t.Fatal(err)
			}
			res, err := b.Execute(t.Context(), what, orchestrator.Input{Text: "hello"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if (runs.deletes > 0) != (what == "elsewhere" || what == "fails") {
				t.Errorf("%s: %d runs deleted by a call of their own", what, runs.deletes)
			}
			entries, err := log.Restore(t.Context(), res.RunID)
			if n := len(entries); err != nil || n != 2 || entries[n-1].Phase != turnlog.Settled {
				t.Errorf("%s: %+v, %v", what, entries, err)
			}
			if err := b.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
