package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/workflow"
)

// PostgreSQL answers each call as memory does, and leaves the same runs and journals.
func TestPostgresIsAsMemory(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &pair{
				t: t, rand: rand.New(rand.NewPCG(seed, 7)), signals: make(map[string][]string),
				stores:    [2]workflow.Store{new(workflow.Memory), onPostgres.On(t, p, fmt.Sprintf("s%d_", seed))},
				unordered: true,
			}
			for range 150 {
				w.step()
			}
			w.compare()
		})
	}
}
