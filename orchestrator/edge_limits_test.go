package orchestrator_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// New refuses a SettleTimeout in which nothing can settle. It panics nowhere.
func TestTinySettleTimeout(t *testing.T) {
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("panic: %v", v)
		}
	}()
	bot, err := orchestrator.New(echo(), new(checkpoint.Memory),
		&Options{Snapshots: new(snapshot.Memory), Logger: quiet(), Limits: orchestrator.Limits{SettleTimeout: 10}})
	if err != nil {
		return
	}
	_, err = bot.Execute(t.Context(), "s", Input{}, nil)
	t.Error(err)
}

func TestHugeKeep(t *testing.T) {
	w := newWorld()
	bot := w.Start(t, echo(), Options{KeepSnapshots: checkpoint.KeepAll, Limits: orchestrator.Limits{
		Iterations: math.MaxInt, FanOut: math.MaxInt, Attempts: math.MaxInt,
		TurnTimeout: math.MaxInt64, LockWait: math.MaxInt64, SettleTimeout: math.MaxInt64,
	}})
	for range 3 {
		execute(t, bot, Input{Text: "a"})
	}
	if n := len(turns(t, bot)); n != 3 {
		t.Error(n)
	}
	if err := bot.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNilCompaction(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { panic(nil) }}
	bot := newWorld().Start(t, d, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	if _, ok := errors.AsType[*orchestrator.PanicError](err); !ok {
		t.Error(err)
	}
	unsub := bot.Subscribe(nil)
	unsub()
	unsub()
}
