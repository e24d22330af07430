package snapshottest

import (
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
)

var pauseClauses = []clause{
	{
		name: "pause",
		rule: "a run comes with the time that is left of its Pause, and with the store's time that it ends at",
		check: func(p *probe) {
			r := run("a", fence(10))
			r.Pause = time.Hour
			p.begin(r)
			found, err := p.store.Begin(p.ctx, run("a", fence(11)))
			ok(err)
			ok(sameRun(*found, r))
			p.wantRun(r)
			p.wantWhole(r)
			got := p.inFlight("a")
			if off := got.NotBefore.Sub(got.SavedAt) - r.Pause; off.Abs() > time.Second {
				fail("saved at %v with a pause of %v until %v", got.SavedAt, r.Pause, got.NotBefore)
			}
			r = next(r)
			r.Status, r.Pause = snapshot.Waiting, 5*time.Hour
			p.save(r)
			p.wantWhole(r)
		},
	},
	{
		name: "pause-given",
		rule: "NotBefore as the caller gives it is ignored by Begin and Save",
		check: func(p *probe) {
			r := run("a", fence(10))
			given := r
			given.NotBefore = time.Now().Add(time.Hour)
			p.begin(given)
			p.wantRun(r)
			r = next(r)
			r.Pause = 3 * time.Hour
			given = r
			given.NotBefore = time.Unix(1, 0)
			p.save(given)
			p.wantRun(r)
		},
	},
	{
		name: "pause-none",
		rule: "a Save without Pause makes the run due, with or without Payload",
		check: func(p *probe) {
			r := run("a", fence(10))
			for _, payload := range []bool{true, false} {
				r.Pause = time.Hour
				if payload {
					p.begin(r)
				} else {
					r = next(r)
					p.save(r)
				}
				p.wantRun(r)
				save := next(r)
				save.Pause = 0
				r = save
				if !payload {
					save.Payload = nil
					r.Payload = p.inFlight("a").Payload
				}
				p.save(save)
				p.wantRun(r)
			}
		},
	},
	{
		name: "pause-over",
		rule: "once the Pause is over, 0 of it is left, by the store's clock",
		check: func(p *probe) {
			r := run("a", fence(10))
			r.Pause = time.Millisecond
			p.begin(r)
			p.wantDue("a")
			r = next(r)
			r.Pause = time.Millisecond
			p.save(r)
			p.wantDue("a")
			if got := p.adopt(r, r.Fence, 0); got.Pause != 0 {
				fail("adopted with a pause of %v", got.Pause)
			}
		},
	},
	{
		name: "pause-adopted",
		rule: "Adopt leaves the Pause as it is, and a stale or fenced Save does",
		check: func(p *probe) {
			r := run("a", fence(10))
			r.Pause = time.Hour
			p.begin(r)
			before := p.inFlight("a").NotBefore
			stale := r
			stale.Pause = 0
			p.save(stale)
			r.Fence, r.Attempt = fence(20), 2
			ok(sameRun(p.adopt(r, r.Fence, 3), r))
			stale.Seq = 5
			if err := p.store.Save(p.ctx, stale); err == nil {
				fail("Save by a former owner returns no error")
			}
			p.wantRun(r)
			if after := p.inFlight("a").NotBefore; !after.Equal(before) {
				fail("not before %v, then %v", before, after)
			}
		},
	},
	{
		name: "pause-bounds",
		rule: "every backend takes a Pause of a nanosecond and one of a year",
		check: func(p *probe) {
			r := run("a", fence(10))
			r.Pause = 1
			p.begin(r)
			p.wantDue("a")
			r = next(r)
			r.Pause = 366 * 24 * time.Hour
			p.save(r)
			p.wantWhole(r)
		},
	},
}

// wantDue waits until none of the pause is left. If ctx ends before, Runs fails, and so does wantDue.
func (p *probe) wantDue(session string) {
	for p.inFlight(session).Pause != 0 {
	}
}
