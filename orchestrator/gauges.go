package orchestrator

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A Backlog counts what the stores hold of a bot that is not finished, of all processes.
type Backlog struct {
	Running   int // at work, or left by an owner that is gone
	Waiting   int // for its next owner
	Suspended int // for an answer
	Parked    int // for a person
	Damaged   int // runs that cannot be read

	// Owed counts the sessions that owe a reply.
	Owed int
}

// Backlog reads the stores, so it is exact after a crash too. It costs by the runs in flight and the sessions that owe:
// call it now and then, from one process. If a part of a store is away, Backlog returns an error with what it counted
// on the others.
func (o *Orchestrator[S]) Backlog(ctx context.Context) (b Backlog, err error) {
	name, left := o.engine.identity.name, new(gap)
	for r, err := range o.engine.runs(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: name}, Brief: true}) {
		switch {
		case left.add(err):
			continue
		case err != nil && !ofOneRow(err):
			return b, &Error{Op: "backlog", Err: unavailable(err)}
		case err != nil:
			b.Damaged++
			continue
		}
		switch r.Status {
		case snapshot.Running:
			b.Running++
		case snapshot.Waiting:
			b.Waiting++
		case snapshot.Suspended:
			b.Suspended++
		case snapshot.Parked:
			b.Parked++
		}
	}
	for _, err := range o.engine.store.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: name, Owing: true}) {
		switch {
		case left.add(err):
			continue
		case err != nil && !ofOneRow(err):
			return b, &Error{Op: "backlog", Err: unavailable(err)}
		}
		b.Owed++
	}
	if left.err != nil {
		return b, &Error{Op: "backlog", Err: unavailable(left.err)}
	}
	return b, nil
}

// ObserveBacklog registers two gauges with the meter provider of OpenTelemetry that is set now: holdfast.runs, by
// holdfast.status, and holdfast.deliveries.owed. Each collection calls Backlog. Register them in one process: each
// process would report the same. Call stop to end it.
func (o *Orchestrator[S]) ObserveBacklog() (stop func() error, err error) {
	meter := otel.Meter(scope)
	runs, err := meter.Int64ObservableGauge("holdfast.runs", metric.WithUnit("{run}"),
		metric.WithDescription("Runs in flight, by status, as the snapshot store has them."))
	if err != nil {
		return nil, &Error{Op: "backlog", Err: err}
	}
	owed, err := meter.Int64ObservableGauge("holdfast.deliveries.owed", metric.WithUnit("{session}"),
		metric.WithDescription("Sessions that owe a reply, as the checkpoint store has them."))
	if err != nil {
		return nil, &Error{Op: "backlog", Err: err}
	}
	registered, err := meter.RegisterCallback(func(ctx context.Context, observer metric.Observer) error {
		b, err := o.Backlog(ctx)
		if err != nil {
			return err
		}
		for status, n := range map[string]int{
			"running": b.Running, "waiting": b.Waiting, "suspended": b.Suspended,
			"parked": b.Parked, "damaged": b.Damaged,
		} {
			observer.ObserveInt64(runs, int64(n),
				metric.WithAttributes(o.engine.meters.name, attrStatus.String(status)))
		}
		observer.ObserveInt64(owed, int64(b.Owed), metric.WithAttributes(o.engine.meters.name))
		return nil
	}, runs, owed)
	if err != nil {
		return nil, &Error{Op: "backlog", Err: err}
	}
	return registered.Unregister, nil
}
