package orchestrator_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// wantReused checks that a call was refused, and named.
func wantReused(t *testing.T, err error, callID string) {
	t.Helper()
	wantErr(t, err, orchestrator.ErrRequestReused)
	if err == nil || !strings.Contains(err.Error(), `call id "`+callID+`"`) {
		t.Errorf("the call id is not named: %v", err)
	}
}

// A run that is resumed in another process, and calls with the same id for other arguments, is told so. It does not
// get the answer to what was asked before.
func TestToolReusedAfterCrash(t *testing.T) {
	w := newWorld()
	tool := w.Start(t, echo(), Options{}).Tool("echo", "", nil, nil)
	var got error
	parent := func(asked string, die func()) Def {
		return Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, _ *Turn) error {
			_, got = tool.Call(ctx, "call_0", json.RawMessage(`{"input":"`+asked+`"}`))
			if die != nil {
				die()
			}
			return nil
		}}}}
	}
	w.Crash(t, func(die func()) Def { return parent("alice's balance", die) }, Input{Text: "a"})
	if got != nil {
		t.Fatal(got)
	}
	if _, err := w.Start(t, parent("bob's balance", nil), Options{}).Resume(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	wantReused(t, got, "call_0")
}

// So are two calls of Deliver, and two branches that run at once: many APIs number their calls from 0.
func TestToolReusedElsewhere(t *testing.T) {
	ask := func(ctx context.Context, tool orchestrator.Tool, asked string) error {
		_, err := tool.Call(ctx, "call_0", json.RawMessage(`{"input":"`+asked+`"}`))
		return err
	}
	t.Run("deliver", func(t *testing.T) {
		w := newWorld()
		tool := w.Start(t, echo(), Options{}).Tool("echo", "", nil, nil)
		var got error
		d := echo()
		d.Name = "parent"
		d.Deliver = func(ctx context.Context, _ *Result) error {
			if err := ask(ctx, tool, "one"); err != nil {
				return err
			}
			got = ask(ctx, tool, "two")
			return nil
		}
		execute(t, w.Start(t, d, Options{}), Input{Text: "a"})
		wantReused(t, got, "call_0")
	})
	t.Run("branches", func(t *testing.T) {
		w := newWorld()
		tool := w.Start(t, echo(), Options{}).Tool("echo", "", nil, nil)
		var mu sync.Mutex
		var refused []error
		branch := func(asked string) Intent {
			return Intent{Run: func(ctx context.Context, _ *Turn) error {
				err := ask(ctx, tool, asked)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused = append(refused, err)
				}
				return nil
			}}
		}
		execute(t, w.Start(t, Def{
			Name: "parent", Intents: Intents{"a": branch("one"), "b": branch("two")},
			Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil },
		}, Options{}), Input{Text: "a"})
		if len(refused) != 1 {
			t.Fatalf("%d calls were refused: %v", len(refused), refused)
		}
		wantReused(t, refused[0], "call_0")
	})
}

// Outside a turn nothing tells two users of one call id apart, so that a tool without a session function answers
// neither. One with a session function answers each from the session of the caller.
func TestToolOfTwoUsers(t *testing.T) {
	type user struct{}
	d := echo()
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
		t.State.A, _ = ctx.Value(user{}).(string)
		return nil
	}}
	bot := newWorld().Start(t, d, Options{})
	reply := func(r *Result) string { return "balance of " + r.State.A }
	open := bot.Tool("balance", "", reply, nil)
	bound := bot.Tool("balance", "", reply, func(ctx context.Context) (string, error) {
		return ctx.Value(user{}).(string), nil
	})
	for _, name := range []string{"alice", "bob"} {
		ctx := context.WithValue(t.Context(), user{}, name)
		if said, err := open.Call(ctx, "call_0", json.RawMessage(`{"input":"my balance"}`)); err == nil {
			t.Errorf("%s is told %q", name, said)
		} else {
			wantErr(t, err, orchestrator.ErrNoSession)
		}
		said, err := bound.Call(ctx, "call_0", json.RawMessage(`{"input":"my balance"}`))
		if err != nil || said != "balance of "+name {
			t.Errorf("%s is told %q, %v", name, said, err)
		}
	}
}
