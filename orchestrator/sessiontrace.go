package orchestrator

import (
	"context"
	"crypto/sha256"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// SessionTrace returns the trace of a session, as the header traceparent of W3C: 00, the id of the trace, the id of its
// root, and 01. The ids are the first 16 bytes and the next 8 of the SHA-256 of both names with a NUL between them. So
// each process gets the same ids at any time, and nothing stores them. The root is never exported. A program may add
// spans of its own below it.
//
// With Options.SessionTrace each run of the session has a span in this trace. The ids are no secret, and no proof: they
// follow from the names.
func SessionTrace(orchestrator, session string) (traceparent string) {
	root := sessionRoot(orchestrator, session, trace.FlagsSampled)
	carrier := make(propagation.MapCarrier)
	propagation.TraceContext{}.Inject(trace.ContextWithRemoteSpanContext(context.Background(), root), carrier)
	return carrier["traceparent"]
}

// sessionRoot returns the root of the trace of a session.
func sessionRoot(orchestrator, session string, flags trace.TraceFlags) trace.SpanContext {
	sum := sha256.Sum256([]byte(orchestrator + "\x00" + session))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: flags, Remote: true,
	})
}

// inTrace opens the span of the run in the trace of its session, and links it with the span of the turn, both ways. It
// is sampled if the turn is.
func (t *tracer) inTrace(ctx context.Context, orchestrator, session string, attrs []attribute.KeyValue) {
	turn := t.turn.SpanContext()
	root := sessionRoot(orchestrator, session, turn.TraceFlags()&trace.FlagsSampled)
	_, t.inSession = t.t.Start(trace.ContextWithRemoteSpanContext(ctx, root), "orchestrator.run",
		trace.WithAttributes(attrs...), trace.WithLinks(trace.Link{SpanContext: turn}))
	t.turn.AddLink(trace.Link{SpanContext: t.inSession.SpanContext()})
}
