package redischeckpoint_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, newStore)
}

// A TTL changes nothing until it has passed.
func TestStoreTTL(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		client, prefix := testenv.Redis(t)
		return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix, TTL: time.Hour})
	})
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	n := 0
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		n++
		return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: fmt.Sprintf("c%d:", n)})
	})
}

func BenchmarkStore(b *testing.B) {
	client, prefix := testenv.Redis(b)
	checkpointtest.Bench(b, redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix}))
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	redistest.Prefixes(t, func(prefix string) { redischeckpoint.New(nil, &redischeckpoint.Options{Prefix: prefix}) })
	if got := redischeckpoint.New(nil, nil).Schema(); got != "" {
		t.Errorf("schema %q", got)
	}
}

// Names that look like hash tags, separators or escapes stay apart, and each session stays in one slot.
func TestNames(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	s := redischeckpoint.New(client, nil)
	names := []string{
		"a", "a/b", "b", "/", "{", "}", "{}", "{a}", "}{", "%", "%2F", "%252F",
		"a:session", "\n", "*", "😀", "\u202e", strings.Repeat("{", 512),
	}
	for _, orchestrator := range names {
		for _, session := range names {
			k := checkpoint.Key{Orchestrator: orchestrator, Session: session}
			c, err := s.Claim(t.Context(), k, request("n", time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			cp := turn(0, fmt.Sprintf("%d-%d", len(orchestrator), len(session)))
			cp.State, _ = json.Marshal(k)
			if err := s.Append(t.Context(), c.Lease, cp, checkpoint.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, orchestrator := range names {
		n := 0
		for session, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: orchestrator}) {
			if err != nil {
				t.Fatal(err)
			}
			cp, err := checkpoint.Load(t.Context(), s, checkpoint.Key{Orchestrator: orchestrator, Session: session}, 0)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := json.Marshal(checkpoint.Key{Orchestrator: orchestrator, Session: session})
			if string(cp.State) != string(want) {
				t.Errorf("session %q of %q holds %s", session, orchestrator, cp.State)
			}
			n++
		}
		if n != len(names) {
			t.Errorf("%d sessions of %q, want %d", n, orchestrator, len(names))
		}
	}
}

func key(session string) checkpoint.Key { return checkpoint.Key{Orchestrator: "bot", Session: session} }

func request(nonce string, ttl time.Duration) checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "test", Nonce: nonce, TTL: ttl}
}

func turn(n int, run string) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{Turn: n, RunID: run, RequestID: "req-" + run, State: json.RawMessage(`{}`)}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newStore(t *testing.T) checkpoint.Store {
	client, prefix := testenv.Redis(t)
	return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
}

func TestModel(t *testing.T) {
	t.Parallel()
	faulttest.CheckpointModel(t, newStore)
}

func TestHistories(t *testing.T) {
	t.Parallel()
	faulttest.CheckpointHistories(t, newStore, faulttest.Histories())
}

func TestRenewUnderLoad(t *testing.T) {
	t.Parallel()
	faulttest.RenewUnderLoad(t, newStore, 500)
}

// The lock lets every caller in, and the histories stay right: safety needs no lock.
func TestHistoriesBehindEverybody(t *testing.T) {
	t.Parallel()
	faulttest.HistoriesBehindEverybody(t, newStore)
}

func TestBeat(t *testing.T) {
	locktest.RunBeater(t, func(t *testing.T) lock.Beater {
		client, prefix := testenv.Redis(t)
		return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	})
}

func TestRaise(t *testing.T) {
	t.Parallel()
	checkpointtest.RunRaiser(t, func(t *testing.T) checkpointtest.RaisingStore {
		client, prefix := testenv.Redis(t)
		return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	})
}

// The sessions of a cluster are on several nodes, and more than a page.
func TestRaiseCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	n := 0
	checkpointtest.RunRaiser(t, func(*testing.T) checkpointtest.RaisingStore {
		n++
		return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: fmt.Sprintf("c%d:", n)})
	})
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: "many:"})
	const most = 2500
	for i := range most {
		k := checkpoint.Key{Orchestrator: "bot", Session: fmt.Sprint(i)}
		_, err := s.Claim(t.Context(), k, checkpoint.ClaimRequest{Owner: "o", Nonce: "n", TTL: time.Hour})
		check(t, err)
	}
	if ended, err := s.Raise(t.Context(), time.Now()); ended != most || err != nil {
		t.Errorf("ended %d, want %d: %v", ended, most, err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	locktest.RunWatcher(t, func(t *testing.T) lock.Watcher {
		client, prefix := testenv.Redis(t)
		return redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	})
}
