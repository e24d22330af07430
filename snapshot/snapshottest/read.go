package snapshottest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
)

var readClauses = []clause{
	{
		name: "runs",
		rule: "Runs yields the runs of one orchestrator by session, in byte order",
		check: func(p *probe) {
			sessions := []string{"b", "a", "a/1", "Z", "é", "\uffff", "😀", "aa", "~", " ", "a_", "a%"}
			for _, id := range sessions {
				p.begun(id)
			}
			other := run("x", fence(1))
			other.Orchestrator += "2"
			p.begin(other)
			slices.Sort(sessions)
			p.wantSessions(snapshot.Query{}, sessions...)
			p.wantSessions(snapshot.Query{Key: snapshot.Key{Session: "a_"}}, "a_")
			p.wantSessions(snapshot.Query{Key: snapshot.Key{Session: "x"}})
		},
	},
	{
		name: "runs-status",
		rule: "Status selects, and the others cost no place in a page",
		check: func(p *probe) {
			for i, status := range append(statuses, snapshot.Waiting) {
				r := next(p.begun(fmt.Sprintf("s%d", i)))
				r.Status = status
				p.save(r)
			}
			for i, status := range statuses {
				want := []string{fmt.Sprintf("s%d", i)}
				if status == snapshot.Waiting {
					want = append(want, "s5")
				}
				p.wantSessions(snapshot.Query{Status: status}, want...)
				p.wantSessions(snapshot.Query{Status: status, Brief: true}, want...)
			}
			p.wantSessions(snapshot.Query{Status: snapshot.Waiting, Limit: 1, After: "s1"}, "s5")
			p.wantSessions(snapshot.Query{Status: snapshot.Ended, Key: snapshot.Key{Session: "s1"}})
		},
	},
	{
		name: "runs-page",
		rule: "After and Limit page through the runs without a gap or a repeat",
		check: func(p *probe) {
			var all, got []string
			for i := range 23 {
				id := fmt.Sprintf("s%02d", i)
				p.begun(id)
				all = append(all, id)
			}
			for after := ""; ; {
				page := p.runs(snapshot.Query{After: after, Limit: 5})
				if len(page) == 0 {
					break
				}
				if len(page) > 5 {
					fail("a page of %d", len(page))
				}
				for _, r := range page {
					got = append(got, r.Session)
				}
				after = got[len(got)-1]
			}
			if !slices.Equal(got, all) {
				fail("pages hold %q, want %q", got, all)
			}
		},
	},
	{
		name: "runs-brief",
		rule: "with Brief the same runs come, without RequestID, Base, Payload and Error, and with all else",
		check: func(p *probe) {
			for i, status := range statuses {
				r := next(p.begun(fmt.Sprintf("s%d", i)))
				r.Status, r.Error, r.Base = status, "it failed", "base"
				r.Parts = map[string]json.RawMessage{"part": doc(r.Seq, i)}
				if status == snapshot.Waiting {
					r.Pause = time.Hour
				}
				p.save(r)
			}
			p.begun("without a save")
			for _, q := range []snapshot.Query{
				{},
				{Status: snapshot.Waiting},
				{Status: snapshot.Running, After: "s0"},
				{Limit: 2, After: "s1"},
				{Key: snapshot.Key{Session: "s3"}},
				{Key: snapshot.Key{Session: "s3"}, Status: snapshot.Waiting},
				{Unattended: true},
				{Unattended: true, Status: snapshot.Waiting},
				{Key: snapshot.Key{Session: "none"}},
			} {
				p.wantBrief(q)
			}
		},
	},
	{
		name: "runs-person",
		rule: "a list of all has no Payload of a Suspended or Parked run, and a query for its session has it",
		check: func(p *probe) {
			var all []snapshot.Run
			for i, status := range statuses {
				r := next(p.begun(fmt.Sprintf("s%d", i)))
				r.Status, r.Error, r.Base = status, "it failed", "base"
				p.save(r)
				all = append(all, r)
			}
			r := p.begun("s9")
			r.Fence = fence(20)
			_, err := p.store.Adopt(p.ctx, r.Key, r.Fence, r.Attempt)
			want(err, snapshot.ErrParked)
			r.Status = snapshot.Parked
			all = append(all, r)
			listed := p.runs(snapshot.Query{})
			if len(listed) != len(all) {
				fail("%d runs, want %d", len(listed), len(all))
			}
			for i, r := range all {
				p.wantRun(r)
				if r.Status == snapshot.Suspended || r.Status == snapshot.Parked {
					r.Payload = nil
				}
				if listed[i].Payload != nil && r.Payload == nil {
					fail("a %s run is listed with its payload", r.Status)
				}
				ok(sameRun(listed[i], r))
			}
		},
	},
	{
		name: "runs-unattended",
		rule: "Unattended leaves out Suspended and Parked runs, and these cost no place in a page",
		check: func(p *probe) {
			for i, status := range append(statuses, statuses...) {
				r := next(p.begun(fmt.Sprintf("s%d", i)))
				r.Status = status
				p.save(r)
			}
			p.wantSessions(snapshot.Query{Unattended: true}, "s0", "s1", "s4", "s5", "s6", "s9")
			p.wantSessions(snapshot.Query{Unattended: true, After: "s1", Limit: 2}, "s4", "s5")
			p.wantSessions(snapshot.Query{Unattended: true, Status: snapshot.Waiting}, "s1", "s6")
			p.wantSessions(snapshot.Query{Unattended: true, Status: snapshot.Suspended})
			p.wantSessions(snapshot.Query{Unattended: true, Key: snapshot.Key{Session: "s1"}}, "s1")
			p.wantSessions(snapshot.Query{Unattended: true, Key: snapshot.Key{Session: "s3"}})
			r := next(*p.inFlight("s3"))
			r.Status = snapshot.Running
			p.save(r)
			p.wantSessions(snapshot.Query{Unattended: true, After: "s1", Limit: 2}, "s3", "s4")
		},
	},
	{
		name: "runs-reentrant",
		rule: "the loop over Runs may call the store, also where it has but one connection, and may end early",
		check: func(p *probe) {
			for _, id := range []string{"a", "b", "c"} {
				p.begun(id)
			}
			for r, err := range p.store.Runs(p.ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: bot}}) {
				ok(err)
				if r.Session == "c" {
					break
				}
				p.adopt(r, fence(20), 3)
				for _, err := range p.store.Runs(p.ctx, snapshot.Query{Key: r.Key}) {
					ok(err)
				}
				got := p.inFlight(r.Session)
				ok(p.store.Delete(p.ctx, got.Key, got.ID, got.Fence))
			}
			p.wantSessions(snapshot.Query{}, "c")
		},
	},
	{
		name: "invalid-query",
		rule: "a query that no store takes yields ErrInvalid and ends",
		check: func(p *probe) {
			n := 0
			for _, q := range []snapshot.Query{
				{},
				{Key: key("\xff")},
				{Key: key(""), Limit: -1},
				{Key: key(""), Status: "new"},
				{Key: key(""), After: "a\x00"},
			} {
				for _, err := range p.store.Runs(p.ctx, q) {
					want(err, snapshot.ErrInvalid)
					n++
				}
			}
			if n != 5 {
				fail("%d errors, want 5", n)
			}
		},
	},
	{
		name: "cancelled",
		rule: "with a ctx that is done every method returns its error and its cause, and changes nothing",
		check: func(p *probe) {
			r := p.begun("a")
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			_, begun := p.store.Begin(ctx, run("b", fence(1)))
			_, adopted := p.store.Adopt(ctx, r.Key, fence(20), 3)
			errs := []error{begun, adopted, p.store.Save(ctx, next(r)), p.store.Delete(ctx, r.Key, r.ID, r.Fence)}
			for _, err := range p.store.Runs(ctx, snapshot.Query{Key: key("")}) {
				errs = append(errs, err)
			}
			for i, err := range errs {
				if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
					fail("method %d returns %v, want %v and its cause", i, err, context.Canceled)
				}
			}
			if len(errs) != 5 {
				fail("%d errors, want 5", len(errs))
			}
			p.wantSessions(snapshot.Query{}, "a")
			p.wantRun(r)
		},
	},
	{
		name: "cancelled-save",
		rule: "a Save that is cancelled in the middle is whole, with its parts, or not there, and a repeat writes it",
		check: func(p *probe) {
			r := p.parted("a", "one")
			for n := range 40 {
				save, after := added(r, "two", fmt.Sprintf("part-%d", n))
				if n%4 == 0 {
					save = next(r)
					save.Parts = map[string]json.RawMessage{"one": doc(save.Seq, 0), "other": doc(save.Seq, 1)}
					after = save
				}
				ctx, cancel := context.WithTimeout(p.ctx, time.Duration(n)*50*time.Microsecond)
				err := p.store.Save(ctx, save)
				cancel()
				got := p.adopt(r, r.Fence, 0)
				switch {
				case err == nil:
					ok(sameRun(got, after))
				case !errors.Is(err, context.DeadlineExceeded):
					fail("a Save whose ctx ended returns %v, want %v", err, context.DeadlineExceeded)
				case sameRun(got, r) != nil:
					ok(sameRun(got, after))
				}
				p.save(save)
				p.wantWhole(after)
				r = after
			}
		},
	},
}

var statuses = []snapshot.Status{
	snapshot.Running, snapshot.Waiting, snapshot.Suspended, snapshot.Parked, snapshot.Ended,
}

// wantBrief compares the runs that q selects with and without Brief.
func (p *probe) wantBrief(q snapshot.Query) {
	want := p.runs(q)
	q.Brief = true
	got := p.runs(q)
	if len(got) != len(want) {
		fail("%d runs of %+v, and %d without Brief", len(got), q, len(want))
	}
	for i, r := range got {
		w := want[i]
		w.RequestID, w.Base, w.Payload, w.Error = "", "", nil, ""
		if r.Payload != nil || r.Parts != nil {
			fail("a run of %+v comes with documents", q)
		}
		if ok(sameRun(r, w)); !r.NotBefore.Equal(w.NotBefore) ||
			!r.StartedAt.Equal(w.StartedAt) || !r.SavedAt.Equal(w.SavedAt) {
			fail("times of %+v, want those of %+v", r, w)
		}
	}
}
