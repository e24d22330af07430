package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A fork begins where a kept turn was, may be repeated, and goes its own way.
func TestFork(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, echo(), Options{KeepSnapshots: 3})
	for _, text := range []string{"a", "b", "c", "d"} {
		execute(t, bot, Input{Text: text, RequestID: text})
	}
	ctx := t.Context()
	for range 2 {
		if err := bot.Fork(ctx, "s", 2, "copy"); err != nil {
			t.Fatal(err)
		}
	}
	in := func(session, text string) *Result {
		res, err := bot.Execute(ctx, session, Input{Text: text, RequestID: "c"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := in("copy", "x"); res.Turn != 1 || res.Replayed {
		t.Errorf("the copy's next turn is %+v", res)
	}
	wantSaid(t, execute(t, bot, Input{Text: "e"}).State, "a", "b", "c", "d", "e")
	wantErr(t, bot.Fork(ctx, "s", 3, "copy"), checkpoint.ErrConflict)
	wantErr(t, bot.Fork(ctx, "s", 0, "another"), checkpoint.ErrNotFound)
	if err := bot.Fork(ctx, "s", 2, "s"); err == nil {
		t.Error("forked to itself")
	}
	other := echo()
	other.Name = "other"
	wantErr(t, w.Start(t, other, Options{}).Fork(ctx, "s", 3, "theirs"), checkpoint.ErrNotFound)
	if err := bot.Fork(ctx, "s", checkpoint.Newest, "newest"); err != nil {
		t.Error(err)
	}
}

// A parent asks a child. The same call again gets the same answer. The model's arguments choose neither user nor
// session.
func TestTool(t *testing.T) {
	w := newWorld()
	child := w.Start(t, echo(), Options{})
	tool := child.Tool("echo", "repeats", func(r *Result) string { return strings.Join(r.State.Said, ",") }, nil)
	if !json.Valid(tool.Parameters) || tool.Name != "echo" || tool.Description != "repeats" {
		t.Errorf("%+v", tool)
	}
	inTurn(t, w, func(ctx context.Context, _ *Turn) { testTool(t, ctx, child, tool) })
	_, err := tool.Call(t.Context(), "1", json.RawMessage(`{"input":"x"}`))
	if err == nil || !strings.Contains(err.Error(), "outside a turn") {
		t.Errorf("outside a turn: %v", err)
	}
}

// inTurn runs fn in a turn of a parent.
func inTurn(t *testing.T, w world, fn func(context.Context, *Turn)) *Result {
	t.Helper()
	d := Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, turn *Turn) error {
		fn(ctx, turn)
		return nil
	}}}}
	return execute(t, w.Start(t, d, Options{}), Input{Text: "a"})
}

func testTool(t *testing.T, ctx context.Context, child *Bot, tool orchestrator.Tool) {
	ask := func(callID, args string) string {
		answer, err := tool.Call(ctx, callID, json.RawMessage(args))
		if err != nil {
			t.Error(err)
		}
		return answer
	}
	const asked = `{"input":"x","session":"s","session_id":"s"}`
	if a, b := ask("1", asked), ask("1", asked); a != "x" || b != "x" {
		t.Errorf("answers %q and %q", a, b)
	}
	if got := ask("2", `{"input":"y"}`); got != "y" {
		t.Errorf("a fresh call remembers: %q", got)
	}
	if n := len(turns(t, child)); n != 0 {
		t.Errorf("%d turns in the session that args named", n)
	}
	for _, args := range []string{`{}`, `{`, `"x"`, `{"input":3}`} {
		if _, err := tool.Call(ctx, "3", json.RawMessage(args)); err == nil {
			t.Errorf("%s is no error", args)
		}
	}
	if _, err := tool.Call(ctx, "", json.RawMessage(`{"input":"x"}`)); err == nil {
		t.Error("a call without id is no error")
	}
	_, err := tool.Call(ctx, "1", json.RawMessage(`{"input":"z"}`))
	wantErr(t, err, orchestrator.ErrRequestReused)
	if err == nil || !strings.Contains(err.Error(), `"1"`) {
		t.Errorf("the call id is not named: %v", err)
	}
	said, err := tool.Ask(ctx, "1", json.RawMessage(`{"input":"x","session":"s","session_id":"s"}`))
	if err != nil || !said.Replayed || !strings.HasPrefix(said.Session, "s/echo/") ||
		!strings.Contains(string(said.State), `"Said":["x"]`) {
		t.Errorf("%+v, %v", said, err)
	}
}

// A tool with a session goes on in that session. If the session cannot be found out, the tool returns an error.
func TestToolSession(t *testing.T) {
	type user struct{}
	child := newWorld().Start(t, echo(), Options{})
	nobody := errors.New("nobody is logged in")
	tool := child.Tool("echo", "", func(r *Result) string { return strings.Join(r.State.Said, ",") },
		func(ctx context.Context) (string, error) {
			if name, ok := ctx.Value(user{}).(string); ok {
				return name, nil
			}
			return "", nobody
		})
	ctx := context.WithValue(t.Context(), user{}, "ann")
	for _, want := range []string{"x", "x,y"} {
		got, err := tool.Call(ctx, want, json.RawMessage(`{"input":"`+want[len(want)-1:]+`"}`))
		if got != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	_, err := tool.Call(t.Context(), "1", json.RawMessage(`{"input":"x"}`))
	wantErr(t, err, nobody)
	empty := child.Tool("echo", "", nil, func(context.Context) (string, error) { return "", nil })
	_, err = empty.Call(t.Context(), "1", json.RawMessage(`{"input":"x"}`))
	if _, ok := errors.AsType[*orchestrator.InputError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// A parent that crashed after the call is resumed and makes the call again. The child runs once.
func TestToolOfResumedParent(t *testing.T) {
	w := newWorld()
	ran := 0
	d := echo()
	d.Name = "child"
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error { ran++; t.State.N = ran; return nil }}
	child := w.Start(t, d, Options{})
	tool := child.Tool("child", "", func(r *Result) string { return r.RunID }, nil)
	parent := func(die func()) Def {
		return Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, t *Turn) error {
			answer, err := tool.Call(ctx, "call-1", json.RawMessage(`{"input":"x"}`))
			if die != nil {
				die()
			}
			t.State.A = answer
			return err
		}}}}
	}
	w.Crash(t, parent, Input{Text: "a"})
	bot := w.Start(t, parent(nil), Options{})
	res, err := bot.Resume(t.Context(), "s", nil)
	if err != nil || ran != 1 || res.State.A == "" {
		t.Errorf("%v, %v; the child ran %d times", res, err, ran)
	}
	if again := execute(t, bot, Input{Text: "b"}); again.State.A == res.State.A || ran != 2 {
		t.Errorf("another turn's call is answered like the first's; the child ran %d times", ran)
	}
}

// The parent's deadline is the child's.
func TestToolContext(t *testing.T) {
	d, started := hanging()
	child := newWorld().Start(t, d, Options{})
	tool := child.Tool("hang", "", func(*Result) string { return "" },
		func(context.Context) (string, error) { return "s", nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := tool.Call(ctx, "1", json.RawMessage(`{"input":"x"}`))
		done <- err
	}()
	<-started
	cancel()
	wantErr(t, <-done, context.Canceled, orchestrator.ErrIndeterminate)
}

// The usage and events of a child reach the turn that called it. A repeat costs nothing more.
func TestToolReachesParent(t *testing.T) {
	w := newWorld()
	d := Def{Name: "child", Intents: Intents{"answer": {Run: func(_ context.Context, turn *Turn) error {
		turn.Emit("to")
		turn.Emit("kens")
		turn.AddUsage(orchestrator.Usage{Input: 7, Cost: 0.5})
		return nil
	}}}}
	tool := w.Start(t, d, Options{}).Tool("answer", "", nil, nil)
	parent := w.Start(t, Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, _ *Turn) error {
		for range 2 {
			if _, err := tool.Call(ctx, "1", json.RawMessage(`{"input":"x"}`)); err != nil {
				return err
			}
		}
		return nil
	}}}}, Options{})
	var said strings.Builder
	res, err := parent.Execute(t.Context(), "s", Input{Text: "a"}, &orchestrator.CallOptions{OnEvent: func(ev Event) {
		if ev.Intent == "ask" {
			said.WriteString(ev.Delta)
		}
	}})
	if err != nil || res.Usage != (orchestrator.Usage{Input: 7, Cost: 0.5}) || said.String() != "tokens" {
		t.Errorf("%v; used %+v, said %q", err, res.Usage, said.String())
	}
}

// A call that comes from a turn treats two orchestrators with one name in a process as one.
func TestToolOfTwin(t *testing.T) {
	w := newWorld()
	twin := w.Start(t, echo(), Options{})
	d := echo()
	var got error
	d.Intents = Intents{"echo": {Run: func(ctx context.Context, turn *Turn) error {
		_, got = twin.Execute(ctx, turn.Session, Input{Text: "b"}, nil)
		return nil
	}}}
	execute(t, w.Start(t, d, Options{}), Input{Text: "a"})
	wantErr(t, got, orchestrator.ErrReentrant)
}
