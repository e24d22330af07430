package snapshottest

import (
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
)

// clocks is how far the clock of a store may be from the clock of the caller after a short time.
const clocks = time.Millisecond

var ageClauses = []clause{
	{
		name: "age",
		rule: "Runs says of each run how long ago it began, whatever was saved since, and with every query",
		check: func(p *probe) {
			start := time.Now()
			r := p.begun("a")
			least := p.older("a")
			for _, status := range []snapshot.Status{
				snapshot.Running, snapshot.Waiting, snapshot.Suspended, snapshot.Parked,
			} {
				r = next(r)
				r.Status = status
				p.save(r)
				for _, brief := range []bool{false, true} {
					for _, q := range []snapshot.Query{
						{Brief: brief},
						{Brief: brief, Status: status},
						{Brief: brief, Limit: 1},
						{Brief: brief, Key: snapshot.Key{Session: "a"}},
					} {
						wantAge(start, least, p.runs(q)...)
					}
				}
			}
			r.Fence = fence(20)
			p.adopt(r, r.Fence, 0)
			wantAge(start, least, p.runs(snapshot.Query{Brief: true})...)
		},
	},
	{
		name: "age-anew",
		rule: "the next run of a session has an age of its own, and the Age of a caller is ignored",
		check: func(p *probe) {
			r := p.begun("a")
			p.older("a")
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			start := time.Now()
			r = run("a", fence(20))
			r.Age = time.Hour
			p.begin(r)
			wantAge(start, 0, p.runs(snapshot.Query{})...)
			r = next(r)
			p.save(r)
			wantAge(start, 0, p.runs(snapshot.Query{})...)
		},
	},
}

// wantAge checks the age of runs that began after start.
func wantAge(start time.Time, least time.Duration, all ...snapshot.Run) {
	most := time.Since(start) + clocks
	for _, r := range all {
		if r.Age < least || r.Age > most {
			fail("the age is %v, want %v to %v, of %+v", r.Age, least, most, r)
		}
	}
	if len(all) == 0 {
		fail("no run")
	}
}

// older waits until the run of a session is older than a short time, and returns the age.
func (p *probe) older(session string) time.Duration {
	for deadline := time.Now().Add(time.Second); ; {
		late := time.Now().After(deadline)
		switch r := p.inFlight(session); {
		case r.Age > clocks:
			return r.Age
		case late:
			fail("the age is %v after a second: %+v", r.Age, r)
		}
	}
}
