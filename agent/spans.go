package agent

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/holdfast-go/holdfast/agent"

// The attributes of the spans of tools, besides those of package telemetry. None holds what was said.
const (
	attrTool     = attribute.Key("gen_ai.tool.name")
	attrToolType = attribute.Key("gen_ai.tool.type")
	attrToolCall = attribute.Key("gen_ai.tool.call.id")
)

// callTool is the operation of a call of a tool. That of a model is telemetry.Chat.
const callTool = "execute_tool"

// spans makes a span of each call of a model or a tool. They are within the span of the turn, which the engine makes.
type spans struct{ telemetry.Silence }

// chat begins the span of a call of a model. end ends it.
func (s spans) chat(ctx context.Context) (inner context.Context, end func(orchestrator.Usage, error)) {
	t := s.Tracer()
	if t == nil {
		return ctx, func(orchestrator.Usage, error) {}
	}
	ctx, span := t.Start(ctx, telemetry.Chat, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(telemetry.Operation.String(telemetry.Chat)))
	return ctx, func(u orchestrator.Usage, err error) {
		if u.Model != "" {
			span.SetName(telemetry.Chat + " " + u.Model)
			span.SetAttributes(telemetry.Model.String(u.Model))
		}
		if u.Provider != "" {
			span.SetAttributes(telemetry.Provider.String(u.Provider))
		}
		if u.Input > 0 || u.Output > 0 {
			span.SetAttributes(telemetry.InputTokens.Int(u.Input), telemetry.OutputTokens.Int(u.Output))
		}
		endSpan(span, err)
	}
}

// tool lets the tool make a span of each call.
func (s spans) tool(t *Tool) {
	run, name := t.Run, t.Name
	if run == nil {
		return
	}
	t.Run = func(ctx context.Context, c Call) (text string, err error) {
		tracer := s.Tracer()
		if tracer == nil {
			return run(ctx, c)
		}
		ctx, span := tracer.Start(ctx, callTool+" "+name, trace.WithAttributes(telemetry.Operation.String(callTool),
			attrTool.String(name), attrToolType.String("function"), attrToolCall.String(c.ID)))
		failure := error(&orchestrator.PanicError{}) // unless run returns
		defer func() { endSpan(span, failure) }()
		text, err = run(ctx, c)
		failure = logtext.Shield(err)
		if question, _ := asked(failure); question != nil { // it waits
			failure = nil
		}
		return text, err
	}
}

// endSpan ends a span and says whether its work failed: with the status that an API has answered, or with the type of
// the error. The text of an error may hold what was said.
func endSpan(span trace.Span, err error) {
	if err != nil {
		kind := logtext.Type(err)
		if status := statusOf(err); status != 0 {
			kind = strconv.Itoa(status)
		}
		span.SetStatus(codes.Error, "")
		span.SetAttributes(telemetry.ErrorType.String(kind))
	}
	span.End()
}
