// Package telemetry has what the spans and metrics of several packages share. It tells whether a program listens to
// OpenTelemetry, so that nothing is computed in vain.
package telemetry

import (
	"context"
	"reflect"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// A Silence lists the provider types that did nothing when Listen looked. A type is nil if that provider was set up
// even then. A provider that is still of a listed type need not be looked at closely.
type Silence struct{ tracer, meter reflect.Type }

// Listen looks at the global providers.
func Listen() (s Silence) {
	if t := reflect.TypeOf(otel.GetTracerProvider()); !wasSet(t) {
		s.tracer = t
	}
	if t := reflect.TypeOf(otel.GetMeterProvider()); !wasSet(t) {
		s.meter = t
	}
	return s
}

// Traced returns the provider of tracers; nil if none was set up.
func (s Silence) Traced() trace.TracerProvider {
	p := otel.GetTracerProvider()
	if t := reflect.TypeOf(p); t == s.tracer || !wasSet(t) {
		return nil
	}
	return p
}

// Metered reports whether a meter provider was set up.
func (s Silence) Metered() bool {
	t := reflect.TypeOf(otel.GetMeterProvider())
	return t != s.meter && wasSet(t)
}

// wasSet reports whether a provider of OpenTelemetry was set up by the program. The other providers do nothing with
// what they get, but allocate for it.
func wasSet(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "go.opentelemetry.io/otel/internal/global", "go.opentelemetry.io/otel/trace/noop",
		"go.opentelemetry.io/otel/metric/noop":
		return false
	}
	return true
}

// Seconds returns the boundaries of a histogram in seconds. The default boundaries are for milliseconds: all that takes
// less than 5 s would be in one bucket.
func Seconds() metric.HistogramOption {
	return metric.WithExplicitBucketBoundaries(Boundaries()...)
}

// Boundaries are those of Seconds.
func Boundaries() []float64 {
	return []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}
}

// How often a gauge reads a store, and for how long at most.
const (
	lookEvery    = 5 * time.Second
	lookPatience = 5 * time.Second
)

// A Look keeps for a while what a store has said, so that many scrapes cost few reads.
type Look[T any] struct {
	Read func(context.Context) (T, error)

	mu    sync.Mutex // protects following fields; held while the store is read
	until time.Time  // the last look is good until then
	last  T
	err   error
}

// Now returns what the store says, or has said a moment ago.
func (l *Look[T]) Now(ctx context.Context) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		return l.last, l.err
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	l.last, l.err = l.Read(ctx)
	l.until = time.Now().Add(lookEvery)
	return l.last, l.err
}
