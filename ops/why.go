package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// A Why explains how a session stands.
type Why struct {
	store.Key
	orchestrator.Standing

	// State is "idle", or that of the run: see Run.State. A session that is damaged is "damaged".
	State string

	// Error is the text of the last error of the run. It may repeat what a user said: keep it out of logs.
	Error string

	// Damaged says what cannot be read.
	Damaged error

	Effects []ledger.Effect // open ones of the session
	Inputs  int             // of Enqueue that wait

	Says []string // what it means, a sentence each
	Do   []Advice // what can be done, the best first
}

// An Act names what a person can do.
type Act string

// The acts. Each is a method of Room.
const (
	Unpark       Act = "unpark"
	MakeDue      Act = "due"
	Abandon      Act = "abandon"
	Delete       Act = "delete"
	Stop         Act = "stop"
	SkipDelivery Act = "skip"
	AnswerEffect Act = "answer"
)

// An Advice is an act, and what it does in a sentence.
type Advice struct {
	Act  Act
	Does string
}

// The sentences of advice.
var (
	toUnpark  = Advice{Unpark, "After what failed is mended: the run is due again with all its attempts."}
	toMakeDue = Advice{MakeDue, "After what failed is mended: the run is tried again at once, not after its pause."}
	toAbandon = Advice{Abandon, "The run ends without a turn. What it did outside stays done."}
	toDelete  = Advice{Delete, "The session goes, with all its turns."}
	toStop    = Advice{Stop, "An agent ends its turn as interrupted, within about a second. Other bots do not look."}
	toSkip    = Advice{SkipDelivery, "The oldest owed reply is given up. The replies behind it are delivered."}
	toAnswer  = Advice{AnswerEffect, "Ask the other side, and say whether the effect landed. Then the run goes on."}
)

// Why explains one session, or returns ErrNotFound.
func (r *Room) Why(ctx context.Context, k store.Key) (Why, error) {
	bot, err := r.Bot(k.Orchestrator)
	if err != nil {
		return Why{}, err
	}
	w := Why{Key: k}
	w.Standing, err = bot.Inspect(ctx, k.Session)
	switch {
	case damaged(err):
		w.Damaged = err
	case drifts(err):
		w.say("A later version of the program has written the run: a process of that version goes on.")
	case err != nil:
		return w, err
	case w.Turn < 0 && w.Owner == "" && w.Run == nil:
		return w, fmt.Errorf("%w: bot %q has no session %q", ErrNotFound, k.Orchestrator, k.Session)
	}
	if err := r.beside(ctx, &w); err != nil {
		return w, err
	}
	w.judge()
	return w, nil
}

// beside reads what other stores have of the session.
func (r *Room) beside(ctx context.Context, w *Why) error {
	if w.Run != nil && r.stores.Snapshots != nil {
		run, err := snapshot.Load(ctx, r.stores.Snapshots, snapshot.Query{Key: w.Key})
		if err != nil && !damaged(err) && !errors.Is(err, snapshot.ErrNotFound) {
			return err
		}
		w.Error = run.Error
	}
	if r.stores.Ledger != nil {
		q := ledger.Query{Orchestrator: w.Orchestrator, Session: w.Key.Session, Open: true}
		for e, err := range r.stores.Ledger.Effects(ctx, q) {
			if err != nil && !damaged(err) {
				return err
			}
			w.Effects = append(w.Effects, e)
		}
	}
	if r.stores.Inbox != nil {
		n, err := r.waitingInputs(ctx, w.Key)
		w.Inputs = n
		return err
	}
	return nil
}

func (w *Why) say(format string, args ...any) { w.Says = append(w.Says, fmt.Sprintf(format, args...)) }

// judge says what the session's standing means, and what can be done.
func (w *Why) judge() {
	w.State = "idle"
	switch {
	case w.Damaged != nil:
		w.State = "damaged"
		w.say("What is stored was written by no store: %s.", logtext.Line(w.Damaged.Error()))
		w.say("Nothing of the session is recovered until it is repaired or deleted.")
		w.Do = append(w.Do, Advice{Abandon, "A damaged run is deleted. The turns stay."}, toDelete)
	case w.Run != nil:
		w.State = Run{Run: snapshot.Run{Status: w.Run.Status}, Owner: w.Owner}.State()
		w.judgeRun()
	case w.Owner != "":
		w.say("Process %s owns the session, and no run is in flight.", w.Owner)
	default:
		w.say("No run is in flight, and no process owns the session.")
	}
	if w.Owed > 0 && w.Run == nil {
		w.say("%d settled turns are not delivered. The drain delivers them.", w.Owed)
		w.Do = append(w.Do, toSkip)
	}
	if w.Inputs > 0 {
		w.say("%d inputs wait for their turn.", w.Inputs)
	}
}

func (w *Why) judgeRun() {
	switch w.State {
	case string(snapshot.Parked):
		w.say("The run was tried %d times without progress, and is tried no more.", w.Run.Attempt)
		if w.Error == "" {
			w.say("Its process ended each time, or its callers went.")
		}
		if len(w.Effects) > 0 {
			w.Do = append(w.Do, toAnswer)
		}
		w.Do = append(w.Do, toUnpark, toAbandon, toDelete)
	case string(snapshot.Suspended):
		w.say("The run waits until a person has answered for %d effects that may have happened.", len(w.Run.Effects))
		if len(w.Effects) == 0 {
			w.say("All are answered: a full pass of the drain goes on with the run, within seconds.")
		}
		w.Do = append(w.Do, toAnswer, toAbandon, toDelete)
	case string(snapshot.Waiting):
		if w.Run.Pause > 0 {
			w.say("The run is tried again in %v. It has been tried %d times.",
				w.Run.Pause.Round(time.Second), w.Run.Attempt)
		} else {
			w.say("The run is due: a process that has the bot goes on with it within a second.")
		}
		w.Do = append(w.Do, toMakeDue, toAbandon, toDelete)
	case string(snapshot.Running):
		w.say("Process %s is at work on the run, by a lease of %v.", w.Owner, w.LeaseLeft.Round(time.Second))
		w.Do = append(w.Do, toStop, toAbandon, toDelete)
	case "left":
		w.say("The process that worked on the run is gone.")
		w.say("The watch of another process takes the run up within seconds.")
		w.say("If the run stays, no process that has the bot watches.")
		w.Do = append(w.Do, toAbandon, toDelete)
	}
}
