package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// A caller makes calls that have to succeed.
type caller struct {
	t *testing.T
	workflow.Store
}

func (c caller) start(runs ...workflow.NewRun) func() error {
	return func() error { _, err := c.Start(c.t.Context(), runs); return err }
}

func (c caller) send(m ...workflow.Message) func() error {
	return func() error { _, err := c.Send(c.t.Context(), m); return err }
}

// write writes entries, each of which has the verdict want.
func (c caller) write(want error, entries ...workflow.Entry) func() error {
	return func() error {
		verdicts, err := c.Write(c.t.Context(), entries)
		for _, v := range verdicts {
			if v != want { //nolint:errorlint // verdicts are as they are
				return fmt.Errorf("verdict %w, want %w", v, want)
			}
		}
		return err
	}
}

// claim claims as many runs as want.
func (c caller) claim(want int, r workflow.ClaimRequest) func() error {
	return func() error {
		claimed, _, err := c.Claim(c.t.Context(), r)
		if err == nil && len(claimed) != want {
			err = fmt.Errorf("%d are claimed, want %d", len(claimed), want)
		}
		return err
	}
}

// list reads as many runs as most, and wants as many.
func (c caller) list(q workflow.Query, most, want int) func() error {
	return pages(c.t, c.Store, q, most, want)
}

func pages(t *testing.T, s workflow.Front, q workflow.Query, most, want int) func() error {
	return func() error {
		n := 0
		for _, err := range s.Runs(t.Context(), q) {
			if err != nil {
				return err
			}
			if n++; n == most {
				break
			}
		}
		if n != want {
			return fmt.Errorf("%d runs, want %d", n, want)
		}
		return nil
	}
}

func (c caller) steps(run string, want int) func() error { return journal(c.t, c.Store, run, want) }

func journal(t *testing.T, s workflow.Front, run string, want int) func() error {
	return func() error {
		n := 0
		for _, err := range s.Steps(t.Context(), run) {
			if err != nil {
				return err
			}
			n++
		}
		if n != want {
			return fmt.Errorf("%d steps, want %d", n, want)
		}
		return nil
	}
}

func (c caller) sweep(limit int) func() error {
	return func() error { _, err := c.Sweep(c.t.Context(), limit); return err }
}

// keyed is a run with a key that nobody owns.
func keyed(id, key string) workflow.NewRun {
	return workflow.NewRun{ID: id, Workflow: "w", Version: 1, Input: json.RawMessage(`{"n":1}`), Key: key}
}

func taking(signal string) workflow.Step {
	st := stepOf("wait " + signal)
	st.Name, st.Kind, st.Signal = "wait-"+signal, workflow.KindWait, signal
	return st
}

// The test counts at the server what each call costs.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, _, s := onPostgres.Private(t, &testenv.Options{Count: true})
	c := caller{t, s}
	cost := pgtest.Costs(t, server)
	cost("first call of a store", 2, c.start(begun("r")))
	cost("a run", 1, c.start(begun("other")))
	cost("a run that nobody owns", 1, c.start(keyed("due", "k")))
	cost("a run that is known", 2, c.start(keyed("due2", "k")))
	debounced := keyed("bounce", "b")
	debounced.Debounce, debounced.Delay = true, time.Hour
	cost("a debounced run", 3, c.start(debounced))
	debounced.ID = "bounce2"
	cost("a run that is moved", 3, c.start(debounced))
	cost("two runs", 4, c.start(begun("x"), begun("y")))
	cost("a step", 1, c.write(nil, entryOf("r", workflow.Stay, stepOf("1"))))
	cost("three outcomes of a run", 1, c.write(nil, entryOf("r", workflow.Stay, stepOf("2"), stepOf("3"), stepOf("4"))))
	cost("steps of three runs", 3, c.write(nil, entryOf("r", workflow.Stay, stepOf("5")),
		entryOf("x", workflow.Stay, stepOf("1")), entryOf("y", workflow.Stay, stepOf("1"))))
	refused := entryOf("r", workflow.Stay, stepOf("6"))
	refused.Fence.Nonce = "other"
	cost("a step of another owner", 2, c.write(lock.ErrFenced, refused))
	cost("a signal", 1, c.send(signalTo("r", "1")))
	cost("a signal once more", 1, c.send(signalTo("r", "1")))
	cost("two signals", 2, c.send(signalTo("r", "2"), signalTo("x", "2")))
	cost("a signal to nobody", 1, c.send(signalTo("nobody", "1")))
	cost("a wait that takes a signal", 1, c.write(nil, entryOf("r", workflow.Stay, taking("1"))))
	cost("a run that is parked", 1, c.write(nil, entryOf("other", workflow.Park, stepOf("1"))))
	cost("the same once more", 2, c.write(nil, entryOf("other", workflow.Park, stepOf("1"))))
	cost("the end of a run, with a step", 1, c.write(nil, entryOf("x", workflow.End, stepOf("2"))))
	cost("a late row", 1, c.write(nil, entryOf("x", workflow.Record, stepOf("3"))))
	cost("a claim", 1, c.claim(1, claimOf("b")))
	cost("a claim of nothing, and when the next one is due", 1, c.claim(0, claimOf("b")))
	from, again, lease, forget := claimOf("c"), claimOf("c"), claimOf("c"), claimOf("c")
	from.From, again.Again, lease.Lease, forget.Lease, forget.Definitions = "b", "n", time.Hour, time.Hour, nil
	cost("a claim from another process", 1, c.claim(1, from))
	cost("a claim again", 1, c.claim(1, again))
	cost("a lease", 1, c.claim(0, lease))
	cost("the end of a process", 1, c.claim(0, forget))
	within := claimOf("b")
	within.Limits = map[string]workflow.Limit{"w": {Runs: 100, EachGroup: 10, PerSecond: 100}}
	cost("a claim within a limit that finds nothing due", 1, c.claim(0, within))
	check(t, c.start(keyed("l1", ""), keyed("l2", ""))())
	cost("the first claim within a limit", 4, c.claim(2, within))
	check(t, c.start(keyed("l3", ""))())
	cost("a claim within a limit", 3, c.claim(1, within))
	childOf := func(id string) workflow.NewRun {
		n := begun(id)
		n.Parent = "r"
		return n
	}
	fork := keyed("fork", "")
	fork.From, fork.FromStep = "r", "3"
	cost("a fork", 1, c.start(fork))
	cost("a rewind", 4, c.send(workflow.Message{Run: "y", Action: workflow.Rewind, Event: "1"}))
	cost("a child", 1, c.start(childOf("child")))
	cost("two children", 6, c.start(childOf("two"), childOf("three")))
	cost("the children of a run", 1, c.list(workflow.Query{Parent: "r"}, 10, 3))
	cost("pause, resume and cancel with the children", 5, c.send(workflow.Message{Run: "r", Action: workflow.Pause},
		workflow.Message{Run: "r", Action: workflow.Resume}, workflow.Message{Run: "r", Action: workflow.Cancel}))
	cost("a run", 1, c.list(workflow.Query{ID: "r"}, 1, 1))
	cost("a list", 1, c.list(workflow.Query{}, 100, 13))
	cost("a journal", 1, c.steps("r", 7))
	cost("counts", 1, func() error { _, err := s.Counts(t.Context()); return err })
	cost("a sweep", 3, c.sweep(0))
}

// A run of ten steps costs eleven statements.
func TestPostgresStatementsOfRun(t *testing.T) {
	t.Parallel()
	server, _, s := onPostgres.Private(t, &testenv.Options{Count: true})
	c := caller{t, s}
	check(t, c.start(begun("warm"))())
	pgtest.Costs(t, server)("a run of ten steps", 11, func() error {
		check(t, c.start(begun("r"))())
		for i := range 9 {
			check(t, c.write(nil, entryOf("r", workflow.Stay, stepOf(fmt.Sprint(i))))())
		}
		return c.write(nil, entryOf("r", workflow.End, stepOf("9")))()
	})
}

// What the calls cost does not depend on how many runs there are. PostgreSQL need not have statistics.
func TestPostgresManyRuns(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := onPostgres.On(t, p, "")
	addMany(t, p)
	pgtest.Blocks(t, server, p, 250, func(statistics string) map[string]func(n int) {
		m := many{caller{t, s}, statistics[:1]}
		all := m.writes()
		maps.Copy(all, m.reads())
		return all
	})
}

// If no run was running when the statistics were gathered, what is said to one run does not walk all that run now.
func TestPostgresStaleStatistics(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	c := caller{t, onPostgres.On(t, p, "")}
	add := func(status string) {
		pgtest.Exec(t, p, `
			INSERT INTO holdfast_workflow_runs (id, workflow, version, status, owner, since, retention, started, input)
			SELECT $1 || i, 'w', 1, $1, CASE WHEN $1 = 'running' THEN 'a' ELSE '' END, now(), 365, now(), '1'
			FROM generate_series(1, 5000) i`, status)
	}
	family := func(run string, act func(child workflow.NewRun) error) func() error {
		return func() error {
			child := begun(run + ".1")
			child.Parent = run
			return errors.Join(c.write(nil, entryOf(run, workflow.Stay, stepOf("s")))(), act(child))
		}
	}
	add("completed")
	pgtest.Exec(t, p, "VACUUM (ANALYZE) holdfast_workflow_runs")
	add("running")
	for what, call := range map[string]func(run string) func() error{
		"step":   func(run string) func() error { return c.write(nil, entryOf(run, workflow.Stay, stepOf("s"))) },
		"park":   func(run string) func() error { return c.write(nil, entryOf(run, workflow.Park)) },
		"end":    func(run string) func() error { return c.write(nil, entryOf(run, workflow.End)) },
		"signal": func(run string) func() error { return c.send(signalTo(run, "1")) },
		"pause":  func(run string) func() error { return c.send(workflow.Message{Run: run, Action: workflow.Pause}) },
		"cancel": func(run string) func() error { return c.send(workflow.Message{Run: run, Action: workflow.Cancel}) },
		"fork": func(run string) func() error {
			return family(run, func(n workflow.NewRun) error {
				n.Parent, n.Owner, n.From, n.FromStep = "", "", run, "s"
				return c.start(n)()
			})
		},
		"rewind": func(run string) func() error {
			return family(run, func(workflow.NewRun) error {
				return c.send(workflow.Message{Run: run, Action: workflow.Rewind, Event: "s"})()
			})
		},
		"child": func(run string) func() error {
			return family(run, func(n workflow.NewRun) error { return c.start(n)() })
		},
		"children": func(run string) func() error {
			return family(run, func(workflow.NewRun) error {
				return c.list(workflow.Query{Parent: run}, 10, 0)()
			})
		},
		"cancel of a family": func(run string) func() error {
			return family(run, func(n workflow.NewRun) error {
				return errors.Join(c.start(n)(), c.send(workflow.Message{Run: run, Action: workflow.Cancel})())
			})
		},
	} {
		check(t, c.start(begun("warm"+what), begun(what))())
		check(t, call("warm"+what)())
		before := server.Blocks()
		check(t, call(what)())
		if blocks := server.Blocks() - before; blocks > 100 {
			t.Errorf("%s touches %d blocks", what, blocks)
		}
	}
}

// addMany adds runs as the store would have left them. Most are over, and some wait. One in ten thousand has failed.
func addMany(t *testing.T, p *pgxpool.Pool) {
	t.Helper()
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_workflow_runs (
			id, workflow, version, status, due, event, key, owner, since, retention, started, completed, input, output)
		SELECT 'r' || i, 'w' || i % 3, 1 + i % 2, s, CASE WHEN s = 'running' THEN timestamptz 'infinity' END,
			CASE WHEN s = 'running' THEN 'e' END, CASE WHEN i % 2 = 0 THEN 'k' || i END, '', at, 365, at,
			CASE WHEN s <> 'running' THEN at END, '{"n":1}', '1'
		FROM (
			SELECT i, now() - i * interval '1 s' AS at, CASE WHEN i % 20 = 0 THEN 'running'
				WHEN i % 10000 = 1 THEN 'failed' ELSE 'completed' END AS s
			FROM generate_series(0, 119999) i
		) f`)
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_workflow_steps (
			run, name, idx, kind, outcome, attempts, signal, started, completed, error, output)
		SELECT 'r' || i, 's', 0, 'run', 'done', 1, '', now(), now(), '', '1' FROM generate_series(0, 119999) i`)
}

// many makes calls beside many runs. known tells what PostgreSQL knows of them.
type many struct {
	caller
	known string
}

func (m many) id(what string, n int) string { return fmt.Sprint(what, n, m.known) }

func (m many) do(f func() error) func(int) {
	return func(int) {
		if err := f(); err != nil {
			m.t.Error(err)
		}
	}
}

// own starts a run and calls f with it.
func (m many) own(what string, f func(id string) func() error) func(n int) {
	return func(n int) {
		check(m.t, m.start(begun(m.id(what, n)))())
		check(m.t, f(m.id(what, n))())
	}
}

func (m many) next(next workflow.Next) func(id string) func() error {
	return func(id string) func() error { return m.write(nil, entryOf(id, next, stepOf("s"))) }
}

func (m many) writes() map[string]func(n int) {
	known := workflow.NewRun{ID: "new", Workflow: "w0", Input: json.RawMessage(`{"n":1}`), Key: "k6"}
	three := claimOf("b")
	three.Definitions = []workflow.Definition{
		{Workflow: "w0", Version: 1}, {Workflow: "w1", Version: 2}, {Workflow: "w", Version: 1},
	}
	from, lease := three, three
	from.From, lease.Lease = "nobody", time.Hour
	return map[string]func(n int){
		"start": func(n int) { check(m.t, m.start(keyed(m.id("start", n), m.id("key", n)))()) },
		"start without a version": func(n int) {
			r := keyed(m.id("v0", n), "")
			r.Version = 0
			check(m.t, m.start(r)())
		},
		"start of a known key": m.do(m.start(known)),
		"start and step":       m.own("step", m.next(workflow.Stay)),
		"start and park":       m.own("park", m.next(workflow.Park)),
		"start and end":        m.own("end", m.next(workflow.End)),
		"start and claim": func(n int) {
			check(m.t, m.start(keyed(m.id("claim", n), ""))())
			if claimed, _, err := m.Claim(m.t.Context(), three); err != nil || len(claimed) == 0 {
				m.t.Errorf("claimed %v, %v", claimed, err)
			}
		},
		"start and claim within a limit": func(n int) {
			r := keyed(m.id("within", n), "")
			r.Group = m.id("group", n)
			check(m.t, m.start(r)())
			q := three
			q.Limits = map[string]workflow.Limit{
				"w": {Runs: 1000, EachGroup: 5, PerSecond: 1000}, "w1": {Runs: 1000}, "w2": {PerSecond: 3},
			}
			if claimed, _, err := m.Claim(m.t.Context(), q); err != nil || len(claimed) == 0 {
				m.t.Errorf("claimed %v, %v", claimed, err)
			}
		},
		"claim from nobody":          m.do(m.claim(0, from)),
		"lease":                      m.do(m.claim(0, lease)),
		"signal":                     func(n int) { check(m.t, m.send(signalTo(fmt.Sprint("r", 40*(n+1)), m.id("s", n)))()) },
		"a sweep that finds nothing": m.do(m.sweep(1000)),
	}
}

func (m many) reads() map[string]func(n int) {
	pages := func(q workflow.Query, most, want int) func(int) { return m.do(m.list(q, most, want)) }
	failed := workflow.Query{Status: workflow.Failed}
	failed1 := workflow.Query{Status: workflow.Failed, Workflow: "w1"}
	return map[string]func(n int){
		"one run":                   pages(workflow.Query{ID: "r77"}, 1, 1),
		"first page":                pages(workflow.Query{}, 10, 10),
		"first page of a workflow":  pages(workflow.Query{Workflow: "w1"}, 10, 10),
		"failed runs":               pages(failed, 100, 12),
		"failed runs of a workflow": pages(failed1, 100, 4),
		"a page in the middle":      pages(workflow.Query{Workflow: "w1", Until: time.Now().Add(-8 * time.Hour)}, 10, 10),
		"who waits longest":         pages(workflow.Query{Workflow: "w0", Event: "e"}, 1, 1),
		"the journal of a run":      m.do(m.steps("r78", 1)),
	}
}

// If no vacuum comes, the versions that a run with steps, sleeps, waits and signals leaves behind cost the next calls
// little.
func TestPostgresDeadVersions(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := onPostgres.On(t, p, "")
	c := caller{t, s}
	check(t, c.start(keyed("r", ""))())
	for n := range 2000 {
		claimed, _, err := s.Claim(t.Context(), claimOf("a"))
		check(t, err)
		e := entryOf("r", workflow.Stay, stepOf(fmt.Sprint("step-", n)))
		e.Fence = claimed[0].Fence
		sleeps := workflow.Step{Name: fmt.Sprint("sleep-", n), Kind: workflow.KindSleep, Outcome: workflow.Open, For: 1}
		check(t, c.write(nil, e)())
		e.Steps, e.Next, e.After = []workflow.Step{sleeps}, workflow.Park, time.Hour
		if e.Event = "e"; n%2 == 0 {
			e.Event, e.After = "", 1
		}
		check(t, c.write(nil, e)())
		if n%2 == 1 {
			check(t, c.send(signalTo("r", fmt.Sprint(n)))())
		}
	}
	for _, call := range []struct {
		what string
		do   func() error
	}{
		{"a list", c.list(workflow.Query{Workflow: "w"}, 10, 1)},
		{"a list of what runs", c.list(workflow.Query{Status: workflow.Running}, 10, 1)},
		{"a claim", c.claim(1, claimOf("a"))},
		{"a claim of nothing", c.claim(0, claimOf("a"))},
		{"a takeover of nothing", c.claim(0, func() workflow.ClaimRequest { q := claimOf("a"); q.From = "b"; return q }())},
	} {
		before := server.Blocks()
		check(t, call.do())
		blocks := server.Blocks() - before
		t.Logf("%s touches %d blocks, and the table has %d KiB", call.what, blocks,
			pgtest.Value[int](t, p, "SELECT pg_total_relation_size('holdfast_workflow_runs') / 1024"))
		if blocks > 200 {
			t.Errorf("%s touches %d blocks", call.what, blocks)
		}
	}
}

// If the server does not wait for its disk by default, all calls do that promise something. A claim promises nothing.
func TestPostgresDurable(t *testing.T) {
	t.Parallel()
	_, p, s := onPostgres.Private(t, &testenv.Options{Settings: pgtest.Lazy()})
	c := caller{t, s}
	pgtest.Durable(t, p, func(n int, call func(what string, do func() error)) {
		id := func(what string) string { return fmt.Sprint(what, n) }
		call("start", c.start(begun(id("r"))))
		call("start of a known run", c.start(begun(id("r"))))
		call("start of two", c.start(begun(id("x")), begun(id("y"))))
		call("start of one that is due", c.start(keyed(id("due"), id("k"))))
		call("step", c.write(nil, entryOf(id("r"), workflow.Stay, stepOf("s"))))
		call("steps", c.write(nil, entryOf(id("x"), workflow.Stay, stepOf("s")), entryOf(id("y"), workflow.Stay)))
		call("signal", c.send(signalTo(id("r"), "1")))
		call("signal once more", c.send(signalTo(id("r"), "1")))
		unwanted := signalTo(id("r"), "2")
		unwanted.Wanted = true
		call("unwanted signal", c.send(unwanted))
		call("wait that takes a signal", c.write(nil, entryOf(id("r"), workflow.Stay, taking("1"))))
		call("claim", c.claim(1, claimOf("b")))
		for _, a := range []workflow.Action{workflow.Pause, workflow.Resume, workflow.Cancel} {
			call(string(a), c.send(workflow.Message{Run: id("x"), Action: a}))
		}
		call("refused step", c.write(workflow.ErrOver, entryOf(id("x"), workflow.Stay, stepOf("t"))))
		call("late row", c.write(nil, entryOf(id("x"), workflow.Record, stepOf("late"))))
		call("park", c.write(nil, entryOf(id("y"), workflow.Park)))
		call("park once more", c.write(nil, entryOf(id("y"), workflow.Park)))
		call("end", c.write(nil, entryOf(id("r"), workflow.End, stepOf("last"))))
		from := claimOf("c")
		from.From = "b"
		call("claim from another", c.claim(1, from))
		call("raise", func() error { _, err := s.(lock.Raiser).Raise(t.Context(), time.Time{}); return err })
		check(t, c.send(workflow.Message{Run: id("due"), Action: workflow.Cancel},
			workflow.Message{Run: id("y"), Action: workflow.Cancel})())
		pgtest.Exec(t, p, "UPDATE holdfast_workflow_runs SET completed = completed - interval '31 days'")
		call("sweep", c.sweep(0))
	}, "claim", "claim from another", "sweep")
}
