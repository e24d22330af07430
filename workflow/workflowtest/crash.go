package workflowtest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// A loser claims a run again and again from an owner that has lost it.
type loser struct {
	*probe
	run  string
	n    int // of owners so far
	most int
}

// lose lets n owners lose the run, each of which the next one gets. It returns the fence of the last.
func (l *loser) lose(n int) (f lock.Fence) {
	for range n {
		f = l.claimed(l.run, l.next()).Fence
	}
	return f
}

func (l *loser) next() workflow.ClaimRequest {
	l.n++
	q := from(fmt.Sprint("p", l.n), fmt.Sprint("p", l.n-1))
	q.MostCrashes = l.most
	return q
}

// loses starts a run that p0 owns, and which most owners may lose.
func (p *probe) loses(id string, most int) *loser {
	n := owned(id)
	n.Owner = "p0"
	p.start(n)
	return &loser{probe: p, run: id, most: most}
}

// wantHeld lets one more owner lose the run, which is held then.
func (l *loser) wantHeld() {
	l.wantNone(l.next())
	r := l.probe.run(l.run)
	if r.Hold != workflow.Crashed || r.Error != workflow.CrashError(l.most) || r.Owner != "" || !r.Due.IsZero() ||
		r.Status != workflow.Running {
		fail("a run that %d owners have lost is %s", l.most, text(r))
	}
}

var crashClauses = []clause{
	{
		name: "crashes",
		rule: "a run that MostCrashes owners have lost in a row without progress is held as crashed, and its owner " +
			"fenced",
		check: func(p *probe, _ workflow.Store) {
			l := p.loses("r", 3)
			f := l.lose(2)
			l.wantHeld()
			want(p.verdict(entry("r", f, workflow.Stay, done("s"))), lock.ErrFenced)
			p.wantNone(plain("b"), from("b", "p3"), from("b", "p2"))
			one := p.loses("one", 1)
			one.wantHeld()
		},
	},
	{
		name: "crashes-lease",
		rule: "a run that is lost by leases is held as crashed like one that is claimed from its owner",
		check: func(p *probe, _ workflow.Store) {
			l := p.loses("r", 2)
			q := lease("p1", 1)
			q.MostCrashes = 2
			p.soon("r", q)
			l.n = 1
			l.wantHeld()
			l = p.loses("other", 2)
			l.lose(1)
			for p.run("other").Hold == "" {
				p.wantNone(q)
				ok(p.ctx.Err())
			}
		},
	},
	{
		name: "crashes-progress",
		rule: "a row that a step has left since is progress, and the count begins anew",
		check: func(p *probe, _ workflow.Store) {
			l := p.loses("r", 3)
			for i := range 3 {
				f := l.lose(2)
				p.write(entry("r", f, workflow.Stay, done(fmt.Sprint("s", i))))
			}
			l.lose(2)
			l.wantHeld()
		},
	},
	{
		name: "crashes-tries",
		rule: "the rows of a step that is tried again, and late rows, are no progress",
		check: func(p *probe, _ workflow.Store) {
			l := p.loses("r", 3)
			f := l.lose(1)
			st := done("s")
			st.Outcome, st.Output, st.Error = workflow.Retrying, nil, "once more"
			p.write(entry("r", f, workflow.Stay, st))
			l.lose(1)
			p.write(entry("r", lock.Fence{}, workflow.Record, done("late")))
			l.wantHeld()
		},
	},
	{
		name: "crashes-resumed",
		rule: "after Resume a run is due, and its crashes are counted from the first",
		check: func(p *probe, _ workflow.Store) {
			l := p.loses("r", 2)
			l.lose(1)
			l.wantHeld()
			p.act("r", workflow.Resume)
			p.claimed("r", plain(fmt.Sprint("p", l.n)))
			l.lose(1)
			l.wantHeld()
		},
	},
	{
		name: "crashes-none",
		rule: "a claim of a run that was given back counts no crash",
		check: func(p *probe, _ workflow.Store) {
			l := p.loses("r", 2)
			f := owned("r").Fence
			for range 4 {
				p.write(later("r", f, 1))
				f = p.claimed("r", plain("p0")).Fence
			}
			l.lose(1)
			l.wantHeld()
		},
	},
}
