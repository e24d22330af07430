package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Abandoned is the Status of a run that was ended without a turn.
const Abandoned = "abandoned"

// A Run is a turn on its way or at its end.
type Run struct {
	ID string

	// Version is the one that the run has made, or will make. It is 0 for a run that has failed or was abandoned.
	Version int

	// Kind is "say", "answer", "continue", "drop", "create", "update", "compact" or "end". The last one comes before an
	// expired session is deleted. If another agent has asked, Kind is "" until the turn has settled. Import creates.
	Kind string

	// Status is "active", the Status or Reason that the turn has settled with, "failed" or "abandoned". A turn that has
	// settled as Failed has a Version.
	Status string

	Started time.Time // of a settled one: when its iterations began, without pauses between them
	Ended   time.Time

	// Stream is the number of the first event of the run that Stores.Stream keeps; 0 if it keeps none. A reader who
	// wants only this run calls Follow of Bot with Stream-1, and leaves at the first event of another run.
	Stream int64
}

// Runs yields the runs of a session, newest first: the one in flight, and the kept turns. With a Stores.TurnLog that is
// a turnlog.Lister, it also yields the runs that have failed or were abandoned, as long as the log keeps them. Runs of
// a deleted session of the same name are among them. If the stream or the log cannot be read, the error comes last, and
// the runs before it lack what only that store has.
func (a *Agent[C]) Runs(ctx context.Context, session string) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		st, err := a.bot.Inspect(ctx, session)
		if err != nil {
			yield(Run{}, err)
			return
		}
		shown, away := a.shown(ctx, session)
		lost, unread := a.unsettled(ctx, session, st.Run)
		next := func(r Run) bool {
			r.Stream = shown[r.ID]
			return yield(r, nil)
		}
		if r := st.Run; r != nil &&
			!next(Run{ID: r.ID, Version: r.Turn + 1, Kind: r.InputKind, Status: string(Active), Started: r.Started}) {
			return
		}
		for r, err := range a.bot.Turns(ctx, session) {
			if err != nil {
				yield(Run{}, err)
				return
			}
			run := settledRun(session, r)
			for len(lost) > 0 && lost[0].turn > r.Turn {
				if !next(lost[0].Run) {
					return
				}
				lost = lost[1:]
			}
			if !next(run) {
				return
			}
		}
		for _, r := range lost {
			if !next(r.Run) {
				return
			}
		}
		if err := errors.Join(away, unread); err != nil {
			yield(Run{}, err)
		}
	}
}

// settledRun is a turn as a Run.
func settledRun[C any](session string, r *orchestrator.Result[State[C]]) Run {
	run := Run{ID: r.RunID, Version: r.Turn + 1, Status: string(r.State.Status), Ended: r.SavedAt}
	env, _ := opened(session, r.Input)
	run.Kind = cmp.Or(r.Input.Kind, env.Op)
	run.Started = run.Ended
	for _, step := range r.Steps {
		run.Started = run.Started.Add(-step.Took)
	}
	if r.State.Reason != "" && r.State.Status == Paused {
		run.Status = string(r.State.Reason)
	}
	return run
}

// shown returns the number of the first event of each run.
func (a *Agent[C]) shown(ctx context.Context, session string) (map[string]int64, error) {
	if a.stores.Stream == nil {
		return nil, nil
	}
	return a.bot.RunsShown(ctx, session)
}

// A lostRun is a run that has ended without a turn. turn is the number that its turn would have got. So the run is
// older than the turn of that number.
type lostRun struct {
	Run
	turn int
}

// unsettled returns the runs that have failed or were abandoned, newest first, as far as there is a turn log.
func (a *Agent[C]) unsettled(
	ctx context.Context, session string, inFlight *orchestrator.InFlight,
) (lost []lostRun, err error) {
	log, ok := a.stores.TurnLog.(turnlog.Lister)
	if !ok {
		return nil, nil
	}
	for turn, failed := range log.Turns(ctx, turnlog.Query{Orchestrator: a.def.Name, Session: session}) {
		if errors.Is(failed, errors.ErrUnsupported) { // the adapter of a turnlog.Checked is no Lister
			return nil, nil
		}
		if failed == nil && (inFlight == nil || inFlight.ID != turn.First.Run) {
			var r Run
			if r, ok, failed = unsettledRun(ctx, log, turn); ok {
				lost = append(lost, lostRun{r, max(turn.First.Turn, turn.Last.Turn)})
			}
		}
		err = errors.Join(err, failed)
	}
	slices.SortFunc(lost, func(a, b lostRun) int { return cmp.Or(b.turn-a.turn, b.Ended.Compare(a.Ended)) })
	return lost, err
}

// unsettledRun returns a run that has ended and has not settled.
func unsettledRun(ctx context.Context, log turnlog.Log, turn turnlog.Summary) (r Run, ended bool, err error) {
	last := turn.Last
	if last.Phase != turnlog.Settled { // a former owner may have recorded something later
		all, err := log.Restore(ctx, last.Run)
		if err != nil {
			return r, false, err
		}
		i := slices.IndexFunc(all, func(e turnlog.Entry) bool { return e.Phase == turnlog.Settled })
		for _, e := range all[max(i, 0):] {
			if e.Phase == turnlog.Settled || e.Phase == turnlog.Started {
				last = e
			}
		}
		if last.Phase != turnlog.Settled {
			return r, false, nil // it is open
		}
	}
	var end turnlog.SettledState
	var begin turnlog.StartedState
	err = json.Unmarshal(last.State, &end)
	if err != nil || end.TurnState == turnlog.Complete {
		return r, false, err
	}
	r = Run{ID: last.Run, Status: string(Failed), Started: turn.First.At, Ended: last.At}
	if turn.First.Phase == turnlog.Started && json.Unmarshal(turn.First.State, &begin) == nil {
		r.Kind = begin.Kind
	}
	if end.TurnState == turnlog.Cancelled {
		r.Status = Abandoned
	}
	return r, true, nil
}
