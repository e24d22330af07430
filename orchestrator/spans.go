package orchestrator

import (
	"context"
	"iter"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// traceCall opens the span of a call to a store, of a wait or of a delivery. The span is nil if no provider of tracers
// was set up.
func (s *silence) traceCall(ctx context.Context, name, session, run string) (context.Context, trace.Span) {
	t := s.Tracer()
	if t == nil {
		return ctx, nil
	}
	attrs := make([]attribute.KeyValue, 0, 2)
	if session != "" {
		attrs = append(attrs, attrSession.String(session))
	}
	if run != "" {
		attrs = append(attrs, attrRun.String(run))
	}
	return t.Start(ctx, name, trace.WithAttributes(attrs...))
}

// background reports whether a call belongs to no request. The looks of a drain and the renewals of a process would be
// traces of their own, some each second.
func background(ctx context.Context) bool { return !trace.SpanContextFromContext(ctx).IsValid() }

// traceLook is traceCall for calls that are also made in the background. There they have no span.
func (s *silence) traceLook(ctx context.Context, name string) (context.Context, trace.Span) {
	if background(ctx) {
		return ctx, nil
	}
	return s.traceCall(ctx, name, "", "")
}

// endCall ends the span of a call to a store. A verdict of the store is no failure.
func endCall(span trace.Span, err error) {
	switch {
	case span == nil:
	case err != nil && owner.Answered(err):
		span.SetAttributes(telemetry.ErrorType.String(errorType(err)))
		span.End()
	default:
		endSpan(span, err)
	}
}

// traceListing makes one span of a listing, from its first row to its last. A row that is damaged does not end it.
func traceListing[T any](
	ctx context.Context, s *silence, name, session string, list func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, span := s.traceCall(ctx, name, session, "")
		var last error
		defer func() { endCall(span, last) }()
		for v, err := range list(ctx) {
			if last = err; !yield(v, err) {
				return
			}
		}
	}
}

// spannedCheckpoints makes a span of each call to a checkpoint store.
type spannedCheckpoints struct {
	store  checkpoint.Store
	silent *silence
}

// Turns implements [checkpoint.Store].
func (s *spannedCheckpoints) Turns(
	ctx context.Context, k checkpoint.Key, from int,
) iter.Seq2[checkpoint.Checkpoint, error] {
	if !s.silent.Traced() {
		return s.store.Turns(ctx, k, from)
	}
	return traceListing(ctx, s.silent, "checkpoint.Turns", k.Session,
		func(ctx context.Context) iter.Seq2[checkpoint.Checkpoint, error] { return s.store.Turns(ctx, k, from) })
}

// Sessions implements [checkpoint.Store].
func (s *spannedCheckpoints) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if !s.silent.Traced() || background(ctx) {
		return s.store.Sessions(ctx, q)
	}
	return traceListing(ctx, s.silent, "checkpoint.Sessions", "",
		func(ctx context.Context) iter.Seq2[string, error] { return s.store.Sessions(ctx, q) })
}

// Claim implements [checkpoint.Store].
func (s *spannedCheckpoints) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	ctx, span := s.silent.traceCall(ctx, "checkpoint.Claim", k.Session, "")
	c, err := s.store.Claim(ctx, k, r)
	endCall(span, err)
	return c, err
}

// Renew implements [checkpoint.Store].
func (s *spannedCheckpoints) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	ctx, span := s.silent.traceLook(ctx, "checkpoint.Renew")
	lost, err := s.store.Renew(ctx, ttl, leases)
	endCall(span, err)
	return lost, err
}

// Held implements [checkpoint.Store].
func (s *spannedCheckpoints) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (map[string]string, error) {
	ctx, span := s.silent.traceLook(ctx, "checkpoint.Held")
	owners, err := s.store.Held(ctx, orchestrator, sessions)
	endCall(span, err)
	return owners, err
}

// Append implements [checkpoint.Store].
func (s *spannedCheckpoints) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	ctx, span := s.silent.traceCall(ctx, "checkpoint.Append", l.Session, cp.RunID)
	err := s.store.Append(ctx, l, cp, o)
	endCall(span, err)
	return err
}

// Mark implements [checkpoint.Store].
func (s *spannedCheckpoints) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	ctx, span := s.silent.traceCall(ctx, "checkpoint.Mark", l.Session, "")
	err := s.store.Mark(ctx, l, m)
	endCall(span, err)
	return err
}

// Delete implements [checkpoint.Store].
func (s *spannedCheckpoints) Delete(ctx context.Context, l checkpoint.Lease) error {
	ctx, span := s.silent.traceCall(ctx, "checkpoint.Delete", l.Session, "")
	err := s.store.Delete(ctx, l)
	endCall(span, err)
	return err
}

// settle is a snapshot.SettleEnd of joined stores, with a span; nil for nil.
func (s *silence) settle(joined snapshot.SettleEnd) snapshot.SettleEnd {
	if joined == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, end snapshot.End,
	) (bool, error) {
		ctx, span := s.traceCall(ctx, "checkpoint.Append", l.Session, cp.RunID)
		forgotten, err := joined(ctx, l, cp, o, end)
		endCall(span, err)
		return forgotten, err
	}
}

// carry is a snapshot.SaveEffects of joined stores, with a span; nil for nil.
func (s *silence) carry(joined snapshot.SaveEffects) snapshot.SaveEffects {
	if joined == nil {
		return nil
	}
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		ctx, span := s.traceCall(ctx, "snapshot.Save", r.Session, r.ID)
		taken, err := joined(ctx, r, c)
		endCall(span, err)
		return taken, err
	}
}

// spannedSnapshots makes a span of each call to a snapshot store.
type spannedSnapshots struct {
	store  snapshot.Store
	silent *silence
}

// Begin implements [snapshot.Store].
func (s *spannedSnapshots) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	ctx, span := s.silent.traceCall(ctx, "snapshot.Begin", r.Session, r.ID)
	found, err := s.store.Begin(ctx, r)
	endCall(span, err)
	return found, err
}

// Adopt implements [snapshot.Store].
func (s *spannedSnapshots) Adopt(
	ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int,
) (snapshot.Run, error) {
	ctx, span := s.silent.traceCall(ctx, "snapshot.Adopt", k.Session, "")
	r, err := s.store.Adopt(ctx, k, f, maxAttempts)
	endCall(span, err)
	return r, err
}

// Save implements [snapshot.Store].
func (s *spannedSnapshots) Save(ctx context.Context, r snapshot.Run) error {
	ctx, span := s.silent.traceCall(ctx, "snapshot.Save", r.Session, r.ID)
	err := s.store.Save(ctx, r)
	endCall(span, err)
	return err
}

// Delete implements [snapshot.Store].
func (s *spannedSnapshots) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	ctx, span := s.silent.traceCall(ctx, "snapshot.Delete", k.Session, id)
	err := s.store.Delete(ctx, k, id, f)
	endCall(span, err)
	return err
}

// Runs implements [snapshot.Store].
func (s *spannedSnapshots) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	if !s.silent.Traced() || background(ctx) {
		return s.store.Runs(ctx, q)
	}
	return traceListing(ctx, s.silent, "snapshot.Runs", q.Session,
		func(ctx context.Context) iter.Seq2[snapshot.Run, error] { return s.store.Runs(ctx, q) })
}
