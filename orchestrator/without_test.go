package orchestrator_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// What would run the bot is refused before anything is written.
func TestWithoutDefinitionRunsNothing(t *testing.T) {
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
	bot := w.Start(t, steps(nil), Options{})
	before := wantRuns(t, bot, 1)[0]
	command, err := orchestrator.WithoutDefinition(bot.Name(), w.Checkpoints, &Options{Snapshots: w.Snapshots})
	if err != nil {
		t.Fatal(err)
	}
	_, err = command.Execute(t.Context(), "s", Input{Text: "b"}, nil)
	wantErr(t, err, orchestrator.ErrNoDefinition)
	_, err = command.Resume(t.Context(), "s", &orchestrator.CallOptions{Force: true})
	wantErr(t, err, orchestrator.ErrNoDefinition)
	_, err = command.Recover(t.Context(), "s")
	wantErr(t, err, orchestrator.ErrNoDefinition)
	_, err = command.Put(t.Context(), "s", orchestrator.NoTurns, Input{}, nil, nil)
	wantErr(t, err, orchestrator.ErrNoDefinition)
	if after := wantRuns(t, bot, 1)[0]; after.Fence != before.Fence || after.Attempt != before.Attempt {
		t.Errorf("the run is %+v", after)
	}
	for _, name := range []string{"", strings.Repeat("x", 600)} {
		if _, err := orchestrator.WithoutDefinition(name, w.Checkpoints, nil); err == nil {
			t.Errorf("name %.5q", name)
		}
	}
	if _, err := orchestrator.WithoutDefinition("bot", nil, &Options{KeepSnapshots: -1}); err == nil ||
		!strings.Contains(err.Error(), "KeepSnapshots") || !strings.Contains(err.Error(), "checkpoint store") {
		t.Error(err)
	}
}

// A turn whose process died before the turn log had its end is not recorded with another reply than the bot's own.
// Abandon leaves it to the bot. Delete records the end without a reply.
func TestWithoutDefinitionLeavesReplies(t *testing.T) {
	w := newWorld()
	logged := new(turnlog.Memory)
	d := echo()
	d.Respond = func(*Result) any { return "short" }
	o := Options{TurnLog: logged}
	bot := w.Start(t, d, o)
	res := execute(t, bot, Input{Text: "a", RequestID: "r"})
	// The row of a run whose turn has settled.
	left := snapshot.Run{
		Key: snapshot.Key{Orchestrator: bot.Name(), Session: "s"}, ID: res.RunID, Status: snapshot.Running, Seq: 1,
	}
	claimed, err := w.Checkpoints.Claim(t.Context(), left.Key,
		checkpoint.ClaimRequest{Owner: "dead", Nonce: "n", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	left.Fence, left.Payload = claimed.Fence, fmt.Appendf(nil, `{"v":1,"born":%d}`, claimed.Born)
	if _, err := w.Snapshots.Begin(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	command, err := orchestrator.WithoutDefinition(bot.Name(), w.Checkpoints,
		&Options{Snapshots: w.Snapshots, TurnLog: logged})
	if err != nil {
		t.Fatal(err)
	}
	if ended, err := command.Abandon(t.Context(), "s", res.RunID); ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
	if _, err := snapshot.Load(t.Context(), w.Snapshots, snapshot.Query{Key: left.Key}); err != nil {
		t.Error("the row is gone: ", err)
	}
	if err := command.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Load(t.Context(), w.Snapshots, snapshot.Query{Key: left.Key}); err == nil {
		t.Error("the row is still there")
	}
	entries, err := logged.Restore(t.Context(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for _, e := range entries { // the row that was left may be logged as begun later than it ended
		if e.Phase != turnlog.Settled {
			continue
		}
		if ends++; !strings.Contains(string(e.State), "short") {
			t.Errorf("the end is %s", e.State)
		}
	}
	if ends != 1 {
		t.Errorf("the run has %d ends", ends)
	}
}

// A run that waits for its next attempt goes on at once after MakeDue. Its attempts stay counted, and a run that is
// parked or at work is left alone.
func TestMakeDue(t *testing.T) {
	w := newWorld()
	away := new(atomic.Bool)
	away.Store(true)
	bot := w.Start(t, brokenSteps(away), attempts(5))
	w.Crash(t, diesAtOnce, Input{Text: "a", RequestID: "r"})
	for range 2 {
		_, err := bot.Recover(t.Context(), "s")
		wantErr(t, err, errBoom)
		if made, err := bot.MakeDue(t.Context(), "s"); !made || err != nil {
			t.Fatalf("made %t, %v", made, err)
		}
	}
	before := wantRuns(t, bot, 1)[0]
	if before.Pause > 0 || before.Status != snapshot.Waiting || before.Attempt < 2 {
		t.Errorf("the run is %+v", before)
	}
	away.Store(false)
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Errorf("%s, %v", outcome, err)
	}
	if made, err := bot.MakeDue(t.Context(), "s"); made || err != nil {
		t.Errorf("made %t, %v", made, err)
	}
	if _, err := bot.MakeDue(t.Context(), ""); err == nil {
		t.Error("no session")
	}
}
