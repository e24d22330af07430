package snapshottest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A DamagingStore can damage a run, as a manual change in the database or a lost block of its disk does. Only the tests
// of a backend know how to do so.
type DamagingStore interface {
	snapshot.Store

	// Damage changes the stored run of a session so that no store could have written it. The run is in flight.
	Damage(ctx context.Context, k snapshot.Key) error
}

// RunDamaged checks the clauses about damaged runs. newStore must return an empty store each time it is called.
func RunDamaged(t *testing.T, newStore func(t *testing.T) DamagingStore) {
	damageContract().Run(t, newStore)
}

func damageContract() suite.Clauses[DamagingStore] {
	return suite.Of(damageClauses, clauseOn[DamagingStore].bound)
}

var damageClauses = []clauseOn[DamagingStore]{
	{
		name: "listed",
		rule: "Runs yields a damaged run with a *DamagedError that names it, and goes on",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(40)
			bad := []string{all[0], all[1], all[15], all[16], all[22], all[39]}
			damage(p, s, bad...)
			p.wantDamaged(snapshot.Query{}, all, bad)
		},
	},
	{
		name: "listed-all",
		rule: "if every run is damaged, Runs names every one",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(20)
			damage(p, s, all...)
			p.wantDamaged(snapshot.Query{}, all, all)
		},
	},
	{
		name: "listed-alone",
		rule: "a query for one session yields its damaged run, and none for the session beside it",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(3)
			damage(p, s, all[1])
			for _, id := range all {
				p.wantDamaged(snapshot.Query{Key: snapshot.Key{Session: id}}, []string{id}, all[1:2])
			}
		},
	},
	{
		name: "listed-status",
		rule: "a damaged run hides no other run from a query for a status",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(9)
			var waiting []string
			for i, id := range all {
				if i%3 == 0 {
					continue
				}
				r := next(*p.inFlight(id))
				r.Status = snapshot.Waiting
				p.save(r)
				if i%3 == 1 {
					waiting = append(waiting, id)
				}
			}
			damage(p, s, all[2], all[5], all[8])
			for _, id := range waiting {
				if got, _ := p.listing(snapshot.Query{Status: snapshot.Waiting}); !slices.Contains(got, id) {
					fail("runs that wait: %q, want %q among them", got, id)
				}
			}
			if got, bad := p.listing(snapshot.Query{Status: snapshot.Waiting}); len(got)-len(bad) != len(waiting) {
				fail("runs that wait: %q, and %q damaged; want %q", got, bad, waiting)
			}
		},
	},
	{
		name: "listed-unattended",
		rule: "Unattended yields a damaged run that waits for no person, and goes on",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(40)
			for _, id := range all[20:22] {
				r := next(*p.inFlight(id))
				r.Status = snapshot.Suspended
				p.save(r)
			}
			damage(p, s, all[0], all[16], all[39])
			p.wantDamaged(snapshot.Query{Unattended: true}, slices.Concat(all[:20], all[22:]),
				[]string{all[0], all[16], all[39]})
		},
	},
	{
		name: "listed-page",
		rule: "After and Limit page through damaged runs as through others",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(11)
			damage(p, s, all[0], all[4], all[5], all[10])
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				page, _ := p.listing(snapshot.Query{After: after, Limit: 3})
				if len(page) == 0 {
					break
				}
				if len(page) > 3 {
					fail("a page of %d", len(page))
				}
				got = append(got, page...)
			}
			if !slices.Equal(got, all) {
				fail("pages hold %q, want %q", got, all)
			}
		},
	},
	{
		name: "listed-early",
		rule: "the loop over damaged runs may call the store, and may end early",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(3)
			damage(p, s, all...)
			for r, err := range p.store.Runs(p.ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: bot}}) {
				wantDamage(err, r.Session)
				if r.Session == all[1] {
					break
				}
				p.remove(r, fence(20))
			}
			p.wantDamaged(snapshot.Query{}, all[1:], all[1:])
		},
	},
	{
		name: "listed-brief",
		rule: "with Brief too Runs yields every run, damaged or not, and goes on",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(20)
			damage(p, s, all[0], all[7], all[19])
			if got, _ := p.listing(snapshot.Query{Brief: true}); !slices.Equal(got, all) {
				fail("runs of %q, want %q", got, all)
			}
		},
	},
	{
		name: "begin",
		rule: "Begin where a damaged run is in flight is a *DamagedError, and leaves the run where it is",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(2)
			damage(p, s, all[0])
			found, err := p.store.Begin(p.ctx, run(all[0], fence(20)))
			if wantDamage(err, all[0]); found != nil {
				fail("Begin returns run %q with its error", found.ID)
			}
			p.wantDamaged(snapshot.Query{}, all, all[:1])
		},
	},
	{
		name: "adopt",
		rule: "Adopt of a damaged run makes the fence its own: lower ones are fenced from then on",
		check: func(p *probe, s DamagingStore) {
			r := p.begun("a")
			damage(p, s, "a")
			p.takeDamaged(r.Key, fence(30))
			_, err := p.store.Adopt(p.ctx, r.Key, fence(20), 0)
			want(err, lock.ErrFenced)
			want(p.store.Delete(p.ctx, r.Key, r.ID, fence(20)), lock.ErrFenced)
			want(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence), lock.ErrFenced)
			if got, _ := p.listing(snapshot.Query{}); len(got) != 1 {
				fail("runs of %q, want the one of a", got)
			}
		},
	},
	{
		name: "delete",
		rule: "Adopt and Delete remove a damaged run: its fence is kept, and a later one begins",
		check: func(p *probe, s DamagingStore) {
			all := p.fleet(3)
			damage(p, s, all[1])
			kept := fence(30)
			listed, _ := p.first(all[1])
			p.remove(listed, kept)
			p.wantSessions(snapshot.Query{}, all[0], all[2])
			p.wantNone(all[1])
			for _, f := range []lock.Fence{fence(10), fence(29), kept} {
				_, err := p.store.Begin(p.ctx, run(all[1], f))
				want(err, lock.ErrFenced)
			}
			r := p.begin(run(all[1], fence(31)))
			p.wantRun(r)
			r = next(r)
			p.save(r)
			p.wantRun(r)
			p.wantSessions(snapshot.Query{}, all...)
		},
	},
	{
		name: "delete-parts",
		rule: "a damaged run that has parts is removed with them",
		check: func(p *probe, s DamagingStore) {
			p.parted("a", "one", "two")
			damage(p, s, "a")
			listed, _ := p.first("a")
			p.remove(listed, fence(30))
			r := p.begin(run("a", fence(31)))
			p.wantWhole(r)
		},
	},
}

// fleet begins n runs and returns their sessions, in order.
func (p *probe) fleet(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("s%02d", i)
		p.begun(ids[i])
	}
	return ids
}

func damage(p *probe, s DamagingStore, sessions ...string) {
	for _, id := range sessions {
		ok(s.Damage(p.ctx, key(id)))
	}
}

// listing returns the sessions of all runs that q selects, and the sessions of the damaged runs.
func (p *probe) listing(q snapshot.Query) (all, damaged []string) {
	q.Orchestrator = bot
	for r, err := range p.store.Runs(p.ctx, q) {
		if all = append(all, r.Session); err != nil {
			wantDamage(err, r.Session)
			damaged = append(damaged, r.Session)
		}
	}
	return all, damaged
}

// first returns the run that a query for session yields first.
func (p *probe) first(session string) (snapshot.Run, error) {
	for r, err := range p.store.Runs(p.ctx, snapshot.Query{Key: key(session)}) {
		return r, err
	}
	fail("no run of %q is listed", session)
	return snapshot.Run{}, nil
}

// wantDamaged compares the runs that q selects: their sessions, and which of the runs are damaged.
func (p *probe) wantDamaged(q snapshot.Query, all, damaged []string) {
	got, bad := p.listing(q)
	if !slices.Equal(got, all) {
		fail("runs of %q, want %q", got, all)
	}
	want := []string{}
	for _, id := range all {
		if slices.Contains(damaged, id) {
			want = append(want, id)
		}
	}
	if !slices.Equal(bad, want) {
		fail("damaged runs of %q, want %q", bad, want)
	}
}

// wantDamage shows that err is about one run, and names that run.
func wantDamage(err error, session string) {
	damage, is := errors.AsType[*snapshot.DamagedError](err)
	if !is || !errors.Is(err, snapshot.ErrDamaged) {
		fail("got error %v, want a *DamagedError", err)
		return
	}
	if damage.Key != key(session) || damage.Reason == "" {
		fail("the error names %+v because of %q, want session %q and a reason", damage.Key, damage.Reason, session)
	}
}

// takeDamaged adopts a damaged run. If only its fence was damaged, the run is whole from then on.
func (p *probe) takeDamaged(k snapshot.Key, f lock.Fence) snapshot.Run {
	r, err := p.store.Adopt(p.ctx, k, f, 0)
	if err != nil {
		wantDamage(err, k.Session)
	}
	if r.Key != k {
		fail("Adopt returns a run of %+v, want %+v", r.Key, k)
	}
	return r
}

// remove takes a damaged run over and deletes it.
func (p *probe) remove(r snapshot.Run, f lock.Fence) {
	id := p.takeDamaged(r.Key, f).ID
	if id == "" {
		id = "unknown"
	}
	ok(p.store.Delete(p.ctx, r.Key, id, f))
	ok(p.store.Delete(p.ctx, r.Key, id, f))
}
