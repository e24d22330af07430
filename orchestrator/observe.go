package orchestrator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// observeEvery is how long the numbers of a Backlog are good for, and observeShare the most of its time that a
	// process spends on reading them: one part in so many.
	observeEvery = 5 * time.Second
	observeShare = 20

	// observePatience bounds a look. A scrape of Prometheus has 10 s by default.
	observePatience = 5 * time.Second
)

// ObserveBacklog registers the numbers of Backlog as gauges, with the meter provider of OpenTelemetry that is set now:
// holdfast.runs and holdfast.runs.age by holdfast.status, holdfast.deliveries.owed and holdfast.deliveries.parked, and
// with a ledger holdfast.effects.in_doubt and holdfast.effects.in_doubt.age. Serve of package turnhttp calls it. Call
// stop to end it; after that no store is read.
//
// A collection calls Backlog at most once in five seconds, and for five seconds at most. If Backlog takes longer than a
// quarter of a second, it is called less often. If a store cannot be read, its gauges are missing. Each process that
// observes reports the same numbers: take the maximum of them, and not the sum.
func (o *Orchestrator[S]) ObserveBacklog() (stop func() error, err error) {
	stop, err = o.engine.observe(o.engine.meters.silent.Meter())
	if err != nil {
		return nil, &Error{Op: "backlog", Err: err}
	}
	return stop, nil
}

// gauges are the instruments of a Backlog.
type gauges struct {
	runs, owed, parked, inDoubt metric.Int64ObservableGauge
	runsAge, inDoubtAge         metric.Float64ObservableGauge
}

func newGauges(meter metric.Meter) (g gauges, err error) {
	errs := make([]error, 6)
	g.runs, errs[0] = meter.Int64ObservableGauge("holdfast.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Runs in flight, by status, as the snapshot store has them."))
	g.runsAge, errs[1] = meter.Float64ObservableGauge("holdfast.runs.age", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest run in flight began, by status; 0 if there is none."))
	g.owed, errs[2] = meter.Int64ObservableGauge("holdfast.deliveries.owed", metric.WithUnit("{session}"),
		metric.WithDescription("Sessions that owe a reply, as the checkpoint store has them."))
	g.parked, errs[3] = meter.Int64ObservableGauge("holdfast.deliveries.parked", metric.WithUnit("{session}"),
		metric.WithDescription("Sessions that owe a reply that drains try no more."))
	g.inDoubt, errs[4] = meter.Int64ObservableGauge("holdfast.effects.in_doubt", metric.WithUnit("{effect}"),
		metric.WithDescription("Effects that may have happened, and that no process is at work on."))
	g.inDoubtAge, errs[5] = meter.Float64ObservableGauge("holdfast.effects.in_doubt.age", metric.WithUnit("s"),
		metric.WithDescription("How long ago the oldest effect in doubt was last tried; 0 if there is none."))
	for _, e := range errs {
		if e != nil {
			err = e
		}
	}
	return g, err
}

// observe returns how to end what it has registered.
func (e *engine) observe(meter metric.Meter) (stop func() error, err error) {
	g, err := newGauges(meter)
	if err != nil {
		return nil, err
	}
	e.meters.zero() // the provider may have been set since New
	look := &backlogLook{engine: e}
	registered, err := meter.RegisterCallback(func(ctx context.Context, to metric.Observer) error {
		b, failed := look.now(ctx)
		g.tell(to, e.meters.name, e.ledger != nil, b, failed)
		return nil
	}, g.runs, g.runsAge, g.owed, g.parked, g.inDoubt, g.inDoubtAge)
	if err != nil {
		return nil, err
	}
	return registered.Unregister, nil
}

// tell leaves out what could not be read.
func (g gauges) tell(to metric.Observer, name attribute.KeyValue, ledger bool, b Backlog, failed backlogErrors) {
	bot := metric.WithAttributes(name)
	if failed.runs == nil {
		for _, r := range []struct {
			status string
			runs   int
			age    time.Duration
		}{
			{"running", b.Running, b.OldestRunning},
			{"waiting", b.Waiting, b.OldestWaiting},
			{"suspended", b.Suspended, b.OldestSuspended},
			{"parked", b.Parked, b.OldestParked},
			{"damaged", b.Damaged, -1},
		} {
			status := metric.WithAttributes(name, attrStatus.String(r.status))
			to.ObserveInt64(g.runs, int64(r.runs), status)
			if r.age >= 0 {
				to.ObserveFloat64(g.runsAge, r.age.Seconds(), status)
			}
		}
	}
	if failed.owed == nil {
		to.ObserveInt64(g.owed, int64(b.Owed), bot)
		to.ObserveInt64(g.parked, int64(b.OwedParked), bot)
	}
	if failed.effects == nil && ledger {
		to.ObserveInt64(g.inDoubt, int64(b.InDoubt), bot)
		to.ObserveFloat64(g.inDoubtAge, b.OldestInDoubt.Seconds(), bot)
	}
}

// A backlogLook reads the Backlog, and keeps it for a while.
type backlogLook struct {
	engine *engine

	mu     sync.Mutex // protects the following fields; held while the stores are read
	until  time.Time  // the last look is good until then
	last   Backlog
	failed backlogErrors
}

func (l *backlogLook) now(ctx context.Context) (Backlog, backlogErrors) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := time.Now()
	if began.Before(l.until) {
		return l.last, l.failed
	}
	ctx, cancel := context.WithTimeout(ctx, observePatience)
	defer cancel()
	before := l.failed.first()
	l.last, l.failed = l.engine.backlog(ctx)
	pause := observeEvery
	switch err := l.failed.first(); {
	case err == nil:
		pause = max(pause, observeShare*time.Since(began))
	case before == nil:
		l.engine.log.LogAttrs(ctx, slog.LevelWarn, "backlog not read; its gauges are missing", l.engine.why(err))
	}
	l.until = time.Now().Add(pause)
	return l.last, l.failed
}
