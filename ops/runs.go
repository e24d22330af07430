package ops

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// A RunQuery selects runs in flight. Zero fields select all.
type RunQuery struct {
	Bot    string
	Status snapshot.Status

	// After is the session of the last run of the page before. It needs Bot.
	After string

	Limit int // of each bot; 0 means 100
}

// A Run is a run in flight, without what users have said, and without the text of its last error.
type Run struct {
	snapshot.Run

	// Owner is the process that owns the session by a live lease. A run that is running without an owner was left by a
	// process that is gone: the watch takes it up within seconds.
	Owner string

	// Damaged says why the row cannot be read, and Away why it cannot be reached. Either is nil otherwise.
	Damaged, Away error
}

// State says in a word how the run stands: its status, "damaged", "away", or "left" if it is running without an owner.
func (r Run) State() string {
	switch {
	case r.Damaged != nil:
		return "damaged"
	case r.Away != nil:
		return "away"
	case r.Status == snapshot.Running && r.Owner == "":
		return "left"
	}
	return string(r.Status)
}

// Runs yields runs in flight, bot by bot and by session in byte order. It reads no document of a run, and for a page
// asks once who owns its sessions. A run that has ended, and whose row is only to be deleted, is left out.
func (r *Room) Runs(ctx context.Context, q RunQuery) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		names, err := r.named(ctx, q.Bot)
		if err == nil && r.stores.Snapshots == nil {
			err = fmt.Errorf("%w: Snapshots", ErrNoStore)
		}
		if err != nil {
			yield(Run{}, err)
			return
		}
		for _, name := range names {
			page, err := r.runs(ctx, name, q)
			for _, run := range page {
				if run.Status != snapshot.Ended && !yield(run, nil) {
					return
				}
			}
			if err != nil {
				yield(Run{}, err)
				return
			}
		}
	}
}

// runs returns a page of the runs of a bot, with their owners.
func (r *Room) runs(ctx context.Context, bot string, q RunQuery) (page []Run, err error) {
	limit := cmp.Or(max(q.Limit, 0), 100)
	query := snapshot.Query{
		Key: store.Key{Orchestrator: bot}, Status: q.Status, After: q.After, Limit: limit, Brief: true,
	}
	for run, err := range r.stores.Snapshots.Runs(ctx, query) {
		shown := Run{Run: run}
		switch {
		case damaged(err):
			shown.Damaged = err
		case away(err):
			shown.Away = err
		case err != nil:
			return page, err
		}
		page = append(page, shown)
	}
	return page, r.owned(ctx, bot, page)
}

// owned fills in who owns the sessions of a page.
func (r *Room) owned(ctx context.Context, bot string, page []Run) error {
	sessions := make([]string, len(page))
	for i, run := range page {
		sessions[i] = run.Session
	}
	for part := range slices.Chunk(sessions, mostHeld) {
		owners, err := r.stores.Checkpoints.Held(ctx, bot, part)
		if err != nil && !away(err) {
			return err
		}
		for i := range page {
			page[i].Owner = cmp.Or(owners[page[i].Session], page[i].Owner)
		}
	}
	return nil
}

// mostHeld is how many sessions one Held is asked for.
const mostHeld = 1000
