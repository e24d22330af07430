package snapshottest

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

var beginClauses = []clause{
	{
		name: "begin",
		rule: "Begin stores the run as it is given, with the store's time",
		check: func(p *probe) {
			r := run("a", fence(10))
			r.RequestID, r.Turn, r.Base, r.Error = "req", 7, "base", "what went wrong"
			r.Pause = 40 * time.Hour
			r.Payload = json.RawMessage(`{"v":1,"input":{"text":"hi"},"n":[1,2.5,null]}`)
			r.StartedAt = time.Unix(1, 0)
			p.begin(r)
			p.wantRun(r)
			got := p.inFlight("a")
			for _, at := range []time.Time{got.StartedAt, got.SavedAt} {
				if off := time.Since(at).Abs(); off > time.Hour || at.Location() != time.UTC {
					fail("started or saved at %v", at)
				}
			}
			bare := snapshot.Run{Key: key("bare"), ID: "bare", Status: snapshot.Waiting, Fence: fence(1)}
			p.begin(bare)
			p.wantRun(bare)
		},
	},
	{
		name: "begin-in-flight",
		rule: "Begin of a session that has a run changes nothing and returns it, even with its ID, under any fence",
		check: func(p *probe) {
			r := p.begun("a")
			other := run("a", fence(20))
			same := r
			same.Fence, same.Payload, same.Seq = fence(30), json.RawMessage(`"other"`), 9
			for _, late := range []snapshot.Run{other, same, r, run("a", fence(10)), run("a", fence(1))} {
				found, err := p.store.Begin(p.ctx, late)
				ok(err)
				if found == nil {
					fail("Begin of %s overwrites or says nothing", late.ID)
				}
				ok(sameRun(*found, r))
				p.wantRun(r)
			}
			p.save(next(r))
		},
	},
	{
		name: "begin-separate",
		rule: "each session has its own run, also under names that join to the same text",
		check: func(p *probe) {
			for i, k := range []snapshot.Key{
				{Orchestrator: "o", Session: "s"},
				{Orchestrator: "os", Session: "s"},
				{Orchestrator: "o", Session: "ss"},
				{Orchestrator: "o/s", Session: "s"},
				{Orchestrator: "o", Session: "s/s"},
			} {
				r := run("x", fence(int64(i+1)))
				r.Key, r.ID = k, r.ID+k.Orchestrator+" "+k.Session
				p.begin(r)
			}
		},
	},
}

var adoptClauses = []clause{
	{
		name: "adopt",
		rule: "Adopt makes its fence the run's, counts an attempt, and returns the run as it is from then on",
		check: func(p *probe) {
			r := p.begun("a")
			r = next(r)
			p.save(r)
			f := fence(20)
			got := p.adopt(r, f, 5)
			former := r
			r.Fence, r.Attempt = f, 2
			ok(sameRun(got, r))
			p.wantRun(r)
			want(p.store.Save(p.ctx, next(former)), lock.ErrFenced)
			want(p.store.Delete(p.ctx, former.Key, former.ID, former.Fence), lock.ErrFenced)
			p.wantRun(r)
			p.save(next(r))
		},
	},
	{
		name: "adopt-again",
		rule: "the same fence again counts no attempt, also for the fence that began",
		check: func(p *probe) {
			r := p.begun("a")
			if got := p.adopt(r, r.Fence, 1); got.Attempt != 1 {
				fail("%d attempts", got.Attempt)
			}
			f := fence(20)
			for range 3 {
				if got := p.adopt(r, f, 2); got.Attempt != 2 || got.Status != snapshot.Running {
					fail("%d attempts, %s", got.Attempt, got.Status)
				}
			}
		},
	},
	{
		name: "adopt-fenced",
		rule: "a lower epoch is fenced, and so is an equal one with another nonce; neither changes anything",
		check: func(p *probe) {
			r := p.begun("a")
			for _, f := range []lock.Fence{fence(9), fence(10)} {
				for _, attempts := range []int{0, 1, 5} {
					_, err := p.store.Adopt(p.ctx, r.Key, f, attempts)
					want(err, lock.ErrFenced)
				}
			}
			p.wantRun(r)
		},
	},
	{
		name: "adopt-nothing",
		rule: "without a run in flight Adopt is ErrNotFound and creates none",
		check: func(p *probe) {
			_, err := p.store.Adopt(p.ctx, key("a"), fence(1), 3)
			want(err, snapshot.ErrNotFound)
			p.wantNone("a")
			r := p.begun("a")
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			_, err = p.store.Adopt(p.ctx, key("a"), fence(20), 0)
			want(err, snapshot.ErrNotFound)
		},
	},
	{
		name: "adopt-parks",
		rule: "past the limit Adopt parks the run: ErrParked and the run, under the new fence, no attempt counted",
		check: func(p *probe) {
			r := p.begun("a")
			epoch := int64(20)
			for attempt := 2; attempt <= 3; attempt++ {
				if got := p.adopt(r, fence(epoch), 3); got.Attempt != attempt {
					fail("%d attempts, want %d", got.Attempt, attempt)
				}
				epoch++
			}
			f := fence(epoch)
			for range 2 {
				got, err := p.store.Adopt(p.ctx, r.Key, f, 3)
				want(err, snapshot.ErrParked)
				r.Attempt, r.Status, r.Fence = 3, snapshot.Parked, f
				ok(sameRun(got, r))
				p.wantRun(r)
			}
			f = fence(epoch + 1)
			_, err := p.store.Adopt(p.ctx, r.Key, f, 99)
			want(err, snapshot.ErrParked)
			r.Fence = f
			p.wantRun(r)
		},
	},
	{
		name: "adopt-zero",
		rule: "with 0 attempts Adopt counts none and parks none, and goes past a parked run",
		check: func(p *probe) {
			r := p.begun("a")
			if got := p.adopt(r, fence(20), 0); got.Attempt != 1 || got.Status != snapshot.Running {
				fail("%d attempts, %s", got.Attempt, got.Status)
			}
			_, err := p.store.Adopt(p.ctx, r.Key, fence(30), 1)
			want(err, snapshot.ErrParked)
			f := fence(40)
			got := p.adopt(r, f, 0)
			if got.Attempt != 1 || got.Status != snapshot.Parked || got.Fence != f {
				fail("adopted %+v", got)
			}
			got.Status, got.Attempt = snapshot.Running, 1
			p.save(next(got))
			if got := p.adopt(r, fence(50), 2); got.Attempt != 2 {
				fail("%d attempts", got.Attempt)
			}
		},
	},
	{
		name: "adopt-status",
		rule: "Adopt leaves the status alone, save that it parks",
		check: func(p *probe) {
			for _, status := range []snapshot.Status{snapshot.Waiting, snapshot.Suspended} {
				r := p.begun(string(status))
				r = next(r)
				r.Status = status
				p.save(r)
				if got := p.adopt(r, fence(20), 5); got.Status != status || got.Attempt != 2 {
					fail("adopted %+v", got)
				}
				_, err := p.store.Adopt(p.ctx, r.Key, fence(30), 2)
				want(err, snapshot.ErrParked)
			}
		},
	},
	{
		name: "adopt-saved",
		rule: "Adopt is no save: SavedAt stays as it is, also if the run is parked, and grows with the next Save",
		check: func(p *probe) {
			r := p.begun("a")
			r = next(r)
			p.save(r)
			before := p.inFlight("a").SavedAt
			for clock := p.begun("clock"); !p.inFlight("clock").SavedAt.After(before); {
				clock = next(clock)
				p.save(clock)
			}
			p.adopt(r, fence(20), 2)
			f := fence(30)
			got, err := p.store.Adopt(p.ctx, r.Key, f, 2)
			want(err, snapshot.ErrParked)
			if now := p.inFlight("a").SavedAt; !now.Equal(before) || !got.SavedAt.Equal(before) {
				fail("saved at %v, and after Adopt at %v and %v", before, got.SavedAt, now)
			}
			r.Fence = f
			p.save(next(r))
			if now := p.inFlight("a").SavedAt; !now.After(before) {
				fail("saved at %v, and then at %v", before, now)
			}
		},
	},
	{
		name: "adopt-unparks",
		rule: "a parked run that is saved as Waiting without Payload is due, has all its attempts, and lost nothing",
		check: func(p *probe) {
			r := p.begun("a")
			r = next(r)
			r.Status, r.Pause, r.Error = snapshot.Waiting, time.Hour, "boom"
			r.Parts = map[string]json.RawMessage{"part": json.RawMessage(`{"n":1}`)}
			p.save(r)
			_, err := p.store.Adopt(p.ctx, r.Key, fence(20), 1)
			want(err, snapshot.ErrParked)
			parked := p.adopt(r, fence(30), 0)
			unparked := parked
			unparked.Seq, unparked.Status, unparked.Attempt, unparked.Pause = parked.Seq+1, snapshot.Waiting, 0, 0
			unparked.Payload, unparked.Parts = nil, nil
			p.save(unparked)
			unparked.Payload, unparked.Parts = r.Payload, r.Parts
			p.wantWhole(unparked)
			p.wantSessions(snapshot.Query{Status: snapshot.Waiting}, "a")
			p.wantSessions(snapshot.Query{Unattended: true}, "a")
			p.wantSessions(snapshot.Query{Status: snapshot.Parked})
			former := next(r) // of an owner that was cut off before it was parked
			want(p.store.Save(p.ctx, former), lock.ErrFenced)
			for attempt := 1; attempt <= 2; attempt++ {
				if got := p.adopt(r, fence(int64(40+attempt)), 2); got.Attempt != attempt {
					fail("%d attempts, want %d", got.Attempt, attempt)
				}
			}
			_, err = p.store.Adopt(p.ctx, r.Key, fence(50), 2)
			want(err, snapshot.ErrParked)
		},
	},
	{
		name: "adopt-ended",
		rule: "a run that has ended is adopted to be deleted: it is never parked and counts no attempt",
		check: func(p *probe) {
			r := p.begun("a")
			r = next(r)
			r.Status, r.Error = snapshot.Ended, "told"
			p.save(r)
			for epoch := int64(20); epoch < 23; epoch++ {
				f := fence(epoch)
				got := p.adopt(r, f, 1)
				r.Fence = f
				ok(sameRun(got, r))
			}
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			p.wantNone("a")
		},
	},
}
