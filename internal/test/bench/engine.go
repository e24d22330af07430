package main

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An actor plays turns with the engine.
type actor[S any] struct{ *orchestrator.Orchestrator[S] }

func newActor[S any](
	d orchestrator.Definition[S], turns checkpoint.Store, runs snapshot.Store, keep int,
) (actor[S], error) {
	bot, err := orchestrator.New(d, turns, &orchestrator.Options{Snapshots: runs, KeepSnapshots: keep})
	return actor[S]{bot}, err
}

func (a actor[S]) play(ctx context.Context, session string) error {
	_, err := a.Execute(ctx, session, orchestrator.Input{Text: "Where is my order?"}, nil)
	return err
}

// fillAll plays turns of sessions numbered from 0.
func (a actor[S]) fillAll(ctx context.Context, sessions, turns int) error {
	return inParallel(sessions, func(i int) error {
		for range turns {
			if err := a.play(ctx, sessionName(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A counter is the smallest state.
type counter struct{ N int }

func counting() orchestrator.Definition[counter] {
	return orchestrator.Definition[counter]{Name: "counting", Intents: orchestrator.Intents[counter]{
		"increment": {Run: func(_ context.Context, t *orchestrator.Turn[counter]) error {
			t.State.N++
			return nil
		}},
	}}
}

// engine measures what a turn costs in addition to its stores and its state. The stores are in memory, and the state is
// one integer.
func (b *bench) engine(ctx context.Context) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	stores := player{new(checkpoint.Memory), make([]json.RawMessage, 64), b.keep, ""}
	for i := range stores.states {
		stores.states[i] = marshal(counter{i})
	}
	plain, err1 := newActor(counting(), new(checkpoint.Memory), nil, b.keep)
	durable, err2 := newActor(counting(), new(checkpoint.Memory), new(snapshot.Memory), b.keep)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	err := errors.Join(
		stores.fillAll(ctx, b.sessions, b.keep+5),
		plain.fillAll(ctx, b.sessions, b.keep+5),
		durable.fillAll(ctx, b.sessions, b.keep+5))
	if err != nil {
		return err
	}
	rota := newRota(b.sessions, 1)
	err = b.compete(ctx, contest{
		what: "memory, one integer, one core", workers: 1,
		reference: subject{name: "Claim, Append", op: rota.on(stores.play)},
		subjects: []subject{
			{name: "Execute", op: rota.on(plain.play), goal: atPace(100_000)},
			{name: "Execute with snapshots", op: rota.on(durable.play), goal: goal{kind: pace}},
		},
	})
	if err != nil {
		return err
	}
	b.also(allocating(60), goal{kind: garbage})
	return nil
}

// also adds the last contest's subjects once more, with another goal for each.
func (b *bench) also(goals ...goal) {
	for i, r := range slices.Clone(b.results[len(b.results)-len(goals):]) {
		r.goal = goals[i]
		b.add(r)
	}
}
