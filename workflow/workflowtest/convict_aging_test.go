package workflowtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

func TestSuiteConvictsAging(t *testing.T) {
	for name, m := range map[string]mutant{
		"a sleep is cut short":         {"deadline", eachEntry(func(e *entry) { earlier(e, time.Hour) })},
		"a sleep takes longer":         {"deadline", eachEntry(func(e *entry) { earlier(e, -time.Hour) })},
		"a delay begins with a claim":  {"deadline", eachNew(func(n *newRun) { n.Delay *= 2 })},
		"a wait ends by itself":        {"deadline-wait", eachEntry(func(e *entry) { waitsDays(e) })},
		"a timeout is forgotten":       {"deadline-wait", eachEntry(func(e *entry) { noTimeout(e) })},
		"a lease knows no beats":       {"lease", deafBeats},
		"a lease is longer":            {"lease", eachRequest(func(q *request) { q.Lease *= 3 })},
		"a lease is shorter":           {"lease", eachRequest(func(q *request) { q.Lease /= 3 })},
		"a process lives for ever":     {"living", livesForever},
		"a process lives for a minute": {"living", notesEarly},
		"a sweep comes a day early":    {"retention", daysOff(-1)},
		"a sweep comes a day late":     {"retention", daysOff(1)},
		"a sweep keeps the journal":    {"retention", keepsJournal},
		"a sweep ends what runs":       {"retention-running", sweepsRunning},
		"a sweep has no limit":         {"retention-limit", noLimit},
		"a sweep deletes one":          {"retention-limit", func(b *broken) { b.sweep = one(b.sweep) }},
		"sweepers count twice":         {"retention-limit", countsSwept},
		"nobody is unknown":            {"unknown", func(b *broken) { b.sweep = nobody }},
		"unknown does not say why":     {"unknown", eachRun(func(r *run) { r.Error = "" })},
		"unknown is not claimed":       {"unknown", eachClaimedNot(func(r run) bool { return r.Hold == workflow.HoldUnknown })},
		"all are unknown":              {"unknown-not", notesNothing},
		"what sleeps is unknown":       {"unknown-not", holdsSleeping},
		"who stops has known nothing":  {"unknown-not", forgetsNotes},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found := workflowtest.AgingViolations(t.Context(), func() workflowtest.AgingStore {
					b := newBroken()
					m.fault(b)
					return b
				}, m.clause)
				if found[m.clause] == nil {
					t.Errorf("clause %s accepts it", m.clause)
				}
			})
		})
	}
}

func earlier(e *entry, d time.Duration) {
	if !e.Due.IsZero() {
		e.Due = e.Due.Add(-d)
	}
}

func waitsDays(e *entry) {
	if e.Event != "" && e.After == 0 {
		e.After = 30 * 24 * time.Hour
	}
}

func noTimeout(e *entry) {
	if e.Event != "" {
		e.After = 0
	}
}

func deafBeats(b *broken) {
	n := 0
	eachRequest(func(q *request) {
		if q.Lease > 0 {
			n++
		}
		if q.Lease == 50*time.Second && n == 3 {
			q.Lease, q.From = 0, "a"
		}
	})(b)
}

// livesForever notes the definitions of a process again with each start.
func livesForever(b *broken) {
	var noted []request
	eachRequest(func(q *request) {
		if q.Lease > 0 {
			noted = append(noted, *q)
		}
	})(b)
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		for _, q := range noted {
			_, _, _ = b.Memory.Claim(ctx, q)
		}
		return start(ctx, runs)
	}
}

// notesEarly forgets the definitions of a process with the next one's.
func notesEarly(b *broken) {
	process := ""
	eachRequest(func(q *request) {
		if q.Lease > 0 && process != "" && q.Process != process {
			_, _, _ = b.Memory.Claim(context.Background(), request{
				Process: process, Nonce: "n", Lease: workflow.MaxDelay, MostCrashes: 1,
			})
		}
		process = q.Process
	})(b)
}

func daysOff(days int) fault {
	return eachNew(func(n *newRun) {
		if n.RetentionDays > 1 {
			n.RetentionDays += days
		}
	})
}

func keepsJournal(b *broken) {
	kept := make(map[string][]row)
	b.steps = listing(b.steps, func(id string, all []row) []row {
		if len(all) == 0 {
			return kept[id]
		}
		kept[id] = all
		return all
	})
	b.sweep = func(ctx context.Context, limit int) (int, error) {
		for _, r := range b.all(workflow.Query{}) {
			for _, err := range b.steps(ctx, r.ID) { // it is kept
				if err != nil {
					return 0, err
				}
			}
		}
		return b.Memory.Sweep(ctx, limit)
	}
}

func sweepsRunning(b *broken) {
	b.sweep = func(ctx context.Context, limit int) (int, error) {
		for _, r := range b.all(workflow.Query{Status: workflow.Running}) {
			if time.Since(r.Started) > time.Duration(r.RetentionDays)*24*time.Hour {
				_, _ = b.Memory.Send(ctx, []message{{Run: r.ID, Action: workflow.Cancel}})
			}
		}
		return b.Memory.Sweep(ctx, limit)
	}
}

func noLimit(b *broken) {
	b.sweep = func(ctx context.Context, _ int) (int, error) { return b.Memory.Sweep(ctx, 0) }
}

func one(sweep func(context.Context, int) (int, error)) func(context.Context, int) (int, error) {
	return func(ctx context.Context, _ int) (int, error) { return sweep(ctx, 1) }
}

func countsSwept(b *broken) {
	b.sweep = func(ctx context.Context, limit int) (int, error) {
		n, err := b.Memory.Sweep(ctx, limit)
		if n == 7 {
			n++
		}
		return n, err
	}
}

func nobody(context.Context, int) (int, error) { return 0, nil }

// eachClaimedNot claims nothing while there is such a run.
func eachClaimedNot(such func(run) bool) fault {
	return func(b *broken) {
		claim := b.claim
		b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
			for _, r := range b.all(workflow.Query{}) {
				if such(r) {
					return nil, 0, nil
				}
			}
			return claim(ctx, q)
		}
	}
}

// notesNothing claims with a lease as another way of claiming from an owner.
func notesNothing(b *broken) {
	eachRequest(func(q *request) {
		if q.Lease == workflow.MaxDelay {
			q.Definitions, q.Process = nil, "nobody"
		}
	})(b)
}

// holdsSleeping holds what is due later.
func holdsSleeping(b *broken) {
	b.sweep = func(ctx context.Context, limit int) (int, error) {
		n, err := b.Memory.Sweep(ctx, limit)
		for _, r := range b.all(workflow.Query{Status: workflow.Running}) {
			if r.Due.After(time.Now()) && time.Since(r.Started) > 24*time.Hour {
				_, _ = b.Memory.Send(ctx, []message{{Run: r.ID, Action: workflow.Pause}})
			}
		}
		return n, err
	}
}

// forgetsNotes holds at once what a process that stops has known.
func forgetsNotes(b *broken) {
	stopped := false
	eachRequest(func(q *request) { stopped = stopped || q.Lease > 0 && len(q.Definitions) == 0 })(b)
	eachRun(func(r *run) {
		if stopped && r.ID == "due" && r.Hold == "" {
			r.Hold = workflow.HoldUnknown
		}
	})(b)
}

// A slow store is a Memory in which one call at a time is under way. It knows the fence of each run.
type slow struct {
	*broken
	turn   chan struct{}
	fences map[string]lock.Fence
	skips  map[string]bool // the calls that do not wait
}

func newSlow(skips ...string) *slow {
	s := &slow{newBroken(), make(chan struct{}, 1), make(map[string]lock.Fence), make(map[string]bool)}
	for _, call := range skips {
		s.skips[call] = true
	}
	return s
}

// in waits for the call that is under way, and returns how to end this one.
func (s *slow) in(call string) (out func()) {
	if s.skips[call] {
		return func() {}
	}
	s.turn <- struct{}{}
	return func() { <-s.turn }
}

func (s *slow) Start(ctx context.Context, runs []newRun) ([]started, error) {
	defer s.in("Start")()
	for _, n := range runs {
		s.fences[n.ID] = n.Fence
	}
	return s.broken.Start(ctx, runs)
}

func (s *slow) Claim(ctx context.Context, q request) ([]claimed, duration, error) {
	defer s.in("Claim")()
	all, next, err := s.broken.Claim(ctx, q)
	for _, c := range all {
		s.fences[c.ID] = c.Fence
	}
	return all, next, err
}

func (s *slow) Write(ctx context.Context, entries []entry) ([]error, error) {
	defer s.in("Write")()
	return s.broken.Write(ctx, entries)
}

func (s *slow) Send(ctx context.Context, messages []message) ([]receipt, error) {
	was := s.run(messages[0].Run)
	defer s.in("Send")()
	receipts, err := s.broken.Send(ctx, messages)
	if err == nil && s.skips["look"] { // it tells what it saw before it waited
		switch {
		case receipts[0] == workflow.Over && was.Status == workflow.Running:
			receipts[0] = workflow.Kept
		case receipts[0] == workflow.Consumed && was.Event == "":
			receipts[0] = workflow.Kept
		}
	}
	return receipts, err
}

func (s *slow) Open(ctx context.Context, id string, c workflowtest.Change) (commit func() error, err error) {
	out := s.in("Open")
	return func() error {
		defer out()
		e := entry{Run: id, Fence: s.fences[id], Mail: -1}
		switch c {
		case workflowtest.Taken:
			all, _, err := s.Memory.Claim(ctx, request{
				Process: "taker", Nonce: "taken", From: s.run(id).Owner, MostCrashes: 1000, Limit: 1,
				Definitions: []workflow.Definition{{Workflow: "flow", Version: 1}},
			})
			for _, c := range all {
				s.fences[id] = c.Fence
			}
			return err
		case workflowtest.Mailed:
			m := message{Run: id, Action: workflow.Signal, ID: "open", Event: "e"}
			_, err := s.Memory.Send(ctx, []message{m})
			return err
		case workflowtest.Begun:
			_, err := s.Memory.Start(ctx, []newRun{{ID: "begun", Workflow: "flow", Version: 1, Parent: id}})
			return err
		case workflowtest.Parked:
			e.Next, e.Event = workflow.Park, "e"
		case workflowtest.Ended:
			e.Next, e.Status = workflow.End, workflow.Completed
		}
		_, err := s.Memory.Write(ctx, []entry{e})
		return err
	}, nil
}

func TestOpening(t *testing.T) {
	workflowtest.RunOpening(t, func(*testing.T) workflowtest.OpeningStore { return newSlow() })
}

// A store that does not wait for a change that is under way, or that tells what it saw before, is convicted.
func TestSuiteConvictsOpening(t *testing.T) {
	for clause, skips := range map[string]string{
		"open-write": "Write", "open-write-over": "Write", "open-write-mail": "Write", "open-signal-over": "look",
		"open-signal-wait": "look", "open-signal-mail": "Send", "open-signal-again": "Send", "open-cancel": "look",
		"open-claim": "Claim", "open-cancel-begun": "Send", "open-cancel-begun-deep": "Send",
		"open-child-over": "Start",
	} {
		t.Run(clause, func(t *testing.T) {
			t.Parallel()
			open := func() workflowtest.OpeningStore { return newSlow(skips) }
			if workflowtest.OpeningViolations(t.Context(), open, clause)[clause] == nil {
				t.Error("it is accepted")
			}
		})
	}
}
