package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// noteOrigin is a bot that notes where its input comes from, in Begin and in its intent.
func noteOrigin() Def {
	note := func(t *Turn) {
		in := t.Input
		t.State.Said = append(t.State.Said, strings.TrimSpace(in.Origin.String()+" "+in.By+" "+in.Kind))
	}
	return Def{
		Name:    "origin",
		Begin:   func(_ context.Context, t *Turn) error { note(t); return nil },
		Intents: Intents{"note": {Run: func(_ context.Context, t *Turn) error { note(t); return nil }}},
	}
}

// Where an input comes from, who sent it and of which kind it is reach Begin and the functions, also of a process that
// takes the run up, and stand with the settled turn, in the events and in the log.
func TestOrigin(t *testing.T) {
	w := newWorld()
	in := Input{RequestID: "r", Text: "yes", Origin: orchestrator.FromAnswer, By: "ada", Kind: "approve"}
	w.Crash(t, func(die func()) Def {
		d := noteOrigin()
		d.Intents["note"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
		return d
	}, in)
	var logged bytes.Buffer
	bot := w.Start(t, noteOrigin(), Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	var events []Event
	hear := func(ev Event) { events = append(events, ev) }
	res, err := bot.Resume(t.Context(), "s", &orchestrator.CallOptions{OnEvent: hear})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(res.State.Said, ", "); got != "answer ada approve, answer ada approve" {
		t.Errorf("the functions saw %q", got)
	}
	for res, err := range bot.Turns(t.Context(), "s") {
		if err != nil || res.Input.Origin != in.Origin || res.Input.By != "ada" || res.Input.Kind != "approve" {
			t.Errorf("the turn is stored with %q %q of %q: %v", res.Input.Origin, res.Input.Kind, res.Input.By, err)
		}
	}
	for _, ev := range events {
		doc, err := json.Marshal(ev)
		var back Event
		if err != nil || ev.Origin != in.Origin || ev.By != "ada" || ev.InputKind != "approve" ||
			json.Unmarshal(doc, &back) != nil || back.InputKind != "approve" {
			t.Errorf("%s is of %q %q, by %q: %v", ev.Kind, ev.Origin, ev.InputKind, ev.By, err)
		}
		if !strings.Contains(string(doc), `"origin":"answer","inputKind":"approve"`) || strings.Contains(string(doc), "ada") {
			t.Errorf("a browser gets %s", doc)
		}
	}
	if _, err := bot.Execute(t.Context(), "s2", in, nil); err != nil || !strings.Contains(logged.String(), "by=ada") {
		t.Errorf("%v: the log does not say who has answered:\n%s", err, &logged)
	}
}

// wantFrom returns a listener which checks that each event with a request id is of an answer by ada, and counts them.
func wantFrom(t *testing.T) (hear func(Event), seen map[orchestrator.EventKind]int) {
	t.Helper()
	seen = make(map[orchestrator.EventKind]int)
	return func(ev Event) {
		ours := ev.Origin == orchestrator.FromAnswer && ev.By == "ada" && ev.InputKind == "approve"
		if seen[ev.Kind]++; ev.RequestID != "" && !ours {
			t.Errorf("%s of %s is of %s %q, by %q", ev.Kind, ev.RequestID, ev.Origin, ev.InputKind, ev.By)
		}
	}, seen
}

// The events of a turn that does not run in this call say where its input comes from, too.
func TestOriginOfOtherEvents(t *testing.T) {
	in := Input{RequestID: "r", Text: "yes", Origin: orchestrator.FromAnswer, By: "ada", Kind: "approve"}
	hear, seen := wantFrom(t)
	d := noteOrigin()
	d.Deliver = func(context.Context, *orchestrator.Result[State]) error { return nil }
	w := newWorld()
	bot := w.Start(t, d, Options{Compaction: orchestrator.Compaction{
		After: 1, Keep: 1,
		Run: func(context.Context, orchestrator.Range) (_ orchestrator.Usage, err error) { return },
	}})
	defer bot.Subscribe(hear)()
	for _, in.RequestID = range []string{"r0", "r1", "r2", "r2"} {
		if _, err := bot.Execute(t.Context(), "s", in, nil); err != nil {
			t.Fatal(err)
		}
	}
	refused := in
	refused.Text = "no"
	_, err := bot.Execute(t.Context(), "s", refused, nil)
	wantErr(t, err, orchestrator.ErrRequestReused)

	in.RequestID = "r3"
	w.Crash(t, func(die func()) Def {
		d := noteOrigin()
		d.Intents["note"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
		return d
	}, in)
	st, err := bot.Inspect(t.Context(), "s")
	if err != nil || st.Run == nil || st.Run.InputKind != "approve" {
		t.Fatalf("no run of this kind is in flight: %+v, %v", st.Run, err)
	}
	if _, err := bot.Abandon(t.Context(), "s", st.Run.ID); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []orchestrator.EventKind{
		orchestrator.TurnSettled, orchestrator.TurnRefused, orchestrator.Delivered, orchestrator.Compacted,
		orchestrator.TurnFailed,
	} {
		if seen[kind] == 0 {
			t.Errorf("no event %s", kind)
		}
	}
}

// So do the events of a turn that waits for a person, and is asked for once more.
func TestOriginOfSuspended(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{Key: "7"})), Options{})
	hear, seen := wantFrom(t)
	defer bot.Subscribe(hear)()
	in := Input{RequestID: "r", Text: "shoes", Origin: orchestrator.FromAnswer, By: "ada", Kind: "approve"}
	for n := range 2 {
		_, err := bot.Execute(t.Context(), "s", in, nil)
		wantErr(t, err, orchestrator.ErrSuspended)
		if seen[orchestrator.TurnSuspended] != n+1 {
			t.Errorf("the events are %v", seen)
		}
	}
}

// A user who knows the request id and the words of an answer does not take its place, before it or after it.
func TestOriginIsNotTaken(t *testing.T) {
	user := Input{RequestID: "r", Text: "yes"}
	answer := Input{RequestID: "r", Text: "yes", Origin: orchestrator.FromAnswer, By: "ada", Kind: "approve"}
	system, tool := user, user
	system.Origin, tool.Origin = orchestrator.FromSystem, orchestrator.FromTool
	for name, both := range map[string][2]Input{
		"user first": {user, answer}, "answer first": {answer, user}, "system first": {system, answer},
		"tool first": {tool, answer}, "system last": {answer, system}, "user, system": {user, system},
		"tool, system": {tool, system}, "tool last": {answer, tool},
	} {
		t.Run(name, func(t *testing.T) {
			bot := newWorld().Start(t, noteOrigin(), Options{})
			if _, err := bot.Execute(t.Context(), "s", both[0], nil); err != nil {
				t.Fatal(err)
			}
			_, err := bot.Execute(t.Context(), "s", both[1], nil)
			wantErr(t, err, orchestrator.ErrRequestReused)
			again := both[0]
			again.Kind = "another" // which a newer version of the program may call the same input
			res, err := bot.Execute(t.Context(), "s", again, nil)
			if err != nil || !res.Replayed || res.Input.Kind != both[0].Kind || res.Input.By != both[0].By {
				t.Errorf("the repeat got %+v, %v", res, err)
			}
		})
	}
}

// Two callers with one request id, of a user and of an answer, do not share a turn while both are at work.
func TestOriginIsNotJoined(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	d := noteOrigin()
	d.Intents["note"] = Intent{Run: func(context.Context, *Turn) error { close(begun); <-goOn; return nil }}
	bot := newWorld().Start(t, d, Options{})
	first := make(chan error, 1)
	go func() {
		_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "yes"}, nil)
		first <- err
	}()
	<-begun
	second := make(chan error, 1)
	go func() {
		in := Input{RequestID: "r", Text: "yes", Origin: orchestrator.FromAnswer}
		_, err := bot.Execute(t.Context(), "s", in, nil)
		second <- err
	}()
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	wantErr(t, <-second, orchestrator.ErrRequestReused)
}

// A client that sends the whole JSON of an input cannot say where it comes from, and no made-up origin is taken.
func TestOriginIsNotDecoded(t *testing.T) {
	var in Input
	said := `{"Text":"hi","Origin":"answer","origin":"answer","from":"answer","By":"ada","by":"ada","Kind":"k","kind":"k"}`
	err := json.Unmarshal([]byte(said), &in)
	if err != nil || in.Origin != orchestrator.FromUser || in.By != "" || in.Kind != "" {
		t.Errorf("decoded as %q of %q: %v", in.Origin, in.By, err)
	}
	bot := newWorld().Start(t, noteOrigin(), Options{})
	for _, in := range []Input{
		{Origin: "root"},
		{By: strings.Repeat("a", 513)},
		{By: "\xff"},
		{Kind: strings.Repeat("a", 65)},
		{Kind: "two words"},
		{Kind: "é"},
		{Kind: "\xff"},
		{Kind: "a\n"},
	} {
		_, err := bot.Execute(t.Context(), "s", in, nil)
		if _, ok := errors.AsType[*orchestrator.InputError](err); !ok {
			t.Errorf("%+v is taken: %v", in, err)
		}
	}
}

// A tool's turn says that it is one, and who talks to the bot that calls.
func TestOriginOfTool(t *testing.T) {
	w := newWorld()
	tool := w.Start(t, noteOrigin(), Options{}).Tool("note", "", nil, nil)
	var said *orchestrator.ToolReply
	parent := Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, _ *Turn) (err error) {
		said, err = tool.Ask(ctx, "call_0", json.RawMessage(`{"input":"x"}`))
		return err
	}}}}
	if _, err := w.Start(t, parent, Options{}).Execute(t.Context(), "s", Input{Text: "a", By: "ben"}, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(said.State), "tool ben") {
		t.Errorf("the child saw %s", said.State)
	}
}

// What an earlier version has stored has no origin: the turns are of a user, and are found by their request ids.
func TestOriginOfEarlierVersion(t *testing.T) {
	checkpoints := new(checkpoint.Memory)
	w := worldOf(checkpoints, new(snapshot.Memory))
	bot := w.Start(t, noteOrigin(), Options{})
	in := Input{RequestID: "r", Text: "hi"}
	if _, err := bot.Execute(t.Context(), "s", in, nil); err != nil {
		t.Fatal(err)
	}
	for cp, err := range checkpoints.Turns(t.Context(), checkpoint.Key{Orchestrator: "origin", Session: "s"}, 0) {
		if err != nil || strings.Contains(string(cp.Payload), `"from"`) || strings.Contains(string(cp.Payload), `"kind"`) {
			t.Errorf("an input of a user is stored as %s: %v", cp.Payload, err)
		}
	}
	in.Origin = orchestrator.FromTool // the call of a tool, repeated by a newer version
	if res, err := bot.Execute(t.Context(), "s", in, nil); err != nil || !res.Replayed {
		t.Errorf("the repeat of a call brought %+v, %v", res, err)
	}
}

// A person has answered for an effect. The event that gives its result back says who.
func TestEventOfAnswer(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{Key: "7"})), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes", By: "ben"}, nil)
	landed := ledger.Answer{Landed: true, Result: []byte(`"by hand"`), By: "ann"}
	if err := ledger.Resolve(t.Context(), s.Ledger, theDoubt(t, err, true).Effects[0], landed); err != nil {
		t.Fatal(err)
	}
	by := make(map[orchestrator.EventKind]string)
	hear := func(ev Event) { by[ev.Kind] = ev.By }
	if _, err := bot.Resume(t.Context(), "s", &orchestrator.CallOptions{OnEvent: hear}); err != nil {
		t.Fatal(err)
	}
	if by[orchestrator.EffectReplayed] != "ann" || by[orchestrator.TurnSettled] != "ben" {
		t.Errorf("the events are by %v", by)
	}
}
