package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Points of a process with a turn log.
const (
	logStarted = "log " + turnlog.Started
	logLLM     = "log " + turnlog.LLMComplete
	logSettled = "log " + turnlog.Settled
)

// loggers returns the scenarios with a turn log.
func loggers() []scenario {
	again := []act{zero, two, recovery, resume}
	return []scenario{
		{name: "log", bot: logging, act: one, follow: []act{one, two, recovery}},
		{name: "log, iterations", bot: loggingAll, act: one, follow: []act{one, two, recovery, resume}},
		{name: "log, ended from outside", bot: logging, act: one, follow: []act{abandon, remove}, from: logStarted},
		{
			name: "log, the beats stop", bot: logging, act: one, silent: true, from: logStarted,
			follow: []act{one, two, simple},
		},
		{
			name: "log, failing intent", bot: logging, fails: "a", act: one, wants: errFailing, from: logStarted,
			follow: []act{one, two, recovery, resume},
		},
		{name: "log, resume own", bot: logging, found: left("a"), act: zero, follow: again},
		{name: "log, resume what has not started", bot: logging, found: left(logStarted), act: zero, follow: again},
		{name: "log, Recover", bot: loggingAll, found: left("c"), act: recovery, follow: again},
		{name: "log, finished run: settled", bot: logging, found: left(logSettled), act: quick, follow: live},
		{name: "log, Recover a finished run", bot: logging, found: left("drop"), act: recovery, follow: mixed},
		{name: "log, finished run: failed", bot: logging, found: failed, act: quick, follow: live},
		{
			name: "log, AbandonFirst", bot: logging, found: left("a"), how: orchestrator.AbandonFirst, act: quick,
			follow: live,
		},
		{name: "log, Abandon", bot: logging, found: owned("a"), act: abandon, follow: again},
		{name: "log, Abandon a finished run", bot: logging, found: owned(logSettled), act: abandon, follow: again},
		{name: "log, Delete with a run", bot: logging, found: owned("a"), act: remove, follow: again},
		{name: "log, run of a deleted session", bot: logging, found: outlived, act: quick, follow: live},
	}
}

// model notes in the turn log that a model has answered.
func (p *process) model(ctx context.Context, t *Turn) error {
	return t.Record(ctx, turnlog.LLMComplete, map[string]string{"answer": "yes"})
}

// phases is a turn log as a process sees it.
type phases struct{ *process }

func (s phases) Record(ctx context.Context, e turnlog.Entry) error {
	return tell(ctx, s.process, "log "+e.Phase, func(ctx context.Context) error {
		return s.wrote(s.TurnLog.Record(ctx, e))
	})
}

func (s phases) Restore(context.Context, string) ([]turnlog.Entry, error) {
	s.accuse(Logged, "the engine calls Restore")
	return nil, nil
}

// logged returns what the turn log has of a run.
func (w *world) logged(run string) ([]turnlog.Entry, error) {
	return w.TurnLog.Restore(context.Background(), run)
}

// isOpen checks that the turn log has the beginning of a run, and not its end, when a function of the run starts.
func (w *world) isOpen(run, name string) {
	if !w.bot.logs {
		return
	}
	all, err := w.logged(run)
	switch r := turnlog.Judge(all); {
	case err != nil:
		w.accuse(Healthy, "reading the turn log: %v", err)
	case r == turnlog.Nothing || r == turnlog.Outbound:
		w.accuse(Logged, "%s runs, and the turn log says of the run: %s", name, r)
	}
}

// isLogged checks that the turn log has the end of a turn before its reply is handed over.
func (w *world) isLogged(run string) {
	if !w.bot.logs {
		return
	}
	all, err := w.logged(run)
	if err != nil {
		w.accuse(Healthy, "reading the turn log: %v", err)
	} else if turnlog.Judge(all) != turnlog.Outbound {
		w.accuse(Logged, "Deliver gets run %s before its end is in the turn log", run)
	}
}

// verifyPhases checks what the turn log says of each run that began.
func (w *world) verifyPhases(turns []*Result) {
	if !w.bot.logs {
		return
	}
	settled := make(map[string]*Result)
	for _, res := range turns {
		settled[res.RunID] = res
	}
	for id, r := range w.runs {
		if !r.known {
			continue
		}
		all, err := w.logged(id)
		if err == nil {
			err = w.judged(all, settled[id], r.gone)
		}
		if err != nil {
			w.accuseLocked(Logged, "run %s: %w: %s", id, err, shown(all))
		}
	}
}

// judged returns what is wrong with the entries of a run. res is the settled turn; nil if the run has not settled. gone
// says that the session was deleted.
func (w *world) judged(all []turnlog.Entry, res *Result, gone bool) error {
	open, last := false, turnlog.SettledState{}
	var before time.Time
	for _, e := range all {
		if e.Phase == turnlog.LLMComplete { // an owner that was stopped may record it too late
			continue
		}
		if !before.Before(e.At) {
			return fmt.Errorf("%s is not later than what was before", e.Phase)
		}
		before = e.At
		switch e.Phase {
		case turnlog.Started:
			if open {
				return fmt.Errorf("it has started twice")
			}
			open = true
		case turnlog.Settled:
			if !open {
				return fmt.Errorf("it has settled, and is not open")
			}
			open = false
			if err := json.Unmarshal(e.State, &last); err != nil {
				return err
			}
		}
	}
	switch {
	case len(all) == 0 || all[0].Phase != turnlog.Started:
		return fmt.Errorf("it does not begin with started")
	case open:
		return fmt.Errorf("its end is missing")
	case gone:
		return nil
	case (last.TurnState == turnlog.Complete) != (res != nil):
		return fmt.Errorf("its last end is %s, and settled is %t", last.TurnState, res != nil)
	case res == nil:
		return nil
	}
	state, err := json.Marshal(res.State)
	if err == nil && !turnlog.Same(state, last.Respond) {
		err = fmt.Errorf("it has settled with %s", state)
	}
	return err
}

// shown lists entries for people.
func shown(all []turnlog.Entry) string {
	doc, _ := json.Marshal(all)
	return string(doc)
}
