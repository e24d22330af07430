package snapshottest

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

var saveClauses = []clause{
	{
		name: "save",
		rule: "Save replaces everything but when the run started",
		check: func(p *probe) {
			r := p.begun("a")
			started := p.inFlight("a").StartedAt
			r.Seq, r.RequestID, r.Turn, r.Attempt, r.Base = 5, "req", 3, 0, "base"
			r.Status, r.Error, r.Pause = snapshot.Waiting, "again later", 50*time.Hour
			r.Payload = json.RawMessage(`{"step":5,"more":[true]}`)
			p.save(r)
			p.wantRun(r)
			r.Seq, r.RequestID, r.Base, r.Error, r.Pause, r.Payload, r.Status = 6, "", "", "", 0, nil, snapshot.Running
			p.save(r)
			r.Payload = json.RawMessage(`{"step":5,"more":[true]}`)
			p.wantRun(r)
			got := p.inFlight("a")
			if !got.StartedAt.Equal(started) || got.SavedAt.Before(started) {
				fail("started at %v, then %v, saved at %v", started, got.StartedAt, got.SavedAt)
			}
		},
	},
	{
		name: "save-never-creates",
		rule: "Save of a run that is not in flight is ErrFenced, and creates none",
		check: func(p *probe) {
			want(p.store.Save(p.ctx, next(run("a", fence(10)))), lock.ErrFenced)
			p.wantNone("a")
			r := p.begun("a")
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			want(p.store.Save(p.ctx, next(r)), lock.ErrFenced)
			p.wantNone("a")
			other := run("a", fence(11))
			other.ID = "other"
			p.begin(other)
			r.Fence = other.Fence
			want(p.store.Save(p.ctx, next(r)), lock.ErrFenced)
			p.wantRun(other)
		},
	},
	{
		name: "save-very-fence",
		rule: "Save wants exactly the run's fence: no lower or higher one, no other nonce, also if Seq does not grow",
		check: func(p *probe) {
			r := p.begun("a")
			for _, f := range []lock.Fence{fence(9), fence(10), fence(11)} {
				for _, seq := range []int64{0, 1} {
					forged := r
					forged.Fence, forged.Seq = f, seq
					want(p.store.Save(p.ctx, forged), lock.ErrFenced)
				}
			}
			p.wantRun(r)
		},
	},
	{
		name: "save-seq",
		rule: "a Seq that does not grow changes nothing and is no error",
		check: func(p *probe) {
			r := p.begun("a")
			r = next(next(r))
			p.save(r)
			for _, seq := range []int64{2, 1, 0} {
				late := r
				late.Seq, late.Payload, late.Status = seq, json.RawMessage(`"late"`), snapshot.Waiting
				p.save(late)
				p.wantRun(r)
			}
			p.save(next(r))
		},
	},
	{
		name: "save-ended",
		rule: "what was told as ended stays ended: only its repeat is no error",
		check: func(p *probe) {
			r := p.begun("a")
			r = next(r)
			r.Status = snapshot.Ended
			p.save(r)
			p.save(r)
			again := next(r)
			again.Status = snapshot.Running
			want(p.store.Save(p.ctx, again), lock.ErrFenced)
			p.wantRun(r)
			found, err := p.store.Begin(p.ctx, run("a", fence(20)))
			ok(err)
			if found == nil || found.Status != snapshot.Ended {
				fail("Begin finds %+v", found)
			}
		},
	},
	{
		name: "aliasing",
		rule: "nothing that goes in or comes out aliases what is stored",
		check: func(p *probe) {
			spoil := func(r snapshot.Run) { r.Payload[len(r.Payload)-2] = '9' }
			r := run("a", fence(10))
			kept := r
			kept.Payload = json.RawMessage(`{"step":0}`)
			p.begin(r)
			spoil(r)
			found, err := p.store.Begin(p.ctx, run("a", fence(20)))
			ok(err)
			spoil(*found)
			spoil(*p.inFlight("a"))
			spoil(p.adopt(kept, kept.Fence, 3))
			p.wantRun(kept)
			saved := next(kept)
			p.save(saved)
			spoil(saved)
			kept = next(kept)
			p.wantRun(kept)
		},
	},
}

var deleteClauses = []clause{
	{
		name: "delete",
		rule: "Delete forgets the run, and is no error when it is repeated or nothing is in flight",
		check: func(p *probe) {
			r, other := p.begun("a"), p.begun("b")
			for range 2 {
				ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
				p.wantNone("a")
			}
			ok(p.store.Delete(p.ctx, key("nobody"), "run", fence(1)))
			p.wantRun(other)
			p.begin(run("a", fence(11)))
		},
	},
	{
		name: "delete-id",
		rule: "Delete with another run's id changes nothing and is no error, under any fence",
		check: func(p *probe) {
			r := p.begun("a")
			ok(p.store.Delete(p.ctx, r.Key, "other", r.Fence))
			ok(p.store.Delete(p.ctx, r.Key, "other", fence(99)))
			ok(p.store.Delete(p.ctx, key("b"), r.ID, r.Fence))
			p.wantRun(r)
		},
	},
	{
		name: "delete-very-fence",
		rule: "Delete wants the run's very fence: a higher one has to adopt first",
		check: func(p *probe) {
			r := p.begun("a")
			for _, f := range []lock.Fence{fence(9), fence(10), fence(11)} {
				want(p.store.Delete(p.ctx, r.Key, r.ID, f), lock.ErrFenced)
			}
			p.wantRun(r)
			f := fence(11)
			p.adopt(r, f, 0)
			want(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence), lock.ErrFenced)
			ok(p.store.Delete(p.ctx, r.Key, r.ID, f))
			p.wantNone("a")
		},
	},
}
