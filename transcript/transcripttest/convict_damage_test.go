package transcripttest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

// A spoiled Memory remembers which entries are damaged, and reports them as a backend does. It may have a flaw, too.
type spoiled struct {
	transcript.Memory
	flaw string
	mu   sync.Mutex // protects following field
	bad  map[transcript.Key][]transcript.Span
}

func newSpoiled(flaw string) *spoiled {
	return &spoiled{flaw: flaw, bad: make(map[transcript.Key][]transcript.Span)}
}

func (s *spoiled) Damage(_ context.Context, k transcript.Key, span transcript.Span) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad[k] = append(s.bad[k], span)
	return nil
}

// first returns the first damaged entry that meets a span.
func (s *spoiled) first(k transcript.Key, span transcript.Span) (bad transcript.Span, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bad[k] {
		if b.From <= span.Through && span.From <= b.Through && (!found || b.From < bad.From) {
			bad, found = b, true
		}
	}
	return bad, found
}

var errSpoiled = errors.New("spoiled")

func (s *spoiled) Read(
	ctx context.Context, k transcript.Key, spans []transcript.Span,
) iter.Seq2[message.Message, error] {
	if s.flaw == "damage is hidden" {
		return s.Memory.Read(ctx, k, spans)
	}
	return func(yield func(message.Message, error) bool) {
		for _, left := range spans {
			for left.From <= left.Through {
				bad, found := s.first(k, left)
				good := left
				if found {
					good.Through = bad.From - 1
				}
				if good.From <= good.Through {
					for m, err := range s.Memory.Read(ctx, k, []transcript.Span{good}) {
						if !yield(m, err) {
							return
						}
					}
				}
				if !found {
					break
				}
				if !yield(message.Message{}, s.damaged(k, bad)) || s.flaw == "Read ends at damage" {
					return
				}
				left.From = bad.Through + 1
			}
		}
	}
}

func (s *spoiled) damaged(k transcript.Key, bad transcript.Span) error {
	switch s.flaw {
	case "damage is any error":
		return errSpoiled
	case "damage has no numbers":
		bad = transcript.Span{}
	case "damage of many has the first number": // of a page
		if bad.From > 64 {
			bad = transcript.Span{From: 65, Through: 65}
		}
	}
	return transcript.Damaged(k, bad, errSpoiled)
}

func (s *spoiled) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (transcript.Span, error) {
	_, damaged := s.first(k, transcript.Span{From: 1, Through: transcript.MaxNumber})
	if damaged && s.flaw == "a session with damage takes nothing" {
		return transcript.Span{}, transcript.Damaged(k, transcript.Span{}, errSpoiled)
	}
	span, err := s.Memory.Append(ctx, k, id, msgs)
	before := transcript.Span{From: span.From - 1, Through: span.From - 1}
	_, behind := s.first(k, before)
	switch _, again := s.first(k, span); {
	case again && s.flaw == "a repeat of what is damaged is any error":
		return transcript.Span{}, errSpoiled
	case again && s.flaw == "a repeat replaces what is damaged":
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.bad, k)
	case behind && s.flaw == "a damaged entry has no numbers":
		return before, err
	}
	return span, err
}

func (s *spoiled) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	for _, span := range spans {
		bad, damaged := s.first(to, span)
		switch {
		case damaged && s.flaw == "a copy mends":
			s.mu.Lock()
			delete(s.bad, to)
			s.mu.Unlock()
			return nil
		case damaged:
			return transcript.Damaged(to, bad, errSpoiled)
		}
	}
	if err := s.Memory.Copy(ctx, from, to, spans); err != nil {
		return err
	}
	for _, span := range spans {
		switch bad, damaged := s.first(from, span); {
		case damaged && s.flaw == "a copy stops at damage":
			return transcript.Damaged(from, bad, errSpoiled)
		case damaged:
			return s.Damage(ctx, to, bad)
		}
	}
	return nil
}

func (s *spoiled) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (int, error) {
	bad, damaged := s.first(k, transcript.Span{From: 1, Through: transcript.MaxNumber})
	if damaged && s.flaw == "damage stays" {
		spans = append(slices.Clone(spans), bad)
	}
	deleted, err := s.Memory.Trim(ctx, k, spans, before)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad[k] = slices.DeleteFunc(s.bad[k], func(b transcript.Span) bool {
		for _, err := range s.Memory.Read(ctx, k, []transcript.Span{b}) {
			if err != nil {
				return true
			}
		}
		return false
	})
	return deleted, err
}

func TestDamaged(t *testing.T) {
	transcripttest.RunDamaged(t, func(*testing.T) transcripttest.DamagingStore { return newSpoiled("") })
}

func TestSuiteConvictsDamage(t *testing.T) {
	trial := suite.Trial[transcripttest.DamagingStore]{Violations: transcripttest.DamageViolations}
	for flaw, clause := range map[string]string{
		"damage is hidden":                         "read",
		"damage is any error":                      "read",
		"damage has no numbers":                    "read",
		"Read ends at damage":                      "read",
		"damage of many has the first number":      "read-many",
		"a session with damage takes nothing":      "apart",
		"a repeat of what is damaged is any error": "again",
		"a repeat replaces what is damaged":        "again",
		"a damaged entry has no numbers":           "newest",
		"a copy stops at damage":                   "copied",
		"a copy mends":                             "copied-onto",
		"damage stays":                             "trimmed",
	} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, clause, func() transcripttest.DamagingStore { return newSpoiled(flaw) })
		})
	}
}

// A store that reaches a server is convicted by the clause about a server that cannot be reached.
func TestSuiteConvictsReached(t *testing.T) {
	if err := transcripttest.Unreachable(t.Context(), new(transcript.Memory)); err == nil {
		t.Error("a store that takes an entry is accepted")
	}
}
