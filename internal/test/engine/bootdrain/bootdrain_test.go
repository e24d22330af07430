package bootdrain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/orchestrator"
)

var _ bootdrain.Bot = (*orchestrator.Orchestrator[int])(nil)

// A script is a bot whose sessions end as outcomes says.
type script struct {
	outcomes map[string]string // "error …" fails
	due      map[string]bool   // of a session that waits; others are running
	listing  error

	mu      sync.Mutex // protects following fields
	now     int
	most    int
	calls   []string
	passes  map[bool]int
	recover func(ctx context.Context, session string)
}

func (s *script) Name() string { return "script" }

func (s *script) Recoverable(_ context.Context, all bool) iter.Seq2[string, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passes == nil {
		s.passes = make(map[bool]int)
	}
	s.passes[all]++
	listing, outcomes := s.listing, maps.Clone(s.outcomes)
	return func(yield func(string, error) bool) {
		for session := range maps.Keys(outcomes) {
			if (all || s.due[session]) && !yield(session, nil) {
				return
			}
		}
		if listing != nil {
			yield("", listing)
		}
	}
}

func (s *script) Recover(ctx context.Context, session string) (string, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.calls = append(s.calls, session)
	s.mu.Unlock()
	if s.recover != nil {
		s.recover(ctx, session)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if text, failed := strings.CutPrefix(s.outcomes[session], "error "); failed {
		return "", errors.New(text)
	}
	if s.outcomes[session] == "drift" {
		return "drift", errors.New("it would lose N")
	}
	return s.outcomes[session], nil
}

func logTo(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestReport(t *testing.T) {
	bot := &script{outcomes: map[string]string{
		"a": "settled", "b": "settled", "c": "delivered", "d": "cleaned", "e": "held", "f": "suspended", "g": "parked",
		"h": "foreign", "i": "error boom", "j": "what?", "k": "drift",
	}}
	var logs bytes.Buffer
	var told []bootdrain.Run
	report, err := bootdrain.DrainInterrupted(t.Context(), bot, &bootdrain.Options{
		Logger: logTo(&logs), OnRun: func(r bootdrain.Run) { told = append(told, r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := fmt.Sprint(report.Settled, report.Delivered, report.Cleaned, report.Held, report.Suspended, report.Parked,
		report.Foreign, report.Drift, report.Failed)
	if counts != "2 1 1 1 1 1 1 1 2" || report.Scanned != 11 || len(report.Runs) != 11 || len(told) != 11 {
		t.Errorf("%s of %d, %d told", counts, report.Scanned, len(told))
	}
	if n := strings.Count(logs.String(), "level=INFO"); n != 4 {
		t.Errorf("%d lines at level Info:\n%s", n, &logs)
	}
	if n := strings.Count(logs.String(), "level=WARN"); n != 1 {
		t.Errorf("%d lines at level Warn:\n%s", n, &logs)
	}
	if n := strings.Count(logs.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d lines at level Error:\n%s", n, &logs)
	}
}

// If one run fails, it does not stop another, and takes no more than its place.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := &script{
			outcomes: make(map[string]string),
			recover:  func(context.Context, string) { time.Sleep(time.Second) },
		}
		for i := range 20 {
			bot.outcomes[fmt.Sprint(i)] = []string{"settled", "error boom"}[i%2]
		}
		report, err := bootdrain.DrainInterrupted(t.Context(), bot,
			&bootdrain.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil || report.Settled != 10 || report.Failed != 10 || bot.most != 4 ||
			report.Elapsed != 5*time.Second {
			t.Errorf("%+v, %v; %d at once", report, err, bot.most)
		}
	})
}

func TestListingFails(t *testing.T) {
	down := errors.New("down")
	bot := &script{outcomes: map[string]string{"a": "settled"}, listing: down}
	report, err := bootdrain.DrainInterrupted(t.Context(), bot, nil)
	if !errors.Is(err, down) || report.Settled != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestContextEnds(t *testing.T) {
	bot := &script{outcomes: map[string]string{"a": "settled", "b": "settled", "c": "settled"}}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	bot.recover = func(context.Context, string) { cancel(enough) }
	report, err := bootdrain.DrainInterrupted(ctx, bot, &bootdrain.Options{Concurrency: 1})
	if !errors.Is(err, enough) || report.Scanned == 0 || report.Scanned == 3 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A drain can take named sessions instead, each with context values of its own.
func TestSessions(t *testing.T) {
	type key struct{}
	bot := &script{outcomes: map[string]string{"a": "settled", "b": "settled"}}
	bot.recover = func(ctx context.Context, session string) {
		if ctx.Value(key{}) != session {
			t.Errorf("%s has the values of %v", session, ctx.Value(key{}))
		}
	}
	o := &bootdrain.Options{
		Sessions: func(yield func(string, error) bool) {
			for range 2 {
				if !yield("b", nil) {
					return
				}
			}
		},
		Context: func(ctx context.Context, session string) context.Context {
			return context.WithValue(ctx, key{}, session)
		},
	}
	report, err := bootdrain.DrainInterrupted(t.Context(), bot, o)
	if err != nil || report.Scanned != 1 || !slices.Equal(bot.calls, []string{"b"}) {
		t.Errorf("%+v, %v: %q", report, err, bot.calls)
	}
}

// The watch finds a run that waits and is due within a second, and looks at all runs every five seconds or so. Idle
// sessions cost nothing.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := &script{
			outcomes: map[string]string{"left": "settled", "running": "held"},
			due:      map[string]bool{"left": true},
		}
		var sweeps atomic.Int32
		o := &bootdrain.Options{
			Logger: slog.New(slog.DiscardHandler),
			Sweep: func(_ context.Context, limit int) (int, error) {
				if sweeps.Add(1) == 1 {
					return limit, nil
				}
				return 0, nil
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := bootdrain.Watch(ctx, bot, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := bot.passes[true]; n < 90 || n > 150 {
			t.Errorf("%d passes over all in ten minutes", n)
		}
		if n := bot.passes[false]; n < 450 || n > 600 {
			t.Errorf("%d passes over what is due in ten minutes", n)
		}
		if n := sweeps.Load(); n < 8 || n > 16 {
			t.Errorf("%d sweeps in ten minutes", n)
		}
	})
}

// If a store is down, the watch asks it less and less often. When the store is back, the watch goes on.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bot := &script{outcomes: map[string]string{}, listing: errors.New("down")}
		var logs bytes.Buffer
		failed := 0
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		back := time.AfterFunc(time.Minute, func() {
			bot.mu.Lock()
			defer bot.mu.Unlock()
			bot.listing = nil
			failed = bot.passes[true] + bot.passes[false]
		})
		defer back.Stop()
		_ = bootdrain.Watch(ctx, bot, &bootdrain.Options{Logger: logTo(&logs)})
		if failed < 10 || failed > 40 {
			t.Errorf("%d passes failed in a minute", failed)
		}
		for _, line := range []string{"pass not made", "passes are made again"} {
			if n := strings.Count(logs.String(), line); n != 1 {
				t.Errorf("%d lines say %q", n, line)
			}
		}
		if n := bot.passes[false]; n < 50 {
			t.Errorf("%d passes", n)
		}
	})
}
