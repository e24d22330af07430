package pgworkflow

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// patience bounds what the listener asks the server.
const patience = 5 * time.Second

// ears pass on notes. The connection is open while at least one listener listens.
type ears struct {
	front *front
	name  string      // begins the notes of this store, which need not hear them
	ear   pgstate.Ear // without Open it hears only this process

	mu        sync.Mutex // protects following fields
	listeners map[*func(workflow.Note)]struct{}

	// untold are the notes that the others have yet to be told. telling says that a goroutine tells them.
	untold  map[workflow.Note]struct{}
	telling bool
}

func newEars(f *front, o *Options) *ears {
	e := &ears{
		front: f, name: rand.Text(), listeners: make(map[*func(workflow.Note)]struct{}),
		untold: make(map[workflow.Note]struct{}),
	}
	e.ear.Open, e.ear.Channel = o.Listen, pgstate.ChannelOf(f.db.Prefix.Plain("workflow_runs"))
	e.ear.Heard, e.ear.Tuned, e.ear.Log = e.heard, e.tuned, cmp.Or(o.Logger, slog.Default())
	e.ear.Lost = "connection that hears of workflows failed: engines poll until it is back"
	return e
}

// Listen implements [workflow.Listener].
func (e *ears) Listen(ctx context.Context, hear func(workflow.Note)) {
	e.mu.Lock()
	e.listeners[&hear] = struct{}{}
	e.mu.Unlock()
	if e.ear.Open != nil {
		e.ear.Join(ctx)
		defer e.ear.Leave()
	}
	<-ctx.Done()
	e.mu.Lock()
	delete(e.listeners, &hear)
	e.mu.Unlock()
}

// Hears implements [workflow.Listener].
func (e *ears) Hears() bool { return e.ear.Hears() }

// Tell implements [workflow.Listener].
func (e *ears) Tell(n workflow.Note) { e.tell(n) }

// heard passes on what another store has told.
func (e *ears) heard(payload string) {
	if from, note := parse(payload); from != e.name {
		e.pass(note)
	}
}

// tuned tells that anything may have happened, if notifications were not heard until now.
func (e *ears) tuned(hears bool) {
	if hears {
		e.pass(workflow.Note{}, workflow.Note{Beats: true})
	}
}

// pass calls the listeners.
func (e *ears) pass(notes ...workflow.Note) {
	e.mu.Lock()
	listeners := slices.Collect(maps.Keys(e.listeners))
	e.mu.Unlock()
	for _, hear := range listeners {
		for _, n := range notes {
			(*hear)(n)
		}
	}
}

// tell tells this process at once, and the others soon. It comes after the commit, and the notification is a
// transaction of its own: in that of the change, commits would wait for each other. While one is on its way, further
// notes become the next one.
func (e *ears) tell(notes ...workflow.Note) {
	if len(notes) == 0 {
		return
	}
	e.pass(notes...)
	if e.ear.Open == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range notes {
		e.untold[n] = struct{}{}
	}
	if !e.telling {
		e.telling = true
		go e.tellOthers()
	}
}

func (e *ears) tellOthers() {
	for {
		e.mu.Lock()
		notes := slices.Collect(maps.Keys(e.untold))
		clear(e.untold)
		e.telling = len(notes) > 0
		e.mu.Unlock()
		if len(notes) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		// What is lost is found by polling.
		_, _ = pgstate.Collect(ctx, e.front.db, pgx.RowTo[string], 0,
			e.front.sql.notify, e.ear.Channel, texts(e.name, notes))
		cancel()
	}
}

// texts returns notes as notifications have them: of whom they are, whether there are beats, and the run.
func texts(name string, notes []workflow.Note) (all []string) {
	for _, n := range notes {
		kind := "change"
		if n.Beats {
			kind = "beats"
		}
		all = append(all, name+" "+kind+" "+n.Run)
	}
	return all
}

func parse(text string) (name string, n workflow.Note) {
	name, text, _ = strings.Cut(text, " ")
	kind, run, _ := strings.Cut(text, " ")
	return name, workflow.Note{Run: run, Beats: kind == "beats"}
}
