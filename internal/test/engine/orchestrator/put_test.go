package orchestrator_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Of a hundred calls at once in two processes one makes the session, those for any version all count, and a version
// that has passed says which one there is.
func TestPutVersions(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		bots := []*Bot{w.Start(t, strict(t), Options{}), w.Start(t, strict(t), Options{})}
		race := func(n, version int) (won, stale int64) {
			var all sync.WaitGroup
			var wins, losses atomic.Int64
			for i := range n {
				all.Go(func() {
					_, err := bots[i%2].Put(t.Context(), "s", version, Input{}, add(1), nil)
					_, lost := errors.AsType[*orchestrator.VersionError](err)
					switch {
					case err == nil:
						wins.Add(1)
					case lost && orchestrator.Public(err).Status == 409:
						losses.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			all.Wait()
			return wins.Load(), losses.Load()
		}
		n := int64(100)
		if t.Name() != "TestPutVersions/memory" {
			n = 20
		}
		if won, stale := race(int(n), orchestrator.NoTurns); won != 1 || stale != n-1 {
			t.Errorf("%d of %d made the session", won, n)
		}
		if won, _ := race(int(n), orchestrator.AnyVersion); won != n {
			t.Errorf("%d of %d counted", won, n)
		}
		if won, stale := race(int(n), int(n)+1); won != 1 || stale != n-1 {
			t.Errorf("%d of %d changed one version", won, n)
		}
		_, err := bots[0].Put(t.Context(), "s", 1, Input{}, add(1), nil)
		if v, ok := errors.AsType[*orchestrator.VersionError](err); !ok || v.Want != 1 || v.Now != int(n)+2 {
			t.Errorf("%v", err)
		}
		res, err := bots[0].Turn(t.Context(), "s", checkpoint.Newest)
		if err != nil || res.State.N != int(n)+2 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
