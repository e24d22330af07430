package workflows_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// Twenty processes keep the time of each second, until they are killed. There is one run a tick, and each run completes
// once a process goes on.
func TestScheduleOfManyProcesses(t *testing.T) {
	ticks := 10
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		ticks = 60
	}
	for kind, processes := range map[string]int{"postgres": 20, "sqlite": 4} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := sites[kind](t)
			s.DeadAfter, s.Lease = 0, 0
			if kind == "postgres" {
				s.Where = pooled(t, s.Where, 3)
			}
			w, children := s.here(t), make([]*child, processes)
			c := workflow.NewClient(w.store)
			awaitTicks := func(n int) {
				for n += list(t, c, "tick"); list(t, c, "tick") < n; {
					<-time.After(100 * time.Millisecond)
				}
			}
			for i := range children {
				children[i] = job{Site: s, Ticks: true}.start(t)
				if i == 0 { // the others know from the first tick which ones they have missed
					awaitTicks(1)
				}
			}
			awaitTicks(ticks)
			for _, c := range children {
				c.kill()
			}
			w.runWith(t, &flow.Options{DeadAfter: quickly, Lease: lease, Logger: quiet}, tick)
			byTime := make(map[string]int)
			var ids []string
			q := workflow.Query{Workflow: "tick", KeyPrefix: "schedule @every 1s at "}
			for r, err := range c.Runs(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, r.ID)
			}
			for _, id := range ids {
				r, err := c.Await(t.Context(), id)
				if err != nil || r.Status != workflow.Completed {
					t.Errorf("%+v: %v", r, err)
				}
				byTime[strings.Trim(string(r.Input), `"`)]++
			}
			for at, n := range byTime {
				if n != 1 {
					t.Errorf("%d runs of %s", n, at)
				}
			}
			times := slices.Sorted(maps.Keys(byTime))
			first, err := time.Parse(time.RFC3339, times[0])
			last, err2 := time.Parse(time.RFC3339, times[len(times)-1])
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if all := int(last.Sub(first)/time.Second) + 1; len(times) != all {
				t.Errorf("%d of %d ticks have a run, want all", len(times), all)
			}
			if all := list(t, c, "tick"); all != len(byTime) {
				t.Errorf("there are %d runs", all)
			}
			t.Logf("%d ticks", len(byTime))
		})
	}
}

var tick = flow.New("tick", 1, func(_ *flow.Run, at string) (string, error) { return at, nil })

// ticking is a workflow that is started each second.
func ticking() flow.Definition {
	return tick.On("@every 1s", func(at time.Time) string { return at.Format(time.RFC3339) }, true)
}

// pooled returns the URL of a server with a small pool.
func pooled(t *testing.T, url string, conns int) string {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	join := "?"
	if strings.Contains(c.ConnString(), "?") {
		join = "&"
	}
	return fmt.Sprint(url, join, "pool_max_conns=", conns)
}

func list(t *testing.T, c *workflow.Client, name string) (n int) {
	t.Helper()
	for _, err := range c.Runs(t.Context(), workflow.Query{Workflow: name}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
