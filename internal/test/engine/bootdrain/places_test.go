package bootdrain_test

import (
	"context"
	"iter"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
)

// A ward is a bot whose sessions say what their runs do: "hang…" waits for the end of ctx, others do nothing.
type ward struct {
	sessions []string

	mu   sync.Mutex // protects following fields
	done map[string]time.Duration
	from time.Time
}

func (*ward) Name() string { return "ward" }

func (w *ward) Recoverable(context.Context, bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, session := range w.sessions {
			if !yield(session, nil) {
				return
			}
		}
	}
}

func (w *ward) Recover(ctx context.Context, session string) (string, error) {
	if strings.HasPrefix(session, "hang") {
		<-ctx.Done()
		return "", ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := w.done[session]; !again {
		w.done[session] = time.Since(w.from)
	}
	return "settled", nil
}

// Hooks that hang, and runs that wait for the end of their context, delay other runs for seconds, not for ever.
func TestHungRunsGiveWay(t *testing.T) {
	for name, drain := range map[string]func(context.Context, *ward, *bootdrain.Options){
		"watch": func(ctx context.Context, w *ward, o *bootdrain.Options) { _ = bootdrain.Watch(ctx, w, o) },
		"drain": func(ctx context.Context, w *ward, o *bootdrain.Options) {
			_, _ = bootdrain.DrainInterrupted(ctx, w, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &ward{done: make(map[string]time.Duration), from: time.Now()}
				for i := range 20 {
					w.sessions = append(w.sessions, "hang"+strconv.Itoa(i))
				}
				w.sessions = append(w.sessions, "well")
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				drain(ctx, w, &bootdrain.Options{Logger: slog.New(slog.DiscardHandler)})
				if took, ok := w.done["well"]; !ok || took > 40*time.Second {
					t.Errorf("the one that is well was done %t, after %v", ok, took)
				}
			})
		})
	}
}

// A handler may end its goroutine, as the FailNow of a test does. That loses the event, but no place.
func TestOnRunGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{done: make(map[string]time.Duration), from: time.Now()}
		for i := range 12 {
			w.sessions = append(w.sessions, strconv.Itoa(i))
		}
		var logs strings.Builder
		told := 0
		_, err := bootdrain.DrainInterrupted(t.Context(), w, &bootdrain.Options{
			Logger: slog.New(slog.NewTextHandler(&logs, nil)), OnRun: func(bootdrain.Run) { told++; runtime.Goexit() },
		})
		if err != nil || told != 12 || len(w.done) != 12 {
			t.Errorf("%v: told of %d, %d done", err, told, len(w.done))
		}
		if n := strings.Count(logs.String(), "OnRun has not returned"); n != 12 {
			t.Errorf("logged %d times", n)
		}
	})
}
