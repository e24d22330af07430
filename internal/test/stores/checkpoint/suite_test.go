package checkpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// Functions keep the contract in TestFunctions and TestCitus.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, d := range databases {
		if name != "functions" {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkpointtest.Run(t, d.newStore)
			})
		}
	}
}

func TestSweep(t *testing.T) {
	each(t, sweeps, func(t *testing.T, d database) {
		checkpointtest.RunSweeper(t, func(t *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
			return d.open(t, ttl, 0)
		})
	})
}

func TestUnsettled(t *testing.T) {
	each(t, sweeps, func(t *testing.T, d database) {
		checkpointtest.RunUnsettled(t, func(t *testing.T, unsettled time.Duration) checkpointtest.SweepingStore {
			return d.open(t, 0, unsettled)
		})
	})
}

func TestRaise(t *testing.T) {
	each(t, all, func(t *testing.T, d database) {
		checkpointtest.RunRaiser(t, func(t *testing.T) checkpointtest.RaisingStore { return d.open(t, 0, 0) })
	})
}

func TestModel(t *testing.T) {
	each(t, all, func(t *testing.T, d database) { faulttest.CheckpointModel(t, d.newStore) })
}

func TestSweepModel(t *testing.T) {
	each(t, sweeps, func(t *testing.T, d database) {
		faulttest.CheckpointSweepModel(t, func(t *testing.T, ttl time.Duration) checkpoint.Store {
			return d.open(t, ttl, 0)
		})
	})
}

func TestUnsettledModel(t *testing.T) {
	each(t, sweeps, func(t *testing.T, d database) {
		faulttest.CheckpointUnsettledModel(t, func(t *testing.T, unsettled time.Duration) checkpoint.Store {
			return d.open(t, 0, unsettled)
		})
	})
}

func TestHistories(t *testing.T) {
	each(t, all, func(t *testing.T, d database) {
		faulttest.CheckpointHistories(t, d.newStore, faulttest.Histories())
	})
}

// The lock lets every caller in, and the histories stay right: safety needs no lock.
func TestHistoriesBehindEverybody(t *testing.T) {
	each(t, all, func(t *testing.T, d database) { faulttest.HistoriesBehindEverybody(t, d.newStore) })
}

func TestRenewUnderLoad(t *testing.T) {
	each(t, all, func(t *testing.T, d database) { faulttest.RenewUnderLoad(t, d.newStore, d.loaded) })
}

func TestDamaged(t *testing.T) {
	each(t, func(d database) bool { return d.spoil != nil }, func(t *testing.T, d database) {
		for _, s := range d.spoils {
			t.Run(strings.TrimRight(s.head, "9")+", "+s.turn, func(t *testing.T) {
				t.Parallel()
				checkpointtest.RunDamaged(t, d.spoil(t, s))
			})
		}
	})
}

func TestOutgrown(t *testing.T) {
	each(t, func(d database) bool { return d.spoil != nil }, func(t *testing.T, d database) {
		checkpointtest.RunOutgrown(t, d.spoil(t, spoil{turn: d.outgrows}))
	})
}

// No call about a session on another part fails, or waits for the part that is away.
func TestPartAway(t *testing.T) {
	each(t, func(d database) bool { return d.away != nil }, func(t *testing.T, d database) {
		for name, part := range d.away {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				newStore := part(t)
				checkpointtest.RunDivided(t, func(t *testing.T) checkpointtest.DividedStore { return newStore(t, 0) })
				if d.sweepsAround {
					checkpointtest.RunDividedSweeper(t, newStore)
				}
			})
		}
	})
}

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	each(t, func(d database) bool { return d.unreachable != nil }, func(t *testing.T, d database) {
		for name, newStore := range d.unreachable {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkpointtest.RunUnreachable(t, newStore(t))
			})
		}
	})
}

func BenchmarkStore(b *testing.B) {
	for name, d := range databases {
		b.Run(name, func(b *testing.B) { checkpointtest.Bench(b, d.open(b, 0, 0)) })
	}
}

func TestPrefix(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		for _, bad := range []string{
			"a-b", "a.b.c", `"a"`, "9", "a_very_long_prefix_that_leaves_no_room_for_the_names_of_indexes_",
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("prefix %q is taken", bad)
					}
				}()
				pgcheckpoint.New(nil, &pgcheckpoint.Options{Prefix: bad})
			}()
		}
	})
	t.Run("redis", func(t *testing.T) {
		redistest.Prefixes(t, func(prefix string) { redisOn(nil, prefix, redischeckpoint.Options{}) })
	})
}
