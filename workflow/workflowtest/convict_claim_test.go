package workflowtest_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

type (
	newRun   = workflow.NewRun
	started  = workflow.Started
	request  = workflow.ClaimRequest
	claimed  = workflow.Claimed
	duration = time.Duration
)

func TestSuiteConvictsStart(t *testing.T) {
	convict(t, map[string]mutant{
		"the input is lost":         {"start", eachNew(func(n *newRun) { n.Input = nil })},
		"the owner is forgotten":    {"start-owned", eachNew(func(n *newRun) { n.Owner = "" })},
		"a repeat is new":           {"start-again", isNew},
		"a repeat is an error":      {"start-again", noRepeat},
		"a key of a run that ended": {"start-key", keyOfRunning},
		"a key is of all workflows": {"start-key-scope", globalKeys},
		"keys have no case":         {"start-key-scope", eachNew(func(n *newRun) { n.Key = string(bytes.ToLower([]byte(n.Key))) })},
		"a key forgets its input":   {"start-reused", anyInput},
		"one of two is added":       {"start-reused", oneByOne},
		"results are in any order":  {"start-several", reversed},
		"at most 100":               {"start-many", func(b *broken) { b.start = atMost(b.start) }},
		"a version is 1":            {"start-version", eachNew(func(n *newRun) { n.Version = max(n.Version, 1) })},
		"living processes are not asked": {"start-version", eachRequest(func(q *request) {
			if q.Lease == workflow.MaxDelay {
				q.Lease, q.MostCrashes, q.Limit = 0, 0, 0
			}
		})},
		"a process lives for ever": {"start-version", eachRequest(func(q *request) {
			if len(q.Definitions) == 0 {
				q.Process = "another"
			}
		})},
		"a delay is none":         {"start-delay", eachNew(func(n *newRun) { n.Delay = 0 })},
		"a retention has no cap":  {"start-retention", eachRun(func(r *workflow.Run) { r.RetentionDays = max(r.RetentionDays, 1e9) })},
		"a retention is ignored":  {"start-retention", eachNew(func(n *newRun) { n.RetentionDays = 0 })},
		"a start looks, and adds": {"race-start", looksForKey},
	})
}

func isNew(b *broken) {
	b.start = after(b.start, func(_ *newRun, s *started) { s.New = true })
}

func noRepeat(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		for _, n := range runs {
			if b.run(n.ID).ID != "" {
				return nil, errors.New("duplicate key")
			}
		}
		return start(ctx, runs)
	}
}

func keyOfRunning(b *broken) {
	b.start = before(b.start, func(n *newRun) {
		for _, r := range b.all(workflow.Query{}) {
			if r.Key == n.Key && r.Status.Over() {
				n.Key = ""
			}
		}
	})
}

func globalKeys(b *broken) {
	b.start = before(b.start, func(n *newRun) {
		for _, r := range b.all(workflow.Query{}) {
			if r.Key == n.Key && n.Key != "" {
				n.ID, n.Workflow, n.Input = r.ID, r.Workflow, r.Input
			}
		}
	})
}

func anyInput(b *broken) {
	b.start = before(b.start, func(n *newRun) {
		for _, r := range b.all(workflow.Query{}) {
			if r.ID == n.ID || r.Key == n.Key && n.Key != "" {
				n.Input = r.Input
			}
		}
	})
}

func oneByOne(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) (all []started, err error) {
		for _, n := range runs {
			one, err := start(ctx, []newRun{n})
			if err != nil {
				return all, err
			}
			all = append(all, one...)
		}
		return all, nil
	}
}

func reversed(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		all, err := start(ctx, runs)
		for i := range len(all) / 2 {
			all[i], all[len(all)-1-i] = all[len(all)-1-i], all[i]
		}
		return all, err
	}
}

func atMost[T, R any](call func(context.Context, []T) ([]R, error)) func(context.Context, []T) ([]R, error) {
	return func(ctx context.Context, all []T) ([]R, error) {
		some, err := call(ctx, all[:min(len(all), 100)])
		return append(some, make([]R, len(all)-len(some))...), err
	}
}

func looksForKey(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
		n := runs[0]
		for _, r := range b.all(workflow.Query{Workflow: n.Workflow}) {
			if r.Key == n.Key {
				return []started{{ID: r.ID, Version: r.Version, Status: r.Status}}, nil
			}
		}
		runtime.Gosched()
		n.Key += n.ID
		return start(ctx, []newRun{n})
	}
}

func TestSuiteConvictsClaim(t *testing.T) {
	convict(t, map[string]mutant{
		"two owners":                  {"claim", twoOwners},
		"the input is not read":       {"claim", eachClaimed(func(c *claimed) { c.Input = nil })},
		"mail is not told":            {"claim", eachClaimed(func(c *claimed) { c.Mail = 0 })},
		"the clock is not told":       {"claim", eachClaimed(func(c *claimed) { c.Now = time.Time{} })},
		"all definitions":             {"claim-definitions", allDefinitions},
		"the limit is ignored":        {"claim-order", eachRequest(func(q *request) { q.Limit = 1000 })},
		"the youngest first":          {"claim-order-due", youngestFirst},
		"next is not told":            {"claim-next", next(func(duration) duration { return 0 })},
		"next is in milliseconds":     {"claim-next", next(func(d duration) duration { return d / 1000 })},
		"next is of all":              {"claim-next", nextOfAll},
		"no fence":                    {"write-fenced", fences(func(e *workflow.Entry, f lock.Fence) { e.Fence = f })},
		"no nonce":                    {"write-fenced", fences(func(e *workflow.Entry, f lock.Fence) { e.Fence.Nonce = f.Nonce })},
		"no epoch":                    {"claim-fence", fences(sameNonce)},
		"a wait outlives its claim":   {"claim-wait", consumesOwned},
		"held runs are due":           {"claim-held", resumesHeld},
		"what is over is claimed":     {"claim-over", claimsOver},
		"From takes what is due":      {"claim-from", fromDue},
		"From takes all":              {"claim-from", fromAll},
		"Again takes all of a nonce":  {"claim-again", againOfAnybody},
		"Again takes all of its own":  {"claim-again", eachRequest(func(q *request) { againIsFrom(q) })},
		"Again knows no start":        {"claim-again-start", eachRequest(func(q *request) { forgetsStart(q) })},
		"Again counts as a crash":     {"claim-again-left", againCrashes},
		"a lease is over at once":     {"claim-lease", eachRequest(func(q *request) { q.Lease = min(q.Lease, 1) })},
		"a lease never ends":          {"claim-lease", noLease},
		"beats do not matter":         {"claim-lease-beats", leaseFromA},
		"crashes are not counted":     {"crashes", eachRequest(func(q *request) { q.MostCrashes *= 1000 })},
		"one crash too many":          {"crashes", eachRequest(func(q *request) { q.MostCrashes++ })},
		"a lease is no crash":         {"crashes-lease", eachRequest(func(q *request) { leaseIsNoCrash(q) })},
		"progress does not count":     {"crashes-progress", countsCrashes(false, true)},
		"a try is progress":           {"crashes-tries", eachRow(func(s *workflow.Step) { triesAreRows(s) })},
		"Resume forgets no crash":     {"crashes-resumed", countsCrashes(true, true)},
		"a claim is a crash":          {"crashes-none", countsCrashes(true, false)},
		"a claim looks, then takes":   {"race-claim", looksForDue},
		"a crash does not say so":     {"crashes", eachRun(func(r *workflow.Run) { r.Error = "" })},
		"what is crashed has its due": {"crashes", eachRun(func(r *workflow.Run) { r.Due = r.Started })},
	})
}

// twoOwners gives away what a owns too.
func twoOwners(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		if err == nil && len(all) == 0 && q.From == "" && q.Again == "" && q.Lease == 0 {
			q.From, q.MostCrashes = "a", 1000
			return claim(ctx, q)
		}
		return all, next, err
	}
}

func allDefinitions(b *broken) {
	eachRequest(func(q *request) {
		for _, r := range b.all(workflow.Query{}) {
			q.Definitions = append(q.Definitions, workflow.Definition{Workflow: r.Workflow, Version: r.Version})
		}
	})(b)
}

// youngestFirst puts the time of the start in place of that when a run is due.
func youngestFirst(b *broken) {
	b.write = before(b.write, func(e *workflow.Entry) {
		if e.Next == workflow.Park && e.After == 1 {
			e.After, e.Due = 0, b.run(e.Run).Started
		}
	})
}

func next(change func(duration) duration) fault {
	return func(b *broken) {
		claim := b.claim
		b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
			all, next, err := claim(ctx, q)
			return all, change(next), err
		}
	}
}

func nextOfAll(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		for _, r := range b.all(workflow.Query{Status: workflow.Running}) {
			if in := time.Until(r.Due); in > 0 && in < next {
				next = in
			}
		}
		return all, next, err
	}
}

// fences changes the fence of an entry as one who knows that of the owner.
func fences(change func(e *workflow.Entry, owner lock.Fence)) fault {
	return func(b *broken) {
		var mu sync.Mutex
		owners := make(map[string]lock.Fence)
		claim, start := b.claim, b.start
		b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
			all, next, err := claim(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			for _, c := range all {
				owners[c.ID] = c.Fence
			}
			return all, next, err
		}
		b.start = func(ctx context.Context, runs []newRun) ([]started, error) {
			all, err := start(ctx, runs)
			mu.Lock()
			defer mu.Unlock()
			for i, s := range all {
				if s.New {
					owners[s.ID] = runs[i].Fence
				}
			}
			return all, err
		}
		eachEntry(func(e *workflow.Entry) {
			mu.Lock()
			defer mu.Unlock()
			if f := owners[e.Run]; f.Nonce != "" && e.Next != workflow.Record {
				change(e, f)
			}
		})(b)
	}
}

func sameNonce(e *workflow.Entry, owner lock.Fence) {
	if e.Fence.Nonce == owner.Nonce {
		e.Fence = owner
	}
}

func consumesOwned(b *broken) {
	eachReceipt(func(m *workflow.Message, r *workflow.Receipt) {
		if *r == workflow.Kept && b.run(m.Run).Owner == "b" {
			*r = workflow.Consumed
		}
	})(b)
}

func resumesHeld(b *broken) {
	eachRequest(func(*request) {
		for _, r := range b.all(workflow.Query{}) {
			if r.Hold == workflow.Crashed {
				_, _ = b.Memory.Send(context.Background(), []workflow.Message{{Run: r.ID, Action: workflow.Resume}})
			}
		}
	})(b)
}

func claimsOver(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		for _, r := range b.all(workflow.Query{Status: workflow.Cancelled}) {
			r.Status, r.Owner = workflow.Running, q.Process
			all = append(all, claimed{Run: r, Fence: lock.Fence{Epoch: 9, Nonce: q.Nonce}, Now: r.Started})
		}
		return all, next, err
	}
}

func fromDue(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		if err == nil && q.From != "" && len(all) < q.Limit {
			q.From, q.MostCrashes, q.Limit = "", 0, q.Limit-len(all)
			more, _, err := claim(ctx, q)
			return append(all, more...), 0, err
		}
		return all, next, err
	}
}

func fromAll(b *broken) {
	eachRequest(func(q *request) {
		if q.From == "a" {
			q.From, q.Lease = "", 1
		}
	})(b)
}

func againOfAnybody(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		if err == nil && q.Again != "" && len(all) == 0 {
			me := q.Process
			q.Process = "a"
			all, next, err = claim(ctx, q)
			for i := range all {
				all[i].Owner = me
			}
		}
		return all, next, err
	}
}

func againIsFrom(q *request) {
	if q.Again != "" {
		q.Again, q.From, q.MostCrashes = "", q.Process, 1000
	}
}

func forgetsStart(q *request) {
	if len(q.Again) > 9 && q.Again[:9] == "start of " {
		q.Again = "forgotten"
	}
}

func againCrashes(b *broken) {
	n := 0
	eachRequest(func(q *request) {
		if q.Again != "" {
			n++
		}
		if q.From != "" && n >= q.MostCrashes {
			q.MostCrashes = 1
		}
	})(b)
}

func noLease(b *broken) {
	eachRequest(func(q *request) {
		if q.Lease > 0 && q.Lease < time.Minute {
			q.Lease = time.Hour
		}
	})(b)
}

// leaseFromA suspects a as soon as the lease of its runs is over.
func leaseFromA(b *broken) {
	began := time.Now()
	eachRequest(func(q *request) {
		if q.Lease > 0 && time.Since(began) > q.Lease {
			q.Lease, q.From = 0, "a"
		}
	})(b)
}

func leaseIsNoCrash(q *request) {
	if q.Lease > 0 {
		q.MostCrashes = math.MaxInt
	}
}

// countsCrashes counts the owners of all runs. It may begin anew with a row that is done, and leave out claims of what
// was given back.
func countsCrashes(progress, plain bool) fault {
	return func(b *broken) {
		n := 0
		eachRequest(func(q *request) {
			if !plain || q.From != "" {
				n++
			}
			if q.From != "" && n >= q.MostCrashes {
				q.MostCrashes = 1
			}
		})(b)
		eachRow(func(s *workflow.Step) {
			if progress && s.Outcome == workflow.Done {
				n = 0
			}
		})(b)
	}
}

func triesAreRows(s *workflow.Step) {
	if s.Outcome == workflow.Retrying {
		s.Outcome = workflow.Open
	}
}

// looksForDue claims a run that it has seen due, whoever owns it by then.
func looksForDue(b *broken) {
	claim := b.claim
	b.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		seen := ""
		for _, r := range b.all(workflow.Query{}) {
			if r.Owner == "" {
				seen = r.ID
			}
		}
		runtime.Gosched()
		if now := b.run(seen); now.Owner != "" {
			q.From, q.MostCrashes = now.Owner, 1000
		}
		return claim(ctx, q)
	}
}
