package chaostest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// SeedEnv names the variable with the seed of one history to play and print.
const SeedEnv = "HOLDFAST_CHAOS_SEED"

// Time returns how long a search goes on: three seconds, or a minute with HOLDFAST_SOAK=1.
func Time() time.Duration {
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		return time.Minute
	}
	return 3 * time.Second
}

// Search plays histories on stores in memory, until the time is over or a history breaks a law. Then Search fails, and
// prints the seed and the history.
func Search(t *testing.T, open func() Stores) {
	t.Helper()
	s := &search{until: time.Now().Add(Time())}
	if fixed := os.Getenv(SeedEnv); fixed != "" {
		seed, err := strconv.ParseUint(fixed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s.judge(t, Play(t, open(), seed))
		t.Log(s.found)
		return
	}
	base := uint64(rand.Uint32())
	t.Run("workers", func(t *testing.T) {
		workers := runtime.GOMAXPROCS(0)
		for n := range workers {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				for seed := base + uint64(n); s.goesOn(); seed += uint64(workers) {
					s.judge(t, watched(t, open(), seed))
				}
			})
		}
	})
	t.Logf("seeds from %d: %v", base, s.tally)
}

// SearchOnServers is Search on any stores. All histories share the stores.
func SearchOnServers(t *testing.T, stores Stores) {
	t.Helper()
	s := &search{until: time.Now().Add(Time())}
	base := uint64(rand.Uint32())
	for seed := base; s.goesOn(); seed++ {
		s.judge(t, PlayOnServers(stores, seed, fmt.Sprintf("chaos %d", seed)))
	}
	t.Logf("seeds from %d: %v", base, s.tally)
}

// A search plays histories. Each of its workers plays one after the other.
type search struct {
	until time.Time

	mu    sync.Mutex // protects following fields
	tally Tally
	// found is the last history that was judged, or the first that broke a law.
	found *Report
}

func (s *search) goesOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.until) && (s.found == nil || len(s.found.Wrong) == 0)
}

func (s *search) judge(t *testing.T, r *Report) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.add(r.Tally)
	s.found = r
	if len(r.Wrong) > 0 {
		t.Errorf("%v\nplay it again with %s=%d", r, SeedEnv, r.Seed)
	}
}

// watched plays a history. If the history comes to no end, watched says which one it is.
func watched(t *testing.T, s Stores, seed uint64) *Report {
	dog := time.AfterFunc(2*time.Minute, func() { panic(fmt.Sprintf("the history of seed %d has not ended", seed)) })
	defer dog.Stop()
	return Play(t, s, seed)
}
