package orchestrator_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

type showsState struct{ N int }

// shows returns a bot with one intent.
func shows(t *testing.T, name string, run func(context.Context, *orchestrator.Turn[showsState]) error,
) *orchestrator.Orchestrator[showsState] {
	t.Helper()
	bot, err := orchestrator.New(orchestrator.Definition[showsState]{
		Name: name, Intents: orchestrator.Intents[showsState]{"show": {Run: run}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		t.Fatal(err)
	}
	return bot
}

// Whoever listens to a turn gets its parts in order with its tokens, and those of a child. A part survives JSON.
func TestShow(t *testing.T) {
	child := shows(t, "child", func(_ context.Context, t *orchestrator.Turn[showsState]) error {
		t.Emit("said ")
		return t.Show(map[string]int{"n": 2})
	})
	parent := shows(t, "parent", func(ctx context.Context, turn *orchestrator.Turn[showsState]) error {
		if err := turn.Show(1); err != nil {
			return err
		}
		_, err := child.Tool("child", "shows", nil, nil).Call(ctx, "call-1", json.RawMessage(`{"input":"go"}`))
		return err
	})
	var got []string
	stream := parent.Stream(t.Context(), "s", orchestrator.Input{Text: "x"}, nil)
	for ev := range stream.Events() {
		doc, err := json.Marshal(ev)
		var read orchestrator.Event
		if err == nil {
			err = json.Unmarshal(doc, &read)
		}
		if err != nil {
			t.Fatal(err)
		}
		if read.Kind == orchestrator.Part || read.Kind == orchestrator.Token {
			got = append(got, string(read.Kind)+" "+read.Intent+" "+read.Delta+string(read.Data))
		}
	}
	if _, err := stream.Result(); err != nil {
		t.Fatal(err)
	}
	want := `part show 1, token show said , part show {"n":2}`
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("got  %s\nwant %s", all, want)
	}
}

// What is no JSON, or too large, is refused, alike in a turn that was made by hand.
func TestShowBad(t *testing.T) {
	turn := new(orchestrator.Turn[showsState])
	for what, c := range map[string]struct {
		part any
		ok   bool
	}{
		"func":       {func() {}, false},
		"largest":    {strings.Repeat("x", orchestrator.MaxPart-2), true},
		"too large":  {strings.Repeat("x", orchestrator.MaxPart-1), false},
		"nil":        {nil, true},
		"null bytes": {"\x00", true},
	} {
		if err := turn.Show(c.part); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}
