package checkpointtest

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var appendClauses = []clause{
	{
		name: "append-order",
		rule: "a turn must follow the last one: ErrConflict, and nothing changes",
		check: func(p *probe) {
			l := p.claim("a").Lease
			want(p.tryAppend(l, turn(1)), checkpoint.ErrConflict)
			p.append(l, turn(0))
			want(p.tryAppend(l, run(0, "other")), checkpoint.ErrConflict)
			want(p.tryAppend(l, turn(2)), checkpoint.ErrConflict)
			p.append(l, turn(1))
			p.wantTurns("a", 1, 0)
		},
	},
	{
		name: "append-fields",
		rule: "a checkpoint comes back as it was appended, with the store's time",
		check: func(p *probe) {
			full := checkpoint.Checkpoint{
				Turn: 0, State: json.RawMessage(`{"a":[1,2.50,"x"],"b":{"c":null}}`),
				Payload:   json.RawMessage(`{"v":1,"input":"hi"}`),
				Route:     []string{"one", "two, {three}", `"four"`, ""},
				Signature: "sig", Version: "v1", RunID: "run", RequestID: "req",
			}
			bare := checkpoint.Checkpoint{Turn: 1, State: json.RawMessage(`null`), RunID: "bare"}
			l := p.claim("a").Lease
			wrongClock := full
			wrongClock.SavedAt = time.Unix(1, 0)
			p.append(l, wrongClock, bare)
			got := p.turns("a", checkpoint.Newest)
			if len(got) != 2 {
				fail("%d turns", len(got))
			}
			ok(sameCheckpoint(got[0], bare))
			ok(sameCheckpoint(got[1], full))
			for _, cp := range got {
				if off := time.Since(cp.SavedAt).Abs(); off > time.Hour || cp.SavedAt.Location() != time.UTC {
					fail("saved at %v", cp.SavedAt)
				}
			}
		},
	},
	{
		name: "append-repeat",
		rule: "a repeat of an Append is no error and changes nothing",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.append(l, turn(0), turn(0))
			other := turn(0)
			other.State = json.RawMessage(`{"n":"changed"}`)
			p.append(l, other, turn(1), turn(0))
			p.wantTurns("a", 1, 0)
			ok(sameCheckpoint(p.turns("a", 0)[0], turn(0)))
		},
	},
	{
		name: "append-repeat-released",
		rule: "a repeat of an Append that released the lease is no error, also when another owns the session",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for range 2 {
				ok(p.store.Append(p.ctx, l, turn(0), checkpoint.AppendOptions{Release: true}))
			}
			next := p.claim("a").Lease
			for range 2 {
				ok(p.store.Append(p.ctx, l, turn(0), checkpoint.AppendOptions{Release: true}))
			}
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(next, turn(1), turn(0))
			p.wantTurns("a", 1, 0)
		},
	},
	{
		name: "append-settled-by-another",
		rule: "if a kept turn has the run, Append is no error, no matter which owner settled it and under which number",
		check: func(p *probe) {
			old := p.claim("a").Lease
			owner := p.steal("a").Lease
			p.append(owner, run(0, "first"), run(1, "moved"))
			p.append(old, run(0, "moved"), run(1, "first"), run(7, "moved"))
			want(p.tryAppend(old, run(2, "third")), lock.ErrFenced)
			p.wantTurns("a", 1, 0)
		},
	},
	{
		name: "append-fresh",
		rule: "with Fresh, an Append whose run a kept turn already has is ErrConflict, no matter who settled it",
		check: func(p *probe) {
			fresh := func(l checkpoint.Lease, cp checkpoint.Checkpoint) error {
				return p.store.Append(p.ctx, l, cp, checkpoint.AppendOptions{
					Keep: 1, Owes: true, Release: true, Fresh: true,
				})
			}
			old := p.claim("a").Lease
			ok(p.store.Append(p.ctx, old, turn(0), checkpoint.AppendOptions{Fresh: true}))
			want(fresh(old, turn(0)), checkpoint.ErrConflict)
			want(fresh(old, run(2, "ahead")), checkpoint.ErrConflict)
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(old, turn(0))
			owner := p.steal("a").Lease
			p.append(owner, run(1, "moved"))
			want(fresh(old, turn(0)), checkpoint.ErrConflict)
			want(fresh(old, run(7, "moved")), checkpoint.ErrConflict)
			want(fresh(old, run(2, "third")), lock.ErrFenced)
			want(p.tryClaim("a"), lock.ErrHeld)
			p.wantTurns("a", 1, 0)
			p.wantSessions(checkpoint.SessionQuery{Owing: true})
			ok(fresh(owner, turn(2)))
			want(fresh(owner, turn(2)), checkpoint.ErrConflict)
			p.claim("a")
			want(fresh(owner, turn(2)), checkpoint.ErrConflict)
			p.wantTurns("a", 2)
		},
	},
	{
		name: "append-repeat-pruned",
		rule: "a repeat is recognised as long as the turn is kept, and not longer",
		check: func(p *probe) {
			old := p.claim("a").Lease
			p.append(old, turn(0))
			owner := p.steal("a").Lease
			p.settle(owner, 1, 3, checkpoint.AppendOptions{Keep: 3})
			p.append(old, turn(0))
			p.settle(owner, 3, 4, checkpoint.AppendOptions{Keep: 3})
			want(p.tryAppend(old, turn(0)), lock.ErrFenced)
			p.append(old, turn(1))
			want(p.tryAppend(owner, turn(0)), checkpoint.ErrConflict)
			p.wantTurns("a", 3, 2, 1)
		},
	},
	{
		name: "append-invalid",
		rule: "what is invalid changes nothing",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.append(l, turn(0))
			for _, spoil := range []func(cp *checkpoint.Checkpoint, o *checkpoint.AppendOptions){
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) { cp.State = nil },
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) { cp.State = json.RawMessage(`{`) },
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) {
					cp.Payload = json.RawMessage(`"\u0000"`)
				},
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) { cp.RunID = "" },
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) { cp.Turn = -1 },
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) { cp.Turn = checkpoint.Newest },
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) { cp.Signature = "\xff" },
				func(cp *checkpoint.Checkpoint, _ *checkpoint.AppendOptions) { cp.Route = []string{"a\x00"} },
				func(_ *checkpoint.Checkpoint, o *checkpoint.AppendOptions) { o.Keep = -1 },
			} {
				cp, o := turn(1), checkpoint.AppendOptions{Keep: 1, Release: true, Owes: true}
				spoil(&cp, &o)
				want(p.store.Append(p.ctx, l, cp, o), checkpoint.ErrInvalid)
			}
			p.wantTurns("a", 0)
			p.wantSessions(checkpoint.SessionQuery{Owing: true})
			p.append(l, turn(1))
		},
	},
	{
		name: "aliasing",
		rule: "nothing that goes in or comes out aliases what is stored, or what else comes out",
		check: func(p *probe) {
			in := turn(0)
			in.State, in.Payload = json.RawMessage(`{"n":0}`), json.RawMessage(`{"p":0}`)
			in.Route, in.RequestID = []string{"r"}, "req"
			kept := in
			kept.State, kept.Payload, kept.Route = json.RawMessage(`{"n":0}`), json.RawMessage(`{"p":0}`), []string{"r"}
			spoil := func(cp checkpoint.Checkpoint) { cp.State[5], cp.Payload[5], cp.Route[0] = '9', '9', "x" }
			l := p.claim("a").Lease
			p.append(l, in)
			spoil(in)
			spoil(p.turns("a", 0)[0])
			for range 2 {
				p.release(l)
				r := request(time.Hour)
				r.RequestID = "req"
				c := p.claimAs("a", r)
				l = c.Lease
				ok(sameCheckpoint(*c.Last, kept))
				ok(sameCheckpoint(*c.Answered, kept))
				spoil(*c.Last)
				ok(sameCheckpoint(*c.Answered, kept))
				spoil(*c.Answered)
				ok(sameCheckpoint(p.turns("a", 0)[0], kept))
			}
		},
	},
}

var keepClauses = []clause{
	{
		name: "keep-exactly",
		rule: "Keep N leaves exactly the newest N turns",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 3, checkpoint.AppendOptions{Keep: 3})
			p.wantTurns("a", 2, 1, 0)
			p.settle(l, 3, 7, checkpoint.AppendOptions{Keep: 3})
			p.wantTurns("a", 6, 5, 4)
			p.settle(l, 7, 8, checkpoint.AppendOptions{Keep: 1})
			p.wantTurns("a", 7)
		},
	},
	{
		name: "keep-default",
		rule: "Keep 0 leaves 100 turns, KeepAll all",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 103, checkpoint.AppendOptions{Keep: checkpoint.KeepAll})
			if n := len(p.turns("a", checkpoint.Newest)); n != 103 {
				fail("KeepAll leaves %d of 103 turns", n)
			}
			p.append(l, turn(103))
			got := p.turns("a", checkpoint.Newest)
			if len(got) != 100 || got[99].Turn != 4 {
				fail("the default leaves %d turns", len(got))
			}
		},
	},
	{
		name: "keep-changed",
		rule: "a smaller Keep prunes at once; a larger one grows from there",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 8, checkpoint.AppendOptions{Keep: 8})
			p.settle(l, 8, 9, checkpoint.AppendOptions{Keep: 2})
			p.wantTurns("a", 8, 7)
			p.settle(l, 9, 11, checkpoint.AppendOptions{Keep: 5})
			p.wantTurns("a", 10, 9, 8, 7)
			p.settle(l, 11, 13, checkpoint.AppendOptions{Keep: 5})
			p.wantTurns("a", 12, 11, 10, 9, 8)
		},
	},
	{
		name: "keep-owed",
		rule: "what is not yet delivered is not pruned; once it is, the next Append does",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 1, checkpoint.AppendOptions{Keep: 2})
			p.settle(l, 1, 2, checkpoint.AppendOptions{Keep: 2, Owes: true})
			p.settle(l, 2, 6, checkpoint.AppendOptions{Keep: 2})
			p.wantTurns("a", 5, 4, 3, 2, 1)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 3}))
			p.wantTurns("a", 5, 4, 3, 2, 1)
			p.settle(l, 6, 7, checkpoint.AppendOptions{Keep: 2})
			p.wantTurns("a", 6, 5, 4, 3)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 7}))
			p.settle(l, 7, 8, checkpoint.AppendOptions{Keep: 2})
			p.wantTurns("a", 7, 6)
		},
	},
	{
		name: "keep-others",
		rule: "pruning one session leaves the others",
		check: func(p *probe) {
			p.settled("a", 3)
			p.settled("b", 3)
			l := p.claim("a").Lease
			p.settle(l, 3, 4, checkpoint.AppendOptions{Keep: 1})
			p.wantTurns("a", 3)
			p.wantTurns("b", 2, 1, 0)
		},
	},
}

var markClauses = []clause{
	{
		name: "mark-raises",
		rule: "Mark raises each counter by itself, and never lowers one",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 5, checkpoint.AppendOptions{Owes: true})
			for _, step := range []struct {
				m                     checkpoint.Marks
				summarized, delivered int
			}{
				{checkpoint.Marks{}, 0, 0},
				{checkpoint.Marks{Summarized: 3}, 3, 0},
				{checkpoint.Marks{Delivered: 2}, 3, 2},
				{checkpoint.Marks{Summarized: 1, Delivered: 1}, 3, 2},
				{checkpoint.Marks{Summarized: 4, Delivered: 5}, 4, 5},
				{checkpoint.Marks{Delivered: 1}, 4, 5},
			} {
				ok(p.store.Mark(p.ctx, l, step.m))
				c := p.steal("a")
				if l = c.Lease; c.Summarized != step.summarized || c.Delivered != step.delivered {
					fail("after %+v: summarized %d and delivered %d, want %+v", step.m, c.Summarized, c.Delivered, step)
				}
			}
		},
	},
	{
		name: "mark-beyond",
		rule: "a counter stops at the settled turns: the next turn is neither summarized nor delivered",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 2, checkpoint.AppendOptions{Owes: true})
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Summarized: 9, Delivered: 9}))
			p.settle(l, 2, 3, checkpoint.AppendOptions{Owes: true})
			if c := p.steal("a"); c.Summarized != 2 || c.Delivered != 2 {
				fail("summarized %d and delivered %d, want 2", c.Summarized, c.Delivered)
			}
		},
	},
	{
		name: "mark-repeated",
		rule: "a Mark that released the lease may be repeated before the next claim",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 1, checkpoint.AppendOptions{Owes: true})
			m := checkpoint.Marks{Delivered: 1, Release: true}
			ok(p.store.Mark(p.ctx, l, m))
			ok(p.store.Mark(p.ctx, l, m))
			p.claim("a")
			want(p.store.Mark(p.ctx, l, m), lock.ErrFenced)
			want(p.tryClaim("a"), lock.ErrHeld)
		},
	},
	{
		name: "mark-invalid",
		rule: "a negative counter or Retry is ErrInvalid, and so is a Retry of more than a year",
		check: func(p *probe) {
			l := p.claim("a").Lease
			want(p.store.Mark(p.ctx, l, checkpoint.Marks{Summarized: -1}), checkpoint.ErrInvalid)
			want(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: -1, Release: true}), checkpoint.ErrInvalid)
			want(p.store.Mark(p.ctx, l, checkpoint.Marks{Retry: -1, Release: true}), checkpoint.ErrInvalid)
			tooLong := checkpoint.Marks{Retry: 367 * 24 * time.Hour, Release: true}
			want(p.store.Mark(p.ctx, l, tooLong), checkpoint.ErrInvalid)
			want(p.tryClaim("a"), lock.ErrHeld)
		},
	},
	{
		name: "owed",
		rule: "what is owed stays owed until it is delivered, also when later turns owe nothing",
		check: func(p *probe) {
			l := p.claim("a").Lease
			delivered := func(want int) {
				c := p.steal("a")
				if l = c.Lease; c.Delivered != want {
					fail("delivered %d, want %d", c.Delivered, want)
				}
			}
			p.settle(l, 0, 2, checkpoint.AppendOptions{})
			delivered(2)
			p.settle(l, 2, 3, checkpoint.AppendOptions{Owes: true})
			p.settle(l, 3, 5, checkpoint.AppendOptions{})
			delivered(2)
			p.wantSessions(checkpoint.SessionQuery{Owing: true}, "a")
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 3}))
			delivered(3)
			p.wantSessions(checkpoint.SessionQuery{Owing: true}, "a")
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 5}))
			delivered(5)
			p.wantSessions(checkpoint.SessionQuery{Owing: true})
			p.settle(l, 5, 6, checkpoint.AppendOptions{Owes: true})
			delivered(5)
			p.wantSessions(checkpoint.SessionQuery{Owing: true}, "a")
		},
	},
}
