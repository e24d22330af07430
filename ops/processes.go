package ops

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// A Process owns sessions or workflow runs, or beats.
type Process struct {
	Name string

	// Beats counts its beats. Alive says that they went on during the look. A process beats about once a second while
	// it owns something, and not while it owns nothing.
	Beats int64
	Alive bool

	// Sessions are those that it owns and that have a run in flight.
	Sessions []store.Key
}

// Processes looks at the beats twice, with a pause between the looks, and says which processes are alive and which
// sessions with runs they own. It is named as the owner of a session is. A pause of three seconds misses no living
// process. It costs by the runs in flight.
func (r *Room) Processes(ctx context.Context, pause time.Duration) ([]Process, error) {
	beater, ok := r.stores.Checkpoints.(lock.Beater)
	if !ok {
		return nil, fmt.Errorf("%w: the checkpoint store shows no beats", ErrNoStore)
	}
	before, err := beater.Beat(ctx, "")
	if err == nil {
		err = keeper.Sleep(ctx, pause)
	}
	var now map[string]int64
	if err == nil {
		now, err = beater.Beat(ctx, "")
	}
	if err != nil {
		return nil, err
	}
	all := make(map[string]*Process)
	for name, beats := range now {
		was, seen := before[name]
		all[name] = &Process{Name: name, Beats: beats, Alive: !seen || was != beats}
	}
	if err := r.owners(ctx, all); err != nil {
		return nil, err
	}
	list := make([]Process, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list, nil
}

// owners adds what the processes own. One that has not beaten yet, or whose beats are forgotten, is added.
func (r *Room) owners(ctx context.Context, all map[string]*Process) error {
	if r.stores.Snapshots == nil {
		return nil
	}
	names, err := r.Bots(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		page, err := r.runs(ctx, name, RunQuery{Limit: mostHeld})
		for ; err == nil && len(page) > 0; page, err = r.runs(ctx, name, RunQuery{
			Limit: mostHeld, After: page[len(page)-1].Session,
		}) {
			for _, run := range page {
				if run.Owner == "" {
					continue
				}
				p := all[run.Owner]
				if p == nil {
					p = &Process{Name: run.Owner}
					all[run.Owner] = p
				}
				p.Sessions = append(p.Sessions, run.Key)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
