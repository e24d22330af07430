package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// Without a listener, telemetry allocates nothing: providers that discard everything cost as little as no provider.
func TestTelemetryAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	idle := Def{Name: "idle", Intents: Intents{"nothing": {Run: func(context.Context, *Turn) error { return nil }}}}
	idle.TraceOf = func(*State) (string, string) { return "another", "session" }
	turns := func(o Options) func() {
		bot := newWorld().Start(t, idle, o)
		turn := func() {
			if _, err := bot.Execute(context.Background(), "s", Input{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		// From then on, each turn that settles prunes another one.
		for range 200 {
			turn()
		}
		return turn
	}
	turn := turns(Options{SessionTrace: true})
	without := testing.AllocsPerRun(200, turns(Options{}))
	tracers, meters := otel.GetTracerProvider(), otel.GetMeterProvider()
	defer func() {
		otel.SetTracerProvider(tracers)
		otel.SetMeterProvider(meters)
	}()
	otel.SetTracerProvider(noop.NewTracerProvider())
	otel.SetMeterProvider(metricnoop.NewMeterProvider())
	if with := testing.AllocsPerRun(200, turn); with > without {
		t.Errorf("%v allocations with providers that discard, %v without any", with, without)
	}
}

// A turn that failed is one line, with its op, the type of its error and its run, and without a word of the user. In
// development, and if the program says so, the text is there too.
func TestFailedTurnIsLogged(t *testing.T) {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		return fmt.Errorf("%s: %w", t.Input.Text, &net.OpError{Op: "dial", Err: errors.New("no " + t.Input.Text)})
	}}
	ofType := func(err error) string {
		_, ok := errors.AsType[*net.OpError](err)
		return fmt.Sprint("mine ", ok)
	}
	for _, c := range []struct {
		level slog.Level
		logs  func(error) string
		more  string
	}{
		{slog.LevelInfo, nil, ""},
		{slog.LevelDebug, nil, ` err="secret: dial: no secret"`},
		{slog.LevelInfo, error.Error, ` err="secret: dial: no secret"`},
		{slog.LevelInfo, ofType, ` err="mine true"`},
	} {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: c.level}))
		bot := newWorld().Start(t, d, Options{Logger: logger, LogError: c.logs})
		_, err := bot.Execute(t.Context(), "s", Input{Text: "secret"}, nil)
		e, _ := errors.AsType[*orchestrator.Error](err)
		want := "level=WARN msg=\"turn failed\" orchestrator=echo session=s turn=0 run=" + e.RunID +
			" op=intent intent=echo type=*net.OpError" + c.more + "\n"
		if !strings.HasSuffix(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("got %s, want %s", log.String(), want)
		}
	}
}

// A run that goes on in another process after a crash is one line.
func TestTakeoverIsLogged(t *testing.T) {
	var log bytes.Buffer
	w := newWorld()
	w.Crash(t, steps, Input{Text: "a"})
	bot := w.Start(t, steps(nil), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"run taken over from an owner that is gone", "session=s", "run=", "attempt=1", "idle_ms=",
	} {
		if n := strings.Count(log.String(), part); n != 1 {
			t.Errorf("%q is there %d times: %s", part, n, log.String())
		}
	}
}
