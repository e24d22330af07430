package snapshottest

import (
	"errors"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

var keptClauses = []clause{
	{
		name: "begin-late",
		rule: "Delete keeps the fence: Begin with a lower epoch, or with an equal one and another nonce, is ErrFenced",
		check: func(p *probe) {
			r, f := p.ended("a")
			for _, low := range []lock.Fence{fence(1), r.Fence, fence(19), fence(20)} {
				p.wantLate(run("a", low))
				again := r
				again.Fence = low
				p.wantLate(again)
			}
			p.begin(run("a", lock.Fence{Epoch: f.Epoch + 1, Nonce: f.Nonce}))
		},
	},
	{
		name: "begin-copy",
		rule: "a Begin under the fence that deleted the run is ErrFenced, with any id; a higher fence begins",
		check: func(p *probe) {
			r := p.begun("a")
			r = next(r)
			r.Status = snapshot.Ended
			p.save(r)
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			first := r
			first.Seq, first.Status = 0, snapshot.Running
			p.wantLate(first)
			p.wantLate(first)

			other := run("a", r.Fence)
			other.ID = "another"
			p.wantLate(other)
			first.Fence = fence(11)
			p.begin(first)
			p.wantRun(first)
		},
	},
	{
		name: "begin-found",
		rule: "a Begin that found a run never begins, nor does one without a higher fence; the run's owner goes on",
		check: func(p *probe) {
			found := func(r snapshot.Run, by lock.Fence) snapshot.Run {
				late := run("a", by)
				late.ID = "late"
				in, err := p.store.Begin(p.ctx, late)
				if ok(err); in == nil || in.ID != r.ID {
					fail("Begin finds %v, want %s", in, r.ID)
				}
				return late
			}
			r := p.begun("a")
			late := found(r, fence(20))
			found(r, fence(15))
			r = next(r)
			p.save(r)
			p.wantRun(r)
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			p.wantLate(late)
			p.wantLate(run("a", fence(20)))
			p.wantLate(run("a", fence(11)))

			r = p.begin(run("a", fence(21)))
			late = found(r, fence(30))
			r = p.adopt(r, fence(30), 5)
			if want := run("a", fence(1)).Attempt + 1; r.Attempt != want {
				fail("a run that Begin has found, and is adopted, has %d attempts, want %d", r.Attempt, want)
			}
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			p.wantLate(late)

			r = p.begin(run("a", fence(31)))
			late = found(r, fence(50))
			r = p.adopt(r, fence(40), 5)
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			_, err := p.store.Adopt(p.ctx, r.Key, fence(45), 5)
			want(err, snapshot.ErrNotFound)
			p.wantLate(late)
			p.begin(run("a", fence(51)))
		},
	},
	{
		name: "adopt-late",
		rule: "Adopt with a fence below the kept fence is ErrFenced, and with that fence or a higher one ErrNotFound",
		check: func(p *probe) {
			r, f := p.ended("a")
			for _, kept := range []lock.Fence{f, fence(21)} {
				for _, attempts := range []int{0, 3} {
					for _, low := range []lock.Fence{r.Fence, fence(19), fence(20)} {
						_, err := p.store.Adopt(p.ctx, r.Key, low, attempts)
						want(err, lock.ErrFenced)
					}
					_, err := p.store.Adopt(p.ctx, r.Key, kept, attempts)
					want(err, snapshot.ErrNotFound)
				}
			}
			p.wantNone("a")
		},
	},
	{
		name: "save-late",
		rule: "Save of a run that was deleted is ErrFenced, under any fence, and creates none",
		check: func(p *probe) {
			r, f := p.ended("a")
			for _, other := range []lock.Fence{r.Fence, fence(19), fence(20), f, fence(21)} {
				late := next(r)
				late.Fence = other
				want(p.store.Save(p.ctx, late), lock.ErrFenced)
			}
			p.wantNone("a")
		},
	},
	{
		name: "delete-late",
		rule: "Delete with a fence lower than the session's is ErrFenced, run in flight or not, with any id",
		check: func(p *probe) {
			r, f := p.ended("a")
			deletes := func(inFlight string) {
				for _, id := range []string{r.ID, "other", inFlight} {
					for _, low := range []lock.Fence{r.Fence, fence(19), {Epoch: f.Epoch, Nonce: "forged"}} {
						want(p.store.Delete(p.ctx, r.Key, id, low), lock.ErrFenced)
					}
				}
			}
			deletes("nothing")
			for _, id := range []string{r.ID, "other"} {
				ok(p.store.Delete(p.ctx, r.Key, id, f))
				ok(p.store.Delete(p.ctx, r.Key, id, fence(99)))
			}
			other := p.begin(run("a", fence(21)))
			deletes(other.ID)
			want(p.store.Delete(p.ctx, r.Key, r.ID, f), lock.ErrFenced)
			p.wantRun(other)
		},
	},
	{
		name: "kept-highest",
		rule: "the fence that is kept is the highest that a run of the session has had, across Adopt and Delete",
		check: func(p *probe) {
			r := p.begun("a")
			p.adopt(r, fence(20), 5)
			f := fence(30)
			p.adopt(r, f, 5)
			_, err := p.store.Adopt(p.ctx, r.Key, fence(25), 5)
			want(err, lock.ErrFenced)
			ok(p.store.Delete(p.ctx, r.Key, r.ID, f))
			p.wantLate(run("a", fence(29)))
			second := p.begin(run("a", fence(31)))
			ok(p.store.Delete(p.ctx, second.Key, second.ID, second.Fence))
			for _, low := range []lock.Fence{r.Fence, f, fence(30), fence(31)} {
				p.wantLate(run("a", low))
			}
			p.begin(run("a", fence(32)))
		},
	},
	{
		name: "kept-adopt",
		rule: "an Adopt that finds no run keeps its fence: Begin with it or with a lower one is ErrFenced from then on",
		check: func(p *probe) {
			f := fence(20)
			adopts := func(f lock.Fence) {
				_, err := p.store.Adopt(p.ctx, key("a"), f, 3)
				want(err, snapshot.ErrNotFound)
				p.wantNone("a")
			}
			adopts(f)
			adopts(f)
			for _, low := range []lock.Fence{fence(10), fence(19), fence(20)} {
				p.wantLate(run("a", low))
				_, err := p.store.Adopt(p.ctx, key("a"), low, 0)
				want(err, lock.ErrFenced)
				want(p.store.Delete(p.ctx, key("a"), "run", low), lock.ErrFenced)
			}
			p.wantLate(run("a", f))
			r := p.begin(run("a", fence(21)))
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			adopts(r.Fence)
			adopts(fence(30))
			p.wantLate(run("a", fence(30)))
			r.Fence = fence(31)
			p.begin(r)
			p.wantRun(r)
		},
	},
	{
		name: "kept-asked",
		rule: "Save and Delete that find no run keep no fence",
		check: func(p *probe) {
			ok(p.store.Delete(p.ctx, key("a"), "run", fence(99)))
			want(p.store.Save(p.ctx, next(run("a", fence(99)))), lock.ErrFenced)
			r := p.begun("a")
			ok(p.store.Delete(p.ctx, r.Key, "other", fence(99)))
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			ok(p.store.Delete(p.ctx, r.Key, r.ID, fence(99)))
			p.begin(run("a", fence(11)))
		},
	},
	{
		name: "kept-separate",
		rule: "each session keeps its own fence, also under names that join to the same text",
		check: func(p *probe) {
			keys := []snapshot.Key{
				{Orchestrator: "o", Session: "s"},
				{Orchestrator: "os", Session: "s"},
				{Orchestrator: "o", Session: "ss"},
				{Orchestrator: "o/s", Session: "s"},
				{Orchestrator: "o", Session: "s/s"},
				{Orchestrator: "o", Session: "s:s"},
			}
			for i, k := range keys {
				r := run("x", fence(int64(len(keys)-i)))
				r.Key, r.ID = k, r.ID+k.Orchestrator+" "+k.Session
				p.begin(r)
				ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
				p.wantLateAt(r)
			}
		},
	},
	{
		name: "kept-unseen",
		rule: "what is kept of a session without a run in flight is in no list",
		check: func(p *probe) {
			p.ended("a")
			r := p.begun("b")
			p.wantSessions(snapshot.Query{}, "b")
			p.wantSessions(snapshot.Query{Key: key("a")})
			p.wantSessions(snapshot.Query{Limit: 1}, "b")
			for _, status := range []snapshot.Status{
				snapshot.Waiting, snapshot.Suspended, snapshot.Parked, snapshot.Ended,
			} {
				p.wantSessions(snapshot.Query{Status: status})
			}
			p.wantSessions(snapshot.Query{Status: r.Status}, "b")
		},
	},
}

var keptRaceClauses = []clause{
	{
		name: "late-begin-race",
		rule: "a Begin racing Adopt and Delete of a higher fence finds the run or is ErrFenced, and leaves no run",
		check: func(p *probe) {
			for n := range int64(races) {
				r := p.begin(run("a", fence(10+3*n)))
				late, f := run("a", fence(11+3*n)), fence(12+3*n)
				var found *snapshot.Run
				var begun, adopted, deleted error
				together(
					func() { found, begun = p.store.Begin(p.ctx, late) },
					func() {
						if _, adopted = p.store.Adopt(p.ctx, r.Key, f, 5); adopted == nil {
							deleted = p.store.Delete(p.ctx, r.Key, r.ID, f)
						}
					})
				ok(errors.Join(adopted, deleted))
				p.wantNone("a")
				p.wantFoundOrLate(found, begun, r)
			}
		},
	},
	{
		name: "adopt-kept-race",
		rule: "of a Begin and an Adopt with a higher fence, the Adopt takes the run over, or the Begin is ErrFenced",
		check: func(p *probe) {
			for n := range int64(races) {
				r, f := run("a", fence(10+2*n)), fence(11+2*n)
				var found *snapshot.Run
				var begun, adopted error
				together(
					func() { found, begun = p.store.Begin(p.ctx, r) },
					func() { _, adopted = p.store.Adopt(p.ctx, r.Key, f, 5) })
				if found != nil {
					fail("Begin of %s finds %s in flight", r.ID, found.ID)
				}
				if errors.Is(adopted, snapshot.ErrNotFound) {
					want(begun, lock.ErrFenced)
					p.wantNone("a")
					continue
				}
				ok(errors.Join(begun, adopted))
				ok(p.store.Delete(p.ctx, r.Key, r.ID, f))
			}
		},
	},
	{
		name: "begin-copy-race",
		rule: "copies of a Begin that race the Delete of their run find it or are ErrFenced, and leave none in flight",
		check: func(p *probe) {
			for n := range int64(races) {
				r := p.begin(run("a", fence(10+n)))
				found, begun := make([]*snapshot.Run, 2), make([]error, 2)
				var deleted error
				together(
					func() { found[0], begun[0] = p.store.Begin(p.ctx, r) },
					func() { found[1], begun[1] = p.store.Begin(p.ctx, r) },
					func() { deleted = p.store.Delete(p.ctx, r.Key, r.ID, r.Fence) })
				ok(deleted)
				p.wantNone("a")
				for i := range found {
					p.wantFoundOrLate(found[i], begun[i], r)
				}
			}
		},
	},
}

// ended begins a run of epoch 10, adopts it under a fence of epoch 20, and deletes it.
func (p *probe) ended(session string) (begun snapshot.Run, deletedBy lock.Fence) {
	r, f := p.begun(session), fence(20)
	p.adopt(r, f, 3)
	ok(p.store.Delete(p.ctx, r.Key, r.ID, f))
	return r, f
}

// wantLate shows that Begin of r is ErrFenced and leaves nothing in flight.
func (p *probe) wantLate(r snapshot.Run) {
	p.wantLateAt(r)
	p.wantNone(r.Session)
}

func (p *probe) wantLateAt(r snapshot.Run) {
	found, err := p.store.Begin(p.ctx, r)
	if !errors.Is(err, lock.ErrFenced) || found != nil {
		fail("a late Begin of %s under %v returns %+v and %v, want %v", r.ID, r.Fence, found, err, lock.ErrFenced)
	}
}

// wantFoundOrLate shows that a Begin which must not begin has found r, or was refused as too late.
func (p *probe) wantFoundOrLate(found *snapshot.Run, err error, r snapshot.Run) {
	switch {
	case found != nil:
		ok(err)
		if found.ID != r.ID {
			fail("Begin finds %s, want %s", found.ID, r.ID)
		}
	default:
		want(err, lock.ErrFenced)
	}
}
