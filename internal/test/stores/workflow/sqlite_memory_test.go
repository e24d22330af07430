package workflow_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// SQLite answers each call as memory does, and leaves the same runs and journals.
func TestSQLiteIsAsMemory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			db := sqlitetest.Open(t, testenv.SQLite(t))
			file := sqliteworkflow.New(db, nil)
			sqlitetest.Exec(t, db, file.Schema())
			w := &pair{
				t: t, rand: rand.New(rand.NewPCG(seed, 7)), signals: make(map[string][]string),
				stores: [2]workflow.Store{new(workflow.Memory), file},
			}
			for range 150 {
				w.step()
			}
			w.compare()
		})
	}
}

// A pair is two stores that get the same calls.
type pair struct {
	t      *testing.T
	rand   *rand.Rand
	stores [2]workflow.Store
	fences []workflow.Entry // of claims and starts
	calls  int

	signals map[string][]string // that were sent to each run

	// unordered says that one store claims what others have lost in no order, so that a limit means nothing.
	unordered bool
}

// where matches the words with which an error of SQLite begins. apart matches the space in the JSON of PostgreSQL.
var (
	where = regexp.MustCompile(`sqliteworkflow: \w+: `)
	apart = regexp.MustCompile(`([:,]) `)
)

func tidy(said string) string { return apart.ReplaceAllString(where.ReplaceAllString(said, ""), "$1") }

func (p *pair) same(what string, call func(s workflow.Store) string) {
	p.t.Helper()
	memory, other := tidy(call(p.stores[0])), tidy(call(p.stores[1]))
	if memory != other {
		p.t.Fatalf("%s:\nmemory %s\nother %s", what, memory, other)
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (p *pair) step() {
	p.calls++
	ctx, r := p.t.Context(), p.rand
	id := fmt.Sprint("run-", r.IntN(8))
	switch r.IntN(9) {
	case 0:
		n := workflow.NewRun{
			ID: id, Workflow: pick(r, "a", "b"), Version: r.IntN(3), Key: pick(r, "", "k1", "k2"),
			Input: pick(r, json.RawMessage(`{"n":1}`), json.RawMessage(`{"n":1.0}`), nil),
			Delay: pick(r, 0, 0, time.Hour), Parent: pick(r, "", "", fmt.Sprint("run-", r.IntN(8))),
		}
		if n.Delay == 0 && r.IntN(3) == 0 {
			n.Owner, n.Fence = "p1", lock.Fence{Epoch: 1, Nonce: fmt.Sprint("nonce-", p.calls)}
			p.fences = append(p.fences, workflow.Entry{Run: n.ID, Fence: n.Fence})
		}
		if n.Owner == "" && n.Parent == "" && r.IntN(3) == 0 {
			n.From, n.FromStep = pick(r, "run-0", "run-1", "run-2"), fmt.Sprint("s", r.IntN(6))
		}
		p.same(fmt.Sprintf("start %+v", n), func(s workflow.Store) string {
			return fmt.Sprint(s.Start(ctx, []workflow.NewRun{n}))
		})
	case 1, 2:
		m := workflow.Message{
			Run: id, Action: pick(r, workflow.Signal, workflow.Signal, workflow.Signal, workflow.Cancel, workflow.Pause,
				workflow.Resume, workflow.Resume, workflow.Rewind),
			ID: fmt.Sprint("signal-", r.IntN(12)), Event: pick(r, "go", "stop"), Wanted: r.IntN(4) == 0,
			Payload: pick(r, json.RawMessage(`{"user":42}`), json.RawMessage(`{"user":7}`), nil),
		}
		if m.Action == workflow.Rewind {
			m.Event = fmt.Sprint("s", r.IntN(6))
		}
		if m.Action == workflow.Signal && !m.Wanted {
			p.signals[m.Run] = append(p.signals[m.Run], m.ID)
		}
		p.same(fmt.Sprintf("send %+v", m), func(s workflow.Store) string {
			return fmt.Sprint(s.Send(ctx, []workflow.Message{m}))
		})
	case 3, 4:
		p.claim()
	default:
		p.write()
	}
}

var known = []workflow.Definition{
	{Workflow: "a", Version: 1}, {Workflow: "b", Version: 1}, {Workflow: "a", Version: 2}, {Workflow: "a", Version: 1},
}

func (p *pair) claim() {
	ctx, r := p.t.Context(), p.rand
	q := workflow.ClaimRequest{
		Process: pick(r, "p1", "p2"), Nonce: fmt.Sprint("nonce-", p.calls), Limit: r.IntN(4),
		Definitions: known[:1+r.IntN(4)],
	}
	switch r.IntN(5) {
	case 0:
		q.From, q.MostCrashes = pick(r, "p1", "p2"), 2
	case 1:
		q.Again = fmt.Sprint("nonce-", p.calls-r.IntN(9))
	case 2:
		q.Lease, q.MostCrashes = pick(r, time.Nanosecond, time.Hour), 2
		if r.IntN(3) == 0 {
			q.Definitions = nil
		}
	}
	if p.unordered && q.Limit > 0 && (q.From != "" || q.Again != "" || q.Lease > 0) {
		q.Limit = 100
	}
	p.same(fmt.Sprintf("claim %+v", q), func(s workflow.Store) string {
		claimed, next, err := s.Claim(ctx, q)
		said := fmt.Sprint(next.Round(time.Minute), err)
		slices.SortFunc(claimed, func(a, b workflow.Claimed) int { return a.Started.Compare(b.Started) })
		for _, c := range claimed {
			said += fmt.Sprintf("\n%v %v %v %v", told(&c.Run), c.Fence, c.Mail, c.Now.IsZero())
			p.fences = append(p.fences, workflow.Entry{Run: c.ID, Fence: c.Fence, Mail: c.Mail})
		}
		return said
	})
}

func (p *pair) write() {
	if len(p.fences) == 0 {
		return
	}
	ctx, r := p.t.Context(), p.rand
	e := p.fences[len(p.fences)-1-r.IntN(min(len(p.fences), 6))]
	if r.IntN(2) == 0 {
		e.Mail = -1
	}
	for i := range r.IntN(3) {
		e.Steps = append(e.Steps, workflow.Step{
			Name: fmt.Sprint("s", i*3+r.IntN(3)), Index: i, Attempts: 1, Took: pick(r, 0, time.Hour),
			Kind:    pick(r, workflow.KindStep, workflow.KindSleep, workflow.KindWait),
			Outcome: pick(r, workflow.Done, workflow.Open, workflow.Retrying, workflow.Broken, workflow.Late),
			Output:  pick(r, nil, json.RawMessage(`[1]`)), For: pick(r, 0, 5*time.Hour),
		})
	}
	if sent := p.signals[e.Run]; len(e.Steps) > 0 && len(sent) > 0 && r.IntN(2) == 0 {
		e.Steps[0].Signal = pick(r, sent...)
	}
	switch e.Next = pick(r, workflow.Stay, workflow.Stay, workflow.Park, workflow.Park, workflow.End, workflow.Stop,
		workflow.Record); e.Next {
	case workflow.Park:
		e.Event, e.After = pick(r, "", "go", "go", workflow.AnyEvent), pick(r, 0, time.Nanosecond, time.Hour)
		e.Match = pick(r, nil, json.RawMessage(`{"user":42}`))
	case workflow.End:
		e.Status, e.Output = pick(r, workflow.Completed, workflow.Failed), pick(r, nil, json.RawMessage(`1`))
	case workflow.Stop:
		e.Held, e.Error = workflow.Drifted, "drift"
	}
	p.same(fmt.Sprintf("write %+v", e), func(s workflow.Store) string {
		return fmt.Sprint(s.Write(ctx, []workflow.Entry{e}))
	})
}

// compare compares all that can be read.
func (p *pair) compare() {
	p.t.Helper()
	ctx := p.t.Context()
	for _, q := range []workflow.Query{
		{},
		{Workflow: "a"},
		{Status: workflow.Running},
		{Workflow: "b", Status: workflow.Cancelled},
		{Limit: 2},
		{Event: "go", Payload: json.RawMessage(`{"user":42}`)},
		{Workflow: "a", Event: "go"},
		{Input: json.RawMessage(`{"n":1}`)},
		{ID: "run-1"},
		{Since: time.Now()},
		{Until: time.Now()},
	} {
		p.same(fmt.Sprintf("runs %+v", q), func(s workflow.Store) (said string) {
			for r, err := range s.Runs(ctx, q) {
				said += fmt.Sprintf("%v %v\n", told(&r), err)
			}
			return said
		})
	}
	for i := range 8 {
		run := fmt.Sprint("run-", i)
		p.same("steps of "+run, func(s workflow.Store) (said string) {
			var all []string
			for st, err := range s.Steps(ctx, run) {
				all = append(all, fmt.Sprintf("%s %d %s %s %s %d %q; started %s, until %s: %v\n", st.Name, st.Index,
					st.Kind, st.Outcome, st.Output, st.Attempts, st.Signal, roughly(st.Started), roughly(st.Until),
					err))
			}
			return fmt.Sprint(all)
		})
	}
	p.same("counts", func(s workflow.Store) string { return fmt.Sprint(s.Counts(ctx)) })
}

// told returns a run without what the clock says.
func told(r *workflow.Run) string {
	return fmt.Sprintf("%s of %s %d: %s %q %s %s %q, key %q, %d days, over %t, due %s, owner %q, event %q",
		r.ID, r.Workflow, r.Version, r.Status, r.Hold, r.Input, r.Output, r.Error, r.Key, r.RetentionDays,
		!r.Completed.IsZero(), roughly(r.Due), r.Owner, r.Event)
}

func roughly(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return time.Until(t).Round(time.Hour).String()
}
