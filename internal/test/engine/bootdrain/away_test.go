package bootdrain_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A node of a Redis Cluster is away: killed, or stopped so that it does not answer. The turns on the other nodes keep
// their leases and settle, and a drain finishes the runs there in bounded time. It names the node. When the node is
// back, a drain finishes the rest.
func TestNodeAway(t *testing.T) {
	for name, dead := range map[string]bool{"dead": redistest.Dead, "stopped": redistest.Stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.DividedCluster(t, dead, nil)
			w := opened{
				checkpoints: redischeckpoint.New(cluster.Client, nil),
				snapshots:   redissnapshot.New(cluster.Client, nil),
				effects:     filepath.Join(t.TempDir(), "effects"),
				limits:      orchestrator.Limits{LeaseTTL: 12 * time.Second, SettleTimeout: 3 * time.Second},
			}
			nodeAway(t, w, cluster)
		})
	}
}

func nodeAway(t *testing.T, w opened, cluster *redistest.Divided) {
	t.Helper()
	sessions := make([]string, 24)
	for i := range sessions {
		sessions[i] = fmt.Sprint("s", i)
	}
	first := w.atWork(t, "first", sessions)
	away, back, err := cluster.TakeAway(t.Context(), "support", sessions)
	if err != nil {
		t.Fatal(err)
	}
	near := slices.DeleteFunc(slices.Clone(sessions), func(id string) bool { return slices.Contains(away, id) })

	for range away {
		if got := <-first.lost; !slices.Contains(away, got.session) || !errors.Is(got.cause, lock.ErrExpired) {
			t.Errorf("%s is lost: %v; away are %q", got.session, got.cause, away)
		}
	}
	close(first.finish)
	for range sessions {
		if got := <-first.done; (got.cause == nil) != slices.Contains(near, got.session) {
			t.Errorf("%s ends with %v; away are %q", got.session, got.cause, away)
		}
	}

	second := w.atWork(t, "second", near)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.bot.Shutdown(now); err != nil {
		t.Error(err)
	}
	b := w.start(t, nil)
	report, err := bootdrain.DrainInterrupted(patience(t), b, &bootdrain.Options{Logger: quiet, Concurrency: len(near)})
	if err == nil || !strings.Contains(err.Error(), "node 127.0.0.1:") || report.Settled != len(near) {
		t.Errorf("%+v, %v; want %d settled, and the node named", report, err, len(near))
	}
	back()
	settled := 0
	for ctx := patience(t); settled < len(away); {
		report, err := bootdrain.DrainInterrupted(ctx, b, &bootdrain.Options{Logger: quiet})
		if settled += report.Settled; err != nil && ctx.Err() != nil {
			t.Fatalf("%d of %d settled: %v", settled, len(away), err)
		}
	}
	for _, id := range near {
		wantTurns(t, b, id, "first", "second")
	}
	for _, id := range away {
		wantTurns(t, b, id, "first")
	}
	wantRuns(t, b, 0)
}

// Turns are turns at work in one process. Their functions return when finish is closed, or when their contexts end.
type turns struct {
	bot        *bot
	finish     chan struct{}
	lost, done chan ended
}

// An ended is the end of a turn, or of its context.
type ended struct {
	session string
	cause   error
}

// atWork begins a turn in each session, and returns when the functions of all are at work.
func (w opened) atWork(t *testing.T, text string, sessions []string) *turns {
	t.Helper()
	p := &turns{
		finish: make(chan struct{}), lost: make(chan ended, len(sessions)), done: make(chan ended, len(sessions)),
	}
	var working sync.WaitGroup
	working.Add(len(sessions))
	p.bot = w.start(t, func(ctx context.Context, t *turn) error {
		working.Done()
		select {
		case <-p.finish:
			return nil
		case <-ctx.Done():
			p.lost <- ended{t.Session, context.Cause(ctx)}
			return context.Cause(ctx)
		}
	})
	for _, id := range sessions {
		go func() {
			_, err := p.bot.Execute(t.Context(), id, orchestrator.Input{Text: text}, nil)
			p.done <- ended{id, err}
		}()
	}
	working.Wait()
	t.Cleanup(func() { _ = p.bot.Shutdown(context.WithoutCancel(t.Context())) })
	return p
}
