package orchestrator_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// ones returns a list of n numbers. It is legal input, and each of its values costs a log time.
func ones(n int) json.RawMessage {
	return json.RawMessage("[" + strings.Repeat("1,", n-1) + "1]")
}

// began returns the state of the first entry, which is Started.
func began(t *testing.T, all []turnlog.Entry) (s turnlog.StartedState) {
	t.Helper()
	if len(all) == 0 || all[0].Phase != turnlog.Started {
		t.Fatalf("entries %+v", all)
	}
	if err := json.Unmarshal(all[0].State, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever records the beginning of a run, an input that weighs too much is left out of it, and it says so. So no
// recovery compares the input with what is recorded.
func TestHeavyInput(t *testing.T) {
	for name, test := range map[string]struct {
		data json.RawMessage
		cut  bool
	}{
		"a table":         {ones(40_000), false},
		"400,000 numbers": {ones(400_000), true},
		"many objects":    {json.RawMessage("[" + strings.Repeat("{},", 20_000) + "1]"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := newWorld(), new(watchedLog)
			largest := 0
			l.before = func(_ context.Context, e turnlog.Entry) error {
				largest = max(largest, len(e.State))
				return nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			d := echo()
			d.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
				cancel()
				<-ctx.Done()
				return context.Cause(ctx)
			}}
			in := Input{Text: "a", Data: test.data}
			if _, err := w.Start(t, d, Options{TurnLog: l}).Execute(ctx, "s", in, nil); err == nil {
				t.Fatal("the turn is not left in flight")
			}
			if _, err := w.Start(t, echo(), Options{TurnLog: l}).Resume(t.Context(), "s", nil); err != nil {
				t.Fatal(err)
			}
			s := began(t, l.wantPhases(t, "started settled(complete)"))
			if test.cut != (s.Cut != "") || test.cut != (len(s.Messages) == 0) || test.cut != (s.Data == nil) {
				t.Errorf("cut is %q, with %d messages and %d bytes of data", s.Cut, len(s.Messages), len(s.Data))
			}
			if test.cut && largest > 1<<10 {
				t.Errorf("an entry of %d bytes was recorded", largest)
			}
		})
	}
}

// A reply that weighs too much is left out, and the entry says so.
func TestHeavyReply(t *testing.T) {
	l := new(watchedLog)
	d := echo()
	d.Respond = func(*Result) any { return ones(400_000) }
	execute(t, newWorld().Start(t, d, Options{TurnLog: l}), Input{Text: "a"})
	all := l.wantPhases(t, "started settled(complete)")
	if s := ended(all[1]); string(s.Respond) != "null" || !strings.Contains(s.Reason, "left out") {
		t.Errorf("settled with %d bytes, because %q", len(s.Respond), s.Reason)
	}
}

// Abandon, AbandonFirst and Delete record that a run began, and none of its input. If the beginning is recorded
// already, the first entry stays.
func TestEndsRecordNoInput(t *testing.T) {
	ends := map[string]func(t *testing.T, bot *Bot){
		"Abandon": func(t *testing.T, bot *Bot) {
			if err := abandon(t, bot, "s"); err != nil {
				t.Error(err)
			}
		},
		"Delete": func(t *testing.T, bot *Bot) {
			if err := bot.Delete(t.Context(), "s"); err != nil {
				t.Error(err)
			}
		},
		"AbandonFirst": func(t *testing.T, bot *Bot) {
			execute(t, bot, Input{Text: "next", RequestID: "next"})
		},
	}
	for what, end := range ends {
		for _, logged := range []bool{false, true} {
			name := what + ", beginning not recorded"
			if logged {
				name = what + ", beginning recorded"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testEndRecordsNoInput(t, logged, end) })
			})
		}
	}
}

func testEndRecordsNoInput(t *testing.T, logged bool, end func(t *testing.T, bot *Bot)) {
	w, l := newWorld(), new(watchedLog)
	const said = "what the user said"
	grave := &grave{World: w}
	ends := grave.Ends()
	l.before = func(context.Context, turnlog.Entry) error {
		if !logged {
			grave.Die()
			return errDead
		}
		return nil
	}
	d := echo()
	d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { grave.Die(); return errDead }}
	bot, err := orchestrator.New(d, ends.Checkpoints,
		&Options{Snapshots: ends.Snapshots, TurnLog: l, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(t.Context(), "s", Input{Text: said}, nil); err == nil {
		t.Fatal("the process did not die")
	}
	w.FreeUp(t, "echo")
	offered := 0
	l.before = func(_ context.Context, e turnlog.Entry) error {
		if strings.Contains(string(e.State), said) {
			offered++
		}
		return nil
	}
	bot = w.Start(t, echo(), Options{TurnLog: l, OnInterrupted: orchestrator.AbandonFirst})
	end(t, bot)
	if offered > 0 {
		t.Errorf("the input was recorded %d times", offered)
	}
	s := began(t, l.entries(t))
	if logged != (s.Cut == "") || logged != (len(s.Messages) == 1) {
		t.Errorf("cut is %q, with %d messages", s.Cut, len(s.Messages))
	}
}
