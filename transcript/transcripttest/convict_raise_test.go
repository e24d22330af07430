package transcripttest_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

// A raised store is a Memory with a flaw in its Raise. The sessions that the flaw forgets are in another Memory, which
// is not raised.
type raised struct {
	transcript.Memory
	flaw      string
	other     transcript.Memory
	mu        sync.Mutex // protects following fields
	raised    bool
	known     []transcript.Key // they had an entry before Raise
	forgotten []transcript.Key
}

// of returns where a session is.
func (r *raised) of(k transcript.Key) *transcript.Memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.forgotten, k) {
		return &r.other
	}
	return &r.Memory
}

func (r *raised) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (transcript.Span, error) {
	r.mu.Lock()
	switch {
	case !r.raised:
		r.known = append(r.known, k)
	case r.flaw == "unknown sessions are not raised" && !slices.Contains(r.known, k):
		r.forgotten = append(r.forgotten, k)
	}
	r.mu.Unlock()
	return r.of(k).Append(ctx, k, id, msgs)
}

func (r *raised) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	if r.flaw != "a copy is not raised" || !r.raised {
		return r.Memory.Copy(ctx, from, to, spans)
	}
	var msgs []message.Message
	for m, err := range r.Read(ctx, from, spans) {
		if err != nil {
			return err
		}
		msgs = append(msgs, m)
	}
	r.forgotten = append(r.forgotten, to)
	_, err := r.other.Append(ctx, to, "copy", msgs)
	return err
}

func (r *raised) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (int, error) {
	return r.of(k).Trim(ctx, k, spans, before)
}

func (r *raised) Raise(ctx context.Context) error {
	switch {
	case r.flaw == "nothing is raised", r.flaw == "once is enough" && r.raised:
		return ctx.Err()
	case r.flaw == "ctx is not looked at":
		ctx = context.WithoutCancel(ctx)
	case r.flaw == "entries are deleted":
		if _, err := r.Trim(ctx, key("s"), nil, time.Time{}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.raised = true
	r.mu.Unlock()
	return r.Memory.Raise(ctx)
}

func key(session string) transcript.Key { return transcript.Key{Orchestrator: "bot", Session: session} }

func TestRaiser(t *testing.T) {
	transcripttest.RunRaiser(t, func(*testing.T) transcripttest.RaisingStore { return new(raised) })
}

func TestSuiteConvictsRaise(t *testing.T) {
	trial := suite.Trial[transcripttest.RaisingStore]{Violations: transcripttest.RaiseViolations, Tries: 200}
	for clause, flaw := range map[string]string{
		"raise":           "nothing is raised",
		"raise-unknown":   "unknown sessions are not raised",
		"raise-keeps":     "entries are deleted",
		"raise-copy":      "a copy is not raised",
		"raise-again":     "once is enough",
		"raise-race":      "entries are deleted",
		"raise-cancelled": "ctx is not looked at",
	} {
		t.Run(clause, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, clause, func() transcripttest.RaisingStore { return &raised{flaw: flaw} })
		})
	}
}
