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

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// quiet is how long the connection may hear nothing before the server is asked whether it is there.
	quiet = time.Minute

	// patience bounds what the listener asks the server.
	patience = 5 * time.Second
)

// ears pass on notes. Its connection is open, and its goroutine runs, while at least one listener listens.
type ears struct {
	front   *front
	open    func(context.Context) (*pgx.Conn, error) // nil: it hears only this process
	channel string
	name    string // begins the notes of this store, which need not hear them
	log     *slog.Logger

	mu        sync.Mutex // protects following fields
	listeners map[*func(workflow.Note)]struct{}
	hears     bool
	// stop ends the goroutine. It is nil if none runs.
	stop context.CancelFunc
	done chan struct{}

	// untold are the notes that the others have yet to be told. telling says that a goroutine tells them.
	untold  map[workflow.Note]struct{}
	telling bool
}

func newEars(f *front, o *Options) *ears {
	name := f.db.Prefix.Plain("workflow_runs") // PostgreSQL cuts the name of a channel off at 63 bytes
	return &ears{
		front: f, open: o.Listen, channel: name[max(0, len(name)-63):], name: rand.Text(),
		log: cmp.Or(o.Logger, slog.Default()), listeners: make(map[*func(workflow.Note)]struct{}),
		untold: make(map[workflow.Note]struct{}),
	}
}

// Listen implements [workflow.Listener].
func (e *ears) Listen(ctx context.Context, hear func(workflow.Note)) {
	e.join(ctx, &hear)
	<-ctx.Done()
	e.leave(&hear)
}

// Hears implements [workflow.Listener].
func (e *ears) Hears() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hears
}

// Tell implements [workflow.Listener].
func (e *ears) Tell(n workflow.Note) { e.tell(n) }

func (e *ears) join(ctx context.Context, hear *func(workflow.Note)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners[hear] = struct{}{}
	if e.open != nil && e.stop == nil {
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		e.stop, e.done = stop, make(chan struct{})
		go e.run(running, e.done)
	}
}

// leave removes a listener. If it was the last one, leave ends the goroutine and waits for its end.
func (e *ears) leave(hear *func(workflow.Note)) {
	e.mu.Lock()
	delete(e.listeners, hear)
	var done chan struct{}
	if len(e.listeners) == 0 && e.stop != nil {
		e.stop()
		e.stop, done = nil, e.done
	}
	e.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (e *ears) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	keeper.Reconnect(ctx, patience, func() bool {
		heard, err := e.hear(ctx, done)
		if ctx.Err() == nil {
			e.log.WarnContext(ctx, "connection that hears of workflows failed: engines poll until it is back",
				"err", err)
		}
		return heard
	})
}

// hear passes on notifications until the connection fails or ctx ends. It reports whether it ever listened.
func (e *ears) hear(ctx context.Context, done chan struct{}) (heard bool, err error) {
	conn, err := e.open(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{e.channel}.Sanitize()); err != nil {
		return false, err
	}
	e.tune(done, true)
	defer e.tune(done, false)
	e.pass(workflow.Note{}, workflow.Note{Beats: true}) // those before LISTEN went unheard
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			if from, note := parse(n.Payload); from != e.name {
				e.pass(note)
			}
		case ctx.Err() != nil || conn.IsClosed():
			return true, err
		default:
			asking, cancel := context.WithTimeout(ctx, patience)
			err := conn.Ping(asking)
			cancel()
			if err != nil {
				return true, err
			}
		}
	}
}

// tune records whether the connection hears. If another goroutine has taken the place of the one that will close done,
// tune does nothing.
func (e *ears) tune(done chan struct{}, hears bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == done {
		e.hears = hears
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
	if e.open == nil {
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
			e.front.sql.notify, e.channel, texts(e.name, notes))
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
