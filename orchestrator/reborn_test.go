package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A repeat whose run is in flight finds the run, also if the head of the session was retired: Begin does not run again,
// and a history that cannot be loaded refuses nothing that may settle.
func TestRepeatAfterItsHead(t *testing.T) {
	in := Input{Text: "first", RequestID: "r"}
	for name, retire := range map[string]bool{"kept": false, "retired": true} {
		t.Run("begin, head "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begun := newWorld(), 0
				d := echo()
				d.Begin = func(context.Context, *Turn) error {
					if begun++; begun > 1 {
						return errRefusedInput
					}
					return nil
				}
				left(t, w, d, in)
				e := echo()
				e.Begin = d.Begin
				bot := w.Start(t, e, Options{})
				if retire {
					later(t, bot)
				}
				if _, err := bot.Execute(t.Context(), "s", in, nil); err != nil || begun != 1 {
					t.Errorf("Begin ran %d times, %v", begun, err)
				}
			})
		})
		t.Run("history, head "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				left(t, w, echo(), in)
				bot := w.Start(t, echo(), Options{History: func(context.Context, string) ([]message.Message, error) {
					return nil, errRefusedInput
				}})
				if retire {
					later(t, w.Start(t, echo(), Options{}))
				}
				_, err := bot.Execute(t.Context(), "s", in, nil)
				wantErr(t, err, orchestrator.ErrIndeterminate)
			})
		})
	}
}

// What the engine lets in, the stores take: text and data weigh together, and a control character counts as it is
// written.
func TestInputAsStored(t *testing.T) {
	for name, in := range map[string]Input{
		"containers and text": {Text: strings.Repeat("x", 5<<20), Data: []byte("[" + strings.Repeat("{},", 376_000) + "{}]")},
		"control characters":  {Text: strings.Repeat("\b", 6_500_000)},
	} {
		for where, w := range map[string]world{"with": newWorld(), "without": {Checkpoints: newWorld().Checkpoints}} {
			t.Run(name+" "+where+" a snapshot store", func(t *testing.T) {
				ran := false
				d := echo()
				d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { ran = true; return nil }}
				o := patient()
				o.Limits.Input = 14 << 20
				bot := w.Start(t, d, o)
				_, err := bot.Execute(t.Context(), "s", in, nil)
				if _, refused := errors.AsType[*orchestrator.InputError](err); err != nil && !refused {
					t.Errorf("ran: %v; %.200v", ran, err)
				}
			})
		}
	}
}

// A state that is short may count much: then it is as large as it counts, and poisons no session.
func TestShortStateThatCountsMuch(t *testing.T) {
	type numbers struct{ All []json.RawMessage }
	w := newWorld()
	d := orchestrator.Definition[numbers]{Name: "numbers", Intents: orchestrator.Intents[numbers]{
		"keep": {Run: func(_ context.Context, t *orchestrator.Turn[numbers]) error {
			t.State.All = append(t.State.All, t.Input.Data)
			return nil
		}},
	}}
	bot, err := orchestrator.New(d, w.Checkpoints, &orchestrator.Options{Snapshots: w.Snapshots, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	const counts = 131_072 // 1 and its zeros
	large := json.RawMessage("[" + strings.Repeat("1e131071,", 6) + "1e131071]")
	var tooLarge *orchestrator.StateError
	for n := 0; !errors.As(err, &tooLarge); n++ {
		if _, err = bot.Execute(t.Context(), "s", Input{Data: large}, nil); n > 4<<20/(7*counts) {
			t.Fatalf("%d inputs of %d bytes are in the state: %v", n, 7*counts, err)
		}
	}
	if _, err := bot.Execute(t.Context(), "s", Input{Data: json.RawMessage("1")}, nil); err != nil {
		t.Errorf("the next turn: %v", err)
	}
}
