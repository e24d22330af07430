// Package telemetry has what the spans and metrics of several packages share. It tells whether a program listens to
// OpenTelemetry, so that nothing is computed in vain.
package telemetry

import (
	"context"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of OpenTelemetry's semantic conventions: general, and for generative AI.
const (
	ErrorType    = attribute.Key("error.type")
	Operation    = attribute.Key("gen_ai.operation.name")
	Provider     = attribute.Key("gen_ai.provider.name")
	Model        = attribute.Key("gen_ai.request.model")
	InputTokens  = attribute.Key("gen_ai.usage.input_tokens")
	OutputTokens = attribute.Key("gen_ai.usage.output_tokens")
)

// Chat is the Operation of a call of a model.
const Chat = "chat"

// A Silence makes the tracers and meters of a package, once a program listens.
type Silence struct {
	scope, version string // of the package, for OpenTelemetry

	// The provider types that did nothing when Listen looked. A type is nil if that provider was set up even then. A
	// provider that is still of a listed type need not be looked at closely.
	tracer, meter reflect.Type
}

// Listen looks at the global providers, for the package with this import path.
func Listen(scope string) (s Silence) {
	info, _ := debug.ReadBuildInfo()
	s.scope, s.version = scope, version(info)
	if t := reflect.TypeOf(otel.GetTracerProvider()); !wasSet(t) {
		s.tracer = t
	}
	if t := reflect.TypeOf(otel.GetMeterProvider()); !wasSet(t) {
		s.meter = t
	}
	return s
}

// version returns the version of this module in a program. A test, or a program of this repository, does not say it.
func version(info *debug.BuildInfo) string {
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == module && m.Version != "" {
				return m.Version
			}
		}
	}
	return "(devel)"
}

const module = "github.com/holdfast-go/holdfast"

// Latest reports whether the environment asks for the newest conventions for generative AI. Without it, what older
// conventions have named keeps its name.
func Latest() bool {
	all := strings.Split(os.Getenv("OTEL_SEMCONV_STABILITY_OPT_IN"), ",")
	return slices.ContainsFunc(all, func(s string) bool { return strings.TrimSpace(s) == "gen_ai_latest_experimental" })
}

// Tracer returns the tracer of the package; nil if no provider of tracers was set up.
func (s Silence) Tracer() trace.Tracer {
	p := otel.GetTracerProvider()
	if t := reflect.TypeOf(p); t == s.tracer || !wasSet(t) {
		return nil
	}
	return p.Tracer(s.scope, trace.WithInstrumentationVersion(s.version))
}

// Traced reports whether a provider of tracers was set up.
func (s Silence) Traced() bool {
	t := reflect.TypeOf(otel.GetTracerProvider())
	return t != s.tracer && wasSet(t)
}

// Meter returns the meter of the package.
func (s Silence) Meter() metric.Meter {
	return otel.Meter(s.scope, metric.WithInstrumentationVersion(s.version))
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
