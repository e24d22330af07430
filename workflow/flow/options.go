package flow

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
)

// Options configure an Engine. The zero value, and nil, mean the defaults.
type Options struct {
	Workers     int           // runs at a time; 32 by default
	Writers     int           // group writes at a time; 2 by default. On a disk that takes 1 ms to flush, 8 are faster
	Poll        time.Duration // between looks of an idle engine; 1 s, or 30 s while the store notifies
	DeadAfter   time.Duration // for how long the beats of a process stand still before its runs are taken over; 4 s
	Lease       time.Duration // after which runs change hands without beats, in any case if the store has none; 30 s
	Grace       time.Duration // for steps at the end of Run; 10 s
	MostCrashes int           // at one place, after which a run is held; 5
	Sweep       time.Duration // between sweeps, and not less than Poll if idle; WORKFLOWS_SWEEPER_INTERVAL_MS, or 5 min
	Eager       bool          // makes each outcome durable before its Step returns
	Retry       retry.Policy  // of steps without one; 3 attempts, 1 s doubling up to 60 s, ± 20 %
	Logger      *slog.Logger
	Metrics     Metrics // hear what the engine counts, besides OpenTelemetry's global provider; nil: none
}

func (o *Options) orDefault() Options {
	var with Options
	if o != nil {
		with = *o
	}
	with.Workers = cmp.Or(with.Workers, 32)
	with.Writers = cmp.Or(with.Writers, 2)
	with.DeadAfter = cmp.Or(with.DeadAfter, 4*time.Second)
	with.Lease = cmp.Or(with.Lease, 30*time.Second)
	with.Grace = cmp.Or(with.Grace, 10*time.Second)
	with.MostCrashes = cmp.Or(with.MostCrashes, 5)
	with.Logger = cmp.Or(with.Logger, slog.Default())
	if with.Sweep == 0 {
		with.Sweep = sweepInterval(with.Logger)
	}
	if with.Retry.Attempts == 0 {
		with.Retry = retry.Exponential(3, time.Second).Max(time.Minute).Spread(0.2)
	}
	return with
}

// sweepVariable is the environment variable that says after how many milliseconds an engine sweeps again.
const sweepVariable = "WORKFLOWS_SWEEPER_INTERVAL_MS"

// sweepInterval returns what the variable says. If it says nothing that can be meant, it is logged, and the default
// counts: an engine does not fail for it.
func sweepInterval(log *slog.Logger) time.Duration {
	const byDefault, most = 5 * time.Minute, workflow.MaxDelay
	text := os.Getenv(sweepVariable)
	if text == "" {
		return byDefault
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 1 || ms > most.Milliseconds() {
		log.Warn("environment variable ignored: it is no number of milliseconds", "variable", sweepVariable,
			"value", text, "default", byDefault)
		return byDefault
	}
	return time.Duration(ms) * time.Millisecond
}

// faults names the values that cannot be meant.
func (o *Options) faults() (faults []string) {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Workers", int64(o.Workers)},
		{"Writers", int64(o.Writers)},
		{"Poll", int64(o.Poll)},
		{"DeadAfter", int64(o.DeadAfter)},
		{"Lease", int64(o.Lease)},
		{"Grace", int64(o.Grace)},
		{"MostCrashes", int64(o.MostCrashes)},
		{"Sweep", int64(o.Sweep)},
		{"Retry.Attempts", int64(o.Retry.Attempts)},
	} {
		if n.value < 0 {
			faults = append(faults, n.name+" is negative")
		}
	}
	if o.Lease > workflow.MaxDelay {
		faults = append(faults, "Lease is longer than "+workflow.MaxDelay.String())
	}
	return faults
}

// The options of definitions, steps and waits.
type (
	// A DefinitionOption is Keep, Deadline or Limit.
	DefinitionOption interface{ definitionOption(*definition) }

	// A StepOption is Retry or Timeout.
	StepOption interface{ stepOption(*stepOptions) }

	// A WaitOption is Timeout, Match, Event or Strict.
	WaitOption interface{ waitOption(*waitOptions) }

	// Keep is for how many days a run is kept after its end.
	Keep int

	// Deadline is how long a run may take in all, from its start on. A run that is not over by then fails with the text
	// of ErrDeadline, also while it sleeps or waits. The context of a step ends at the deadline with ErrDeadline as its
	// cause, and no verb of the body is carried out after it. A delay, and the time that a run waits for its place
	// within a Limit, count. A run that is held fails once it goes on.
	//
	// It is the Deadline of the process that runs the body, also for runs that were started before it was changed. A
	// run that sleeps or waits wakes at the one that it had when it was given back.
	Deadline time.Duration

	// Limit bounds the runs of the workflow over all processes and versions. A run of it never begins without a claim.
	Limit workflow.Limit

	// Retry is the policy of a step. Its Attempts count all calls.
	Retry retry.Policy

	// Timeout ends the context of an attempt of a step, or a wait.
	Timeout time.Duration

	// Match must be contained in the payload, as PostgreSQL's @> compares.
	Match map[string]any

	// Event names the event of a wait, if it is not the name of the wait.
	Event string
)

// Strict makes a wait ignore signals that came before it.
var Strict WaitOption = strict{}

type strict struct{}

type stepOptions struct {
	policy  retry.Policy
	timeout time.Duration
}

type waitOptions struct {
	event   string
	match   json.RawMessage
	invalid error
	timeout time.Duration
	strict  bool
}

func (k Keep) definitionOption(d *definition)       { d.keep = int(k) }
func (d Deadline) definitionOption(def *definition) { def.deadline = time.Duration(d) }
func (l Limit) definitionOption(d *definition)      { d.limit = l }
func (p Retry) stepOption(o *stepOptions)           { o.policy = retry.Policy(p) }
func (t Timeout) stepOption(o *stepOptions)         { o.timeout = time.Duration(t) }
func (t Timeout) waitOption(o *waitOptions)         { o.timeout = time.Duration(t) }
func (e Event) waitOption(o *waitOptions)           { o.event = string(e) }
func (strict) waitOption(o *waitOptions)            { o.strict = true }

func (m Match) waitOption(o *waitOptions) {
	if m != nil {
		o.invalid = guard(func() (err error) { o.match, err = json.Marshal(map[string]any(m)); return err })
	}
}
