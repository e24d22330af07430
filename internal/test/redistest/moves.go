package redistest

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Soak reports whether tests should run long.
func Soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }

// Search returns how long a test that looks for a fault at random goes on: a second, or half a minute with
// HOLDFAST_SOAK=1.
func Search() time.Duration {
	if Soak() {
		return 30 * time.Second
	}
	return time.Second
}

// Goes reports whether a search that began at start goes on: for Search, and on a busy machine until it has found
// something alive, for a minute at most.
func Goes(start time.Time, found int) bool {
	since := time.Since(start)
	return since < Search() || found == 0 && since < time.Minute
}

// Moves moves slots of a cluster from node to node while workers use keys in them.
type Moves struct {
	// Tags are the hash tags of the keys whose slots move.
	Tags []string
	// Live is one step of worker w, its nth. It must not fail.
	Live func(ctx context.Context, w, n int) error

	calls  atomic.Int64
	moved  int
	beats  chan int
	cancel context.CancelFunc
}

const movers = 4 // workers

// Run moves the slots round and round for a while, and each once at least. At each stage of a move, it waits until
// every worker has made two steps.
func (m *Moves) Run(t *testing.T, cluster *testenv.Cluster, client *redis.ClusterClient) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m.cancel, m.beats = cancel, make(chan int)
	var workers sync.WaitGroup
	for w := range movers {
		workers.Go(func() {
			defer cancel()
			m.work(ctx, t, w)
		})
	}
	lasts := Search()
	if Soak() {
		lasts = 2 * time.Minute
	}
	for n, start := 0, time.Now(); ctx.Err() == nil && (n < len(m.Tags) || time.Since(start) < lasts); n++ {
		slot := int(client.ClusterKeySlot(ctx, m.Tags[n%len(m.Tags)]).Val())
		m.move(ctx, t, cluster, slot)
	}
	cancel()
	workers.Wait()
	t.Logf("%d slots moved under %d lives", m.moved, m.calls.Load())
}

func (m *Moves) work(ctx context.Context, t *testing.T, w int) {
	for n := 0; ctx.Err() == nil; n++ {
		if err := m.Live(context.WithoutCancel(ctx), w, n); err != nil {
			t.Errorf("while slots move: %v", err)
			return
		}
		m.calls.Add(1)
		select {
		case m.beats <- w:
		default:
		}
	}
}

func (m *Moves) move(ctx context.Context, t *testing.T, cluster *testenv.Cluster, slot int) {
	for to := range cluster.Nodes {
		if ctx.Err() != nil {
			return
		}
		if cluster.Owns(ctx, slot, to) {
			continue
		}
		err := cluster.MoveSlot(ctx, slot, to, func() { m.rest(ctx) })
		if err != nil && ctx.Err() == nil {
			t.Errorf("slot %d: %v", slot, err)
			m.cancel()
		}
		m.moved++
	}
}

// rest returns when every worker has made two more steps.
func (m *Moves) rest(ctx context.Context) {
	var lives [movers]int
	for left := movers; left > 0; {
		select {
		case <-ctx.Done():
			return
		case w := <-m.beats:
			if lives[w]++; lives[w] == 2 {
				left--
			}
		}
	}
}
