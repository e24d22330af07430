package workflowtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

func TestSuiteConvictsValues(t *testing.T) {
	convict(t, map[string]mutant{
		"a key is cut":           {"values", eachRun(func(r *run) { r.Key = r.Key[:min(len(r.Key), 255)] })},
		"an error is cut":        {"values", eachRow(func(s *row) { s.Error = s.Error[:min(len(s.Error), 1000)] })},
		"numbers are floats":     {"values-json", eachRun(func(r *run) { r.Input = float(r.Input) })},
		"nil stays nil":          {"values-json", eachRun(func(r *run) { r.Input = unlessNull(r.Input) })},
		"memory is shared":       {"values-aliased", sharesInput},
		"ids have no case":       {"values-apart", eachNew(func(n *newRun) { n.ID = strings.ToLower(n.ID) })},
		"steps have no case":     {"values-apart", eachRow(func(s *row) { s.Name = strings.ToLower(s.Name) })},
		"ids have no space":      {"values-apart", eachMessage(func(m *message) { m.Run = strings.TrimSpace(m.Run) })},
		"ctx is not looked at":   {"cancelled", deaf},
		"a bad run is taken":     {"start-refused", func(b *broken) { b.start = trusting(b.start) }},
		"a bad run adds another": {"start-refused", oneByOne},
		"a bad message is taken": {"send-refused", func(b *broken) { b.send = trusting(b.send) }},
		"messages one by one":    {"send-refused", sendsOneByOne},
		"a bad entry is taken":   {"write-refused", func(b *broken) { b.write = trusting(b.write) }},
		"entries one by one":     {"write-refused", writesOneByOne},
		"a bad request is taken": {"claim-refused", trustsRequests},
		"a bad query is taken":   {"runs-refused", trustsQueries},
		"no match fits nothing":  {"match", eachEntry(func(e *entry) { e.Match = orNull(e.Match) })},
		"null fits all":          {"match", eachEntry(func(e *entry) { e.Match = unlessNull(e.Match) })},
		"a match is equality":    {"match", matchIsEqual},
		"a scalar is in arrays":  {"match", scalarsAnywhere},
		"a query of null is all": {"match-query", eachQuery(func(q *workflow.Query) { q.Input = unlessNull(q.Input) })},
		"inputs are texts":       {"input-equal", inputsAreTexts},
	})
}

func float(doc json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(doc, &v) != nil {
		return doc
	}
	out, _ := json.Marshal(v)
	return out
}

func sharesInput(b *broken) {
	var shared json.RawMessage
	eachRun(func(r *run) {
		if shared == nil {
			shared = r.Input
		}
		r.Input = shared
	})(b)
}

// deaf does not hear the end of ctx.
func deaf(b *broken) {
	b.start, b.send = deafTo(b.start), deafTo(b.send)
	write := b.write
	b.write = func(ctx context.Context, entries []entry) ([]error, error) {
		return write(context.WithoutCancel(ctx), entries)
	}
}

func deafTo[T, R any](call func(context.Context, []T) ([]R, error)) func(context.Context, []T) ([]R, error) {
	return func(ctx context.Context, all []T) ([]R, error) { return call(context.WithoutCancel(ctx), all) }
}

// trusting takes what is invalid, and loses it.
func trusting[T, R any](call func(context.Context, []T) ([]R, error)) func(context.Context, []T) ([]R, error) {
	return func(ctx context.Context, all []T) ([]R, error) {
		results, err := call(ctx, all)
		if errors.Is(err, workflow.ErrInvalid) {
			return make([]R, len(all)), nil
		}
		return results, err
	}
}

func sendsOneByOne(b *broken) {
	send := b.send
	b.send = func(ctx context.Context, messages []message) (all []receipt, err error) {
		for i := range messages {
			one, err := send(ctx, messages[i:i+1])
			if err != nil {
				return all, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
}

func writesOneByOne(b *broken) {
	write := b.write
	b.write = func(ctx context.Context, entries []entry) (all []error, err error) {
		for i := range entries {
			one, err := write(ctx, entries[i:i+1])
			if err != nil {
				return all, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
}

func trustsRequests(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		if errors.Is(err, workflow.ErrInvalid) {
			err = nil
		}
		return all, next, err
	}
}

func trustsQueries(b *broken) {
	runs := b.runs
	b.runs = func(ctx context.Context, q workflow.Query) iter.Seq2[run, error] {
		return func(yield func(run, error) bool) {
			for r, err := range runs(ctx, q) {
				if errors.Is(err, workflow.ErrInvalid) || !yield(r, err) {
					return
				}
			}
		}
	}
}

// byHand lets signals be consumed as fits says.
func byHand(fits func(doc, part json.RawMessage) bool) fault {
	return func(b *broken) {
		parts := make(map[string]json.RawMessage)
		b.write = before(b.write, func(e *entry) { parts[e.Run], e.Match = e.Match, nil })
		b.send = before(b.send, func(m *message) {
			if part := parts[m.Run]; part != nil && !fits(orNull(m.Payload), part) {
				m.Event += " does not fit"
			}
		})
	}
}

func matchIsEqual(b *broken) {
	byHand(func(doc, part json.RawMessage) bool { return bytes.Equal(float(doc), float(part)) })(b)
}

func scalarsAnywhere(b *broken) {
	byHand(func(doc, part json.RawMessage) bool {
		return workflow.Contains(doc, part) || part[0] != '{' && bytes.Contains(doc, bytes.Trim(part, "[]"))
	})(b)
}

func inputsAreTexts(b *broken) {
	inputs := make(map[string]string)
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		for _, n := range runs {
			if in, known := inputs[n.ID]; known && in != string(n.Input) {
				return nil, workflow.ErrKeyReused
			}
			inputs[n.ID] = string(n.Input)
		}
		return start(ctx, runs)
	}
}
