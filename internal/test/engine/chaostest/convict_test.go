package chaostest

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/snapshot"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func newStores() Stores { return Stores{new(checkpoint.Memory), new(snapshot.Memory)} }

// withCheckpoints returns stores with a broken checkpoint store.
func withCheckpoints(broken func(checkpoint.Store) checkpoint.Store) func() Stores {
	return func() Stores { return Stores{broken(new(checkpoint.Memory)), new(snapshot.Memory)} }
}

// The first three are the engine's own stores as they were before each fault was mended.
var brokenStores = []struct {
	name string
	laws []string // one of which must break
	open func() Stores
}{
	{"snapshots forget the fence on Delete", []string{Failed, Once}, func() Stores {
		return Stores{new(checkpoint.Memory), forgetsFence{&snapshot.Memory{Remember: 1}}}
	}},
	{"a Settle forgets the fence", []string{Failed, Once}, func() Stores {
		return Stores{new(checkpoint.Memory), forgetsBoth{&snapshot.Memory{Remember: 1}}}
	}},
	{"a Settle deletes no run", []string{Failed, Once, Peaceful, Idle}, func() Stores {
		return Stores{new(checkpoint.Memory), saysForgotten{new(snapshot.Memory)}}
	}},
	{"Delete takes any lease", []string{Kept}, withCheckpoints(func(s checkpoint.Store) checkpoint.Store {
		return deletesForAnybody{s}
	})},
	{"From takes from anybody", []string{Innocent}, withCheckpoints(func(s checkpoint.Store) checkpoint.Store {
		return takesFromAnybody{s}
	})},
	{"Append takes any lease", []string{Whole, Kept, Once}, withCheckpoints(func(s checkpoint.Store) checkpoint.Store {
		return settlesForAnybody{s, make(map[checkpoint.Key]checkpoint.Lease)}
	})},
	{"Delete does nothing", []string{Deleted}, withCheckpoints(func(s checkpoint.Store) checkpoint.Store {
		return deletesNothing{s}
	})},
	{"deliveries are not noted", []string{Delivered}, withCheckpoints(func(s checkpoint.Store) checkpoint.Store {
		return forgetsMarks{s}
	})},
	{"deliveries are skipped", []string{Delivered}, withCheckpoints(func(s checkpoint.Store) checkpoint.Store {
		return skipsDeliveries{s}
	})},
	{"owners are fenced for nothing", []string{Innocent, Peaceful}, func() Stores {
		return Stores{new(checkpoint.Memory), fencesOwners{new(snapshot.Memory), make(map[snapshot.Key]int)}}
	}},
}

// mostSeeds is the number of histories in which a broken store must be convicted.
const mostSeeds = 5000

// A broken store is convicted in a history in which the sound store is not.
func TestConvicts(t *testing.T) {
	for _, broken := range brokenStores {
		t.Run(broken.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(mostSeeds) {
				if !Play(t, broken.open(), seed).Broke(broken.laws...) ||
					Play(t, newStores(), seed).Broke(broken.laws...) {
					continue
				}
				t.Logf("convicted after %d histories", seed+1)
				return
			}
			t.Errorf("not convicted by %d histories", mostSeeds)
		})
	}
}

// A seed always makes the same history.
func TestSeeds(t *testing.T) {
	for seed := range uint64(30) {
		first, again := Play(t, newStores(), seed).String(), Play(t, newStores(), seed).String()
		if first != again {
			t.Fatalf("%s\nand\n%s", first, again)
		}
	}
}

// The scheduler and the judge work in real time too, where goroutines run beside the scheduler.
func TestRealTime(t *testing.T) {
	if r := PlayOnServers(newStores(), 1, "chaos"); len(r.Wrong) > 0 {
		t.Error(r)
	}
}
