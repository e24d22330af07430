package snapshottest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

var partClauses = []clause{
	{
		name: "parts",
		rule: "Begin and Save write parts, and Adopt returns them; Runs, and the run that Begin finds, come without",
		check: func(p *probe) {
			r := p.parted("a", "one", "two")
			p.wantRun(r)
			found, err := p.store.Begin(p.ctx, run("a", fence(20)))
			ok(err)
			ok(sameRun(*found, bare(r)))
			p.wantWhole(r)
			r = p.add(r, "three")
			p.wantWhole(r)
			r.Fence, r.Attempt = fence(20), 2
			ok(sameRun(p.adopt(r, r.Fence, 3), r))
			p.wantWhole(r)
		},
	},
	{
		name: "parts-added",
		rule: "a Save without Payload leaves the payload, adds its parts, and replaces those of the same name",
		check: func(p *probe) {
			r := p.parted("a", "one", "two")
			for _, names := range [][]string{{"three"}, {"two"}, {"one", "four"}, nil, {"three"}} {
				r = p.add(r, names...)
				p.wantWhole(r)
			}
			if len(r.Parts) != 4 {
				fail("%d parts", len(r.Parts))
			}
			save, after := added(r, "five")
			save.Payload = json.RawMessage{}
			p.save(save)
			p.wantWhole(after)
		},
	},
	{
		name: "parts-replaced",
		rule: "with a Payload, the parts of a Save are all that the run has from then on",
		check: func(p *probe) {
			r := p.parted("a", "one", "two")
			r = p.add(r, "three")
			save := next(r)
			save.Parts = map[string]json.RawMessage{"two": json.RawMessage(`"new"`), "four": json.RawMessage(`4`)}
			p.save(save)
			p.wantWhole(save)
			save = p.add(save, "one")
			p.wantWhole(save)
			save = next(save)
			save.Parts = nil
			p.save(save)
			p.wantWhole(save)
		},
	},
	{
		name: "parts-alone",
		rule: "a run may have parts and no payload",
		check: func(p *probe) {
			r := run("a", fence(10))
			r.Payload, r.Parts = nil, map[string]json.RawMessage{"one": json.RawMessage(`1`)}
			p.begin(r)
			p.wantWhole(r)
			r = p.add(r, "two")
			p.wantWhole(r)
		},
	},
	{
		name: "parts-deleted",
		rule: "Delete forgets the parts: a later run of the session has none",
		check: func(p *probe) {
			r := p.parted("a", "one", "two")
			r = p.add(r, "three")
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			second := p.begin(run("a", fence(11)))
			p.wantWhole(second)
			second = p.add(second, "four")
			p.wantWhole(second)
			ok(p.store.Delete(p.ctx, second.Key, second.ID, second.Fence))
			again := r
			again.Fence, again.Seq, again.Payload, again.Parts = fence(12), 0, nil, nil
			p.begin(again)
			p.wantWhole(again)
		},
	},
	{
		name: "parts-status",
		rule: "a Save without Payload changes the rest, also to waiting and ended; an ended run takes no part",
		check: func(p *probe) {
			for _, status := range []snapshot.Status{
				snapshot.Waiting, snapshot.Suspended, snapshot.Parked, snapshot.Ended,
			} {
				r := p.parted(string(status), "one")
				save, after := added(r, "two")
				for _, s := range []*snapshot.Run{&save, &after} {
					s.Status, s.Error, s.Attempt, s.Turn, s.RequestID, s.Base = status, "why", 3, 4, "request", "base"
				}
				p.save(save)
				p.wantWhole(after)
				if status != snapshot.Ended {
					continue
				}
				for _, late := range saves(after) {
					want(p.store.Save(p.ctx, late), lock.ErrFenced)
					p.wantWhole(after)
				}
				after.Fence = fence(20)
				ok(sameRun(p.adopt(after, after.Fence, 1), after))
			}
		},
	},
	{
		name: "parts-stale",
		rule: "a Save whose Seq does not grow adds, replaces and drops no part",
		check: func(p *probe) {
			r := p.parted("a", "one")
			r = p.add(p.add(r, "two"), "three")
			for _, seq := range []int64{2, 1, 0} {
				late, _ := added(r, "two", "four")
				late.Seq = seq
				p.save(late)
				late = next(r)
				late.Seq, late.Parts = seq, nil
				p.save(late)
				p.wantWhole(r)
			}
		},
	},
	{
		name: "parts-fenced",
		rule: "a Save that is fenced adds, replaces and drops no part",
		check: func(p *probe) {
			r := p.parted("a", "one", "two")
			refused := func() {
				for _, f := range []lock.Fence{fence(9), fence(10), fence(11), r.Fence} {
					for _, late := range saves(r) {
						late.Fence = f
						if f == r.Fence {
							late.ID = "another"
						}
						want(p.store.Save(p.ctx, late), lock.ErrFenced)
					}
				}
			}
			refused()
			p.wantWhole(r)
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			for _, late := range saves(r) {
				want(p.store.Save(p.ctx, late), lock.ErrFenced)
			}
			second := p.begin(run("a", fence(20)))
			for _, late := range saves(r) {
				want(p.store.Save(p.ctx, late), lock.ErrFenced)
			}
			p.wantWhole(second)
		},
	},
	{
		name: "parts-met",
		rule: "a Begin that finds a run or is fenced writes no part",
		check: func(p *probe) {
			r := p.parted("a", "one")
			late := run("a", fence(20))
			late.Parts = map[string]json.RawMessage{"one": json.RawMessage(`"late"`), "two": json.RawMessage(`2`)}
			again := r
			again.Payload, again.Parts = nil, late.Parts
			for _, copied := range []snapshot.Run{late, again} {
				found, err := p.store.Begin(p.ctx, copied)
				ok(err)
				ok(sameRun(*found, bare(r)))
			}
			p.wantWhole(r)
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			late.Fence = fence(9)
			p.wantLate(late)
			p.wantWhole(p.begin(run("a", fence(21))))
		},
	},
	{
		name: "parts-parked",
		rule: "an Adopt that parks the run returns its parts too",
		check: func(p *probe) {
			r := p.parted("a", "one", "two")
			f := fence(20)
			for range 2 {
				got, err := p.store.Adopt(p.ctx, r.Key, f, 1)
				want(err, snapshot.ErrParked)
				r.Fence, r.Status = f, snapshot.Parked
				ok(sameRun(got, r))
			}
		},
	},
	{
		name: "parts-zombie",
		rule: "once another has adopted the run, no part of a former owner appears, however late it comes",
		check: func(p *probe) {
			r := p.parted("a")
			for n := range races / 4 {
				ctx, stop := context.WithCancel(p.ctx)
				started, done := make(chan struct{}), make(chan int64)
				go func() { done <- p.hammer(ctx, r, started) }()
				<-started
				got, err := p.store.Adopt(p.ctx, r.Key, fence(int64(20+n)), 1<<20)
				var again snapshot.Run
				if err == nil {
					again, err = p.store.Adopt(p.ctx, r.Key, got.Fence, 0)
				}
				stop()
				last := <-done
				ok(err)
				if got.Seq < last || int64(len(got.Parts)) != got.Seq-r.Seq {
					fail("%d parts after seq %d, and seq %d was saved before", len(got.Parts), got.Seq, last)
				}
				ok(sameRun(again, got))
				p.wantWhole(got)
				r = next(got)
				r.Parts = nil
				p.save(r)
			}
		},
	},
}

// doc returns a document that no other call writes.
func doc(seq int64, i int) json.RawMessage { return json.RawMessage(fmt.Sprintf("[%d,%d]", seq, i)) }

// parted begins a run of epoch 10 with these parts.
func (p *probe) parted(session string, names ...string) snapshot.Run {
	r := run(session, fence(10))
	for i, name := range names {
		if r.Parts == nil {
			r.Parts = make(map[string]json.RawMessage)
		}
		r.Parts[name] = doc(0, i)
	}
	return p.begin(r)
}

// added returns a Save which adds parts to r, and the run after this Save.
func added(r snapshot.Run, names ...string) (save, after snapshot.Run) {
	r.Seq++
	save, after = r, r
	save.Payload, save.Parts = nil, make(map[string]json.RawMessage)
	for i, name := range names {
		save.Parts[name] = doc(r.Seq, i)
	}
	after.Parts = make(map[string]json.RawMessage)
	maps.Copy(after.Parts, r.Parts)
	maps.Copy(after.Parts, save.Parts)
	return save, after
}

// add saves parts and returns the run after this Save.
func (p *probe) add(r snapshot.Run, names ...string) snapshot.Run {
	save, after := added(r, names...)
	p.save(save)
	return after
}

// saves returns two Saves after r. One adds parts, and one replaces everything.
func saves(r snapshot.Run) []snapshot.Run {
	adds, _ := added(r, "one", "late")
	replaces := next(r)
	replaces.Parts = map[string]json.RawMessage{"late": json.RawMessage(`0`)}
	return []snapshot.Run{adds, replaces}
}

// hammer adds part after part until ctx ends or a Save fails. It returns the last Seq that was acknowledged. It closes
// started after the first Save.
func (p *probe) hammer(ctx context.Context, r snapshot.Run, started chan<- struct{}) int64 {
	start := sync.OnceFunc(func() { close(started) })
	defer start()
	for ctx.Err() == nil {
		save, after := added(r, fmt.Sprintf("part-%d", r.Seq))
		if p.store.Save(p.ctx, save) != nil {
			break
		}
		r = after
		start()
	}
	return r.Seq
}
