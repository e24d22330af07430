package approval

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/holdfast-go/holdfast/approval"

// seenAnswers is what the last look of Run has seen.
type seenAnswers struct {
	known  bool // the inbox could be read
	count  int
	oldest time.Time // since when the first of them was seen; zero if there is none
}

func (l *lookout[S]) saw(s seenAnswers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = s
}

// oldest returns since when the first answer that the inbox still has was seen.
func (l *lookout[S]) oldest() (first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.known {
		if w.seen && (first.IsZero() || w.since.Before(first)) {
			first = w.since
		}
	}
	return first
}

// observe registers gauges of the answers that wait. They cost no read of the inbox: Run lists them anyway.
func (l *lookout[S]) observe(ctx context.Context) (stop func()) {
	meter := otel.Meter(scope)
	waiting, err := meter.Int64ObservableGauge("holdfast.answers", metric.WithUnit("{answer}"),
		metric.WithDescription("Answers in the inbox that no turn has taken yet."))
	age, err2 := meter.Float64ObservableGauge("holdfast.answers.age", metric.WithUnit("s"),
		metric.WithDescription("For how long this process has seen the oldest answer; 0 if there is none."))
	bot := metric.WithAttributes(attribute.String("holdfast.orchestrator", l.desk.Bot.Name()))
	registered, err3 := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		l.mu.Lock()
		seen := l.seen
		l.mu.Unlock()
		if !seen.known {
			return nil
		}
		to.ObserveInt64(waiting, int64(seen.count), bot)
		var since time.Duration
		if !seen.oldest.IsZero() {
			since = time.Since(seen.oldest)
		}
		to.ObserveFloat64(age, since.Seconds(), bot)
		return nil
	}, waiting, age)
	if err := errors.Join(err, err2, err3); err != nil {
		logtext.Logger(ctx).WarnContext(ctx, "metrics incomplete", "err", logtext.Of(err))
	}
	return func() {
		if registered != nil {
			_ = registered.Unregister() // there is nothing to be done about it
		}
	}
}
