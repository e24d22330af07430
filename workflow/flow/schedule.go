package flow

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// mostMissed is how many times that passed are caught up.
	mostMissed = 100

	// mostFailures is how many failures in a row pause a schedule.
	mostFailures = 3

	// glance is for how long a schedule sleeps without a look at the clock, which may be set.
	glance = time.Minute
)

// A scheduled starts runs of a definition at the times of a schedule.
type scheduled struct {
	def     *definition
	text    string
	times   timetable
	catchUp bool
	input   func(at time.Time) (json.RawMessage, error)
}

// On starts a run at each time of a schedule. The result is one more definition for NewEngine, and brings w along. Each
// engine that has it keeps a timer. Over all processes there is one run for each time: the time is in the idempotency
// key of the run. So in has to return the same for the same time in each process.
//
// A schedule is "@every 90s", at the multiples of the duration since 1970, in whole seconds; or a cron expression of
// minute, hour, day of the month, month and day of the week; or "@hourly", "@daily", "@weekly", "@monthly" or
// "@yearly". These are in UTC. A zone comes first: "CRON_TZ=Europe/Berlin 0 3 * * *". If both days are given, either
// will do. If the clock of the zone leaves a time out, the time is at the end of the gap. If it shows a time twice, the
// first one counts. A schedule of every hour, or of each nth, goes by what has passed instead. Times shows the times.
//
// A time is missed if its run was not started when the next one came: no process ran, the store was away, or the
// schedule was paused. If catchUp is set, the newest 100 that were missed are started, in order, when an engine begins
// to run, or when it can start runs again. Else none is. What was missed is known from the newest run of the schedule,
// as long as that is kept.
//
// If its three newest runs have failed, the schedule is paused: it starts none until a run of w is started by hand.
//
// On panics if the schedule is invalid, or never comes, or if in is nil: they are constants of the program.
func (w *Workflow[In, Out]) On(schedule string, in func(at time.Time) In, catchUp bool) Definition {
	text, times, err := parseSchedule(schedule)
	if err != nil {
		panic("flow: " + err.Error())
	}
	if in == nil {
		panic("flow: schedule " + text + " has no input")
	}
	return &scheduled{w.def, text, times, catchUp, func(at time.Time) (doc json.RawMessage, err error) {
		if e := guard(func() error { doc, err = encode("input", in(at)); return nil }); e != nil {
			err = e
		}
		return doc, err
	}}
}

func (s *scheduled) definition() *definition { return s.def }

// byClock begins the keys of the runs of all schedules.
const byClock = "schedule "

// prefix begins the keys of the runs of s. No schedule has an "at", so it begins no key of another schedule.
func (s *scheduled) prefix() string { return byClock + s.text + " at " }

func (s *scheduled) key(at time.Time) string { return s.prefix() + at.UTC().Format(time.RFC3339) }

// due returns the times after from, and not after now: the newest most of them, and how many there were before these.
func (s *scheduled) due(from, now time.Time, most int) (times []time.Time, before int) {
	for at := s.times.next(from); !at.IsZero() && !at.After(now); at = s.times.next(at) {
		if times = append(times, at); len(times) > 2*most {
			before += len(times) - most
			times = append(times[:0], times[len(times)-most:]...)
		}
	}
	extra := max(len(times)-most, 0)
	return times[extra:], before + extra
}

// A timekeeper starts the runs of one schedule in this process.
type timekeeper struct {
	*scheduled

	e      *Engine
	log    *slog.Logger
	done   time.Time // what comes after this time is to be started
	known  bool      // done is known
	paused bool
}

// keepTime starts runs until ctx ends.
func (e *Engine) keepTime(ctx context.Context, s *scheduled) {
	k := &timekeeper{
		scheduled: s, e: e, done: time.Now(), known: !s.catchUp,
		log: e.options.Logger.With("workflow", s.def.Workflow, "schedule", s.text),
	}
	wake := k.done // what was missed is looked for at once
	if k.known {
		wake = s.times.next(k.done)
	}
	for pause := time.Duration(0); !wake.IsZero() && sleepUntil(ctx, wake); {
		now := time.Now()
		wake = s.times.next(now)
		err := k.start(ctx, now)
		if err == nil {
			pause = 0
			continue
		}
		if ctx.Err() == nil {
			k.log.Warn("schedule cannot start runs now, and tries again", "err", logtext.Of(err))
		}
		pause = min(max(2*pause, time.Second), mostWait)
		if soon := now.Add(pause); wake.IsZero() || soon.Before(wake) {
			wake = soon
		}
	}
}

// sleepUntil returns false if ctx ends before.
func sleepUntil(ctx context.Context, at time.Time) bool {
	for {
		left := time.Until(at.Round(0)) // by the clock, which goes on while a machine sleeps
		if left <= 0 {
			return ctx.Err() == nil
		}
		t := time.NewTimer(min(left, glance))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
}

// start starts what is due.
func (k *timekeeper) start(ctx context.Context, now time.Time) error {
	newest, err := k.newest(ctx)
	if err != nil {
		return err
	}
	if !k.known && len(newest) > 0 {
		if last, err := time.Parse(time.RFC3339, strings.TrimPrefix(newest[0].Key, k.prefix())); err == nil {
			k.done = last
		}
	}
	k.known = true
	most := 1
	if k.catchUp {
		most = mostMissed
	}
	times, before := k.due(k.done, now, most)
	if len(times) == 0 {
		return nil
	}
	paused, err := k.pauses(ctx, newest)
	switch {
	case err != nil:
		return err
	case paused && k.catchUp:
		return nil
	case paused:
		k.done = now
		return nil
	case before > 0:
		k.log.Warn("schedule has missed times: they are not started", "times", before, "before", times[0])
	}
	for _, at := range times {
		if len(newest) == 0 || newest[0].Key < k.key(at) {
			err = k.startAt(ctx, at)
		}
		if err != nil {
			return err
		}
		k.done = at
	}
	return nil
}

// newest returns the newest runs of the schedule.
func (k *timekeeper) newest(ctx context.Context) (all []workflow.Run, err error) {
	q := workflow.Query{Workflow: k.def.Workflow, KeyPrefix: k.prefix(), Limit: mostFailures}
	for r, err := range k.e.store.Runs(ctx, q) {
		if _, damaged := errors.AsType[*workflow.DamagedError](err); err != nil && !damaged {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// pauses reports whether the newest runs have failed, and no run has been started by hand since the first of them.
func (k *timekeeper) pauses(ctx context.Context, newest []workflow.Run) (bool, error) {
	if len(newest) < mostFailures {
		return false, nil
	}
	for i := range newest {
		if newest[i].Status != workflow.Failed {
			k.paused = false
			return false, nil
		}
	}
	// Other schedules of the workflow may go on. By hand, one starts few runs.
	q := workflow.Query{Workflow: k.def.Workflow, Since: newest[mostFailures-1].Started, Limit: 10 * mostMissed}
	for r, err := range k.e.store.Runs(ctx, q) {
		if _, damaged := errors.AsType[*workflow.DamagedError](err); err != nil && !damaged {
			return false, err
		}
		if !strings.HasPrefix(r.Key, byClock) {
			k.paused = false
			return false, nil
		}
	}
	if !k.paused {
		k.paused = true
		k.log.Warn("schedule is paused: its last runs have failed. Start a run of the workflow by hand to go on",
			"failed", mostFailures, "run", newest[0].ID)
	}
	return true, nil
}

// startAt starts the run of a time. Another process may have done so. An input that no store takes is passed over.
func (k *timekeeper) startAt(ctx context.Context, at time.Time) error {
	in, err := k.input(at)
	if err == nil {
		_, err = k.e.Front().Start(ctx, []workflow.NewRun{{
			ID: workflow.NewID(), Workflow: k.def.Workflow, Version: k.def.Version, Input: in, Key: k.key(at),
			RetentionDays: k.def.keep,
		}})
		if err != nil && !errors.Is(err, workflow.ErrInvalid) && !errors.Is(err, workflow.ErrKeyReused) {
			return err
		}
	}
	switch {
	case errors.Is(err, workflow.ErrKeyReused):
		k.log.Warn("schedule has another input in another process: its run is the only one", "at", at)
	case err != nil:
		k.log.Error("schedule cannot start its run", "at", at, "err", logtext.Of(err))
	}
	return nil
}
