package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// BenchmarkExecute runs turns of one intent on memory, each in the snapshot store before it runs.
func BenchmarkExecute(b *testing.B) {
	d := Definition[[]string]{Name: "bot", Intents: Intents[[]string]{"echo": {
		Run: func(context.Context, *Turn[[]string]) error { return nil },
	}}}
	o := &Options{Snapshots: new(snapshot.Memory), Logger: slog.New(slog.DiscardHandler), KeepSnapshots: 2}
	bot, err := New(d, new(checkpoint.Memory), o)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		in := Input{RequestID: strconv.Itoa(n), Text: "hello"}
		if _, err := bot.Execute(b.Context(), "s"+strconv.Itoa(n%100), in, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPayload compares the writer of payloads with encoding/json: see decision 35.
func BenchmarkPayload(b *testing.B) {
	saved := runPayload{
		V: 1, Born: 7, Signature: "0123456789abcdef", Input: storedInput{Text: "hello"},
		State: json.RawMessage(`{"said":["what a user said to the bot, a sentence of the usual length"]}`),
	}
	b.Run("writer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			saved.encode()
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var doc bytes.Buffer
			e := json.NewEncoder(&doc)
			e.SetEscapeHTML(false)
			if err := e.Encode(saved); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUntraced compares what a turn costs if no provider of traces was set up, by a look at the type of the
// provider and without: see decision 35.
func BenchmarkUntraced(b *testing.B) {
	asked := telemetry.Listen(scope)
	for name, tracerOf := range map[string]func() trace.Tracer{
		"looks":         asked.Tracer,
		"does not look": func() trace.Tracer { return otel.Tracer(scope) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var t tracer
				if by := tracerOf(); by != nil {
					ctx := t.begin(b.Context(), by, &meters{}, "bot")
					_, span := t.intent(ctx, branch{intent: "echo"}, 1)
					endSpan(span, nil)
					t.end(Event{Kind: TurnSettled}, "")
				}
			}
		})
	}
}
