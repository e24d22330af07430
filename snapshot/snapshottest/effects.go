package snapshottest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A CarryingStore is a store of runs whose Save can carry effects.
type CarryingStore interface {
	snapshot.Store
	snapshot.EffectJoiner
}

// A RaisingLedger is a ledger that can be raised.
type RaisingLedger interface {
	ledger.Ledger
	lock.Raiser
}

// Joinable are three empty stores that can be joined.
type Joinable struct {
	Runs    CarryingStore
	Effects RaisingLedger
	Log     turnlog.Lister
}

// RunEffectJoiner checks the clauses of [snapshot.EffectJoiner].
func RunEffectJoiner(t *testing.T, newStores func(t *testing.T) Joinable) {
	carryContract().Run(t, func(t *testing.T) carrier {
		return func() Joinable { return newStores(t) }
	})
}

// EffectJoinViolations is Violations for RunEffectJoiner.
func EffectJoinViolations(
	ctx context.Context, newStores func() Joinable, names ...string,
) map[string]error {
	return carryContract().Violations(ctx, func() carrier { return newStores }, names...)
}

// A carrier makes stores that can be joined.
type carrier = func() Joinable

func carryContract() suite.Clauses[carrier] {
	return suite.Of(carryClauses, func(c carryClause) suite.Clause[carrier] {
		return suite.Clause[carrier]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, newStores carrier) error {
				s := newStores()
				save, bare := s.Runs.JoinEffects(s.Effects, s.Log), s.Runs.JoinEffects(s.Effects, nil)
				if save == nil || bare == nil {
					return errors.New("the stores cannot be joined")
				}
				c.check(&cargo{&probe{ctx: ctx, store: s.Runs}, s.Effects, s.Log, save, bare})
				return nil
			},
		}
	})
}

// A carryClause is a clause about a store of runs, a ledger and a turn log.
type carryClause struct {
	name, rule string
	check      func(c *cargo)
}

// A cargo is a probe of the store of runs, with the ledger and the log that it is joined with.
type cargo struct {
	*probe
	effects RaisingLedger
	log     turnlog.Lister
	save    snapshot.SaveEffects
	bare    snapshot.SaveEffects // without the log
}

// effect returns the n-th effect of a run.
func effect(r snapshot.Run, n int) ledger.Effect {
	return ledger.Effect{
		ID: fmt.Sprintf("%s-%d", r.ID, n), Orchestrator: r.Orchestrator, Session: r.Session, RunID: r.ID, Iteration: n,
		Intent: "tools", Name: "pay", Each: fmt.Sprint(n), Class: ledger.Idempotent, Fence: r.Fence,
		Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), ArgsSum: fmt.Sprint("sum:", n),
	}
}

func issue(all ...ledger.Effect) (c snapshot.Cargo) {
	c.Issue = all
	return c
}

// entry returns the n-th entry of a run.
func entry(r snapshot.Run, n int) turnlog.Entry {
	return turnlog.Entry{
		Run: r.ID, Turn: r.Turn, Orchestrator: r.Orchestrator, Session: r.Session, Phase: turnlog.LLMComplete,
		State: json.RawMessage(fmt.Sprintf(`{"said":%d}`, n)), At: time.UnixMilli(1_700_000_000_000 + int64(n)).UTC(),
	}
}

func logged(all ...turnlog.Entry) snapshot.Cargo { return snapshot.Cargo{Log: all} }

// outcome is the result of the first attempt at e.
func outcome(e ledger.Effect) ledger.Finish {
	o := ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"` + e.Each + `"`)}
	return ledger.Finish{ID: e.ID, Attempt: 1, Outcome: o}
}

func finish(all ...ledger.Effect) (b snapshot.Cargo) {
	for _, e := range all {
		b.Finish = append(b.Finish, outcome(e))
	}
	return b
}

// mustSave saves r with b, and shows that b is taken.
func (c *cargo) mustSave(r snapshot.Run, b snapshot.Cargo) {
	taken, err := c.save(c.ctx, r, b)
	ok(err)
	if !taken {
		fail("what is plain is not taken: %+v", b)
	}
}

// mustLeave shows that a save of r with b is not taken, and leaves was as it was.
func (c *cargo) mustLeave(was, r snapshot.Run, b snapshot.Cargo) {
	taken, err := c.save(c.ctx, r, b)
	if err != nil {
		want(err, lock.ErrFenced)
	}
	if taken {
		fail("what is not plain is taken: %+v", b)
	}
	c.wantRun(was)
}

// wantEffect shows in which state e is; "" if the ledger does not have it.
func (c *cargo) wantEffect(e ledger.Effect, state ledger.State, attempts int) ledger.Effect {
	got, err := ledger.Load(c.ctx, c.effects, ledger.Query{ID: e.ID})
	if !errors.Is(err, ledger.ErrNotFound) {
		ok(err)
	}
	if got.State != state || got.Attempts != attempts {
		fail("effect %s is %q after %d attempts, want %q after %d", e.ID, got.State, got.Attempts, state, attempts)
	}
	return got
}

// issued issues e by the ledger alone.
func (c *cargo) issued(e ledger.Effect) ledger.Effect {
	_, issued, err := c.effects.Issue(c.ctx, e, false)
	ok(err)
	if !issued {
		fail("effect %s is not issued", e.ID)
	}
	return e
}

// wantAs compares what the ledger has of e with e.
func (c *cargo) wantAs(e ledger.Effect) {
	got := c.wantEffect(e, ledger.Issued, 1)
	ok(sameJSON(got.Args, e.Args))
	if got.IssuedAt.IsZero() || !got.FinishedAt.IsZero() || got.Unsure || got.Redacted || got.AnsweredBy != "" {
		fail("effect %s is not as Issue leaves it: %+v", e.ID, got)
	}
	got.Args, got.IssuedAt, got.Age = e.Args, e.IssuedAt, e.Age
	e.State, e.Attempts = ledger.Issued, 1
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", e) {
		fail("the ledger has %+v, want %+v", got, e)
	}
}

var carryClauses = []carryClause{
	{
		name: "carry-issues",
		rule: "a SaveEffects saves the run and issues its effects, in their order, as Issue does",
		check: func(c *cargo) {
			r := c.begun("a")
			e1, e2, r1 := effect(r, 1), effect(r, 2), next(r)
			e2.Key, e2.Each, e2.Args, e2.Class = "order-2", "", nil, ledger.Ask
			c.mustSave(r1, issue(e1, e2))
			c.wantRun(r1)
			c.wantAs(e1)
			e2.Args = json.RawMessage("null")
			if got := c.wantEffect(e2, ledger.Issued, 1); got.Args != nil || got.Key != "order-2" {
				fail("the ledger has %+v", got)
			}
			var order []string
			for e, err := range c.effects.Effects(c.ctx, ledger.Query{RunID: r.ID}) {
				ok(err)
				order = append(order, e.ID)
			}
			if fmt.Sprint(order) != fmt.Sprint([]string{e1.ID, e2.ID}) {
				fail("the effects of the run are %v", order)
			}
		},
	},
	{
		name: "carry-finishes",
		rule: "a SaveEffects notes outcomes as Finish does, also of effects that Issue has issued",
		check: func(c *cargo) {
			r := c.begun("a")
			e1, e2, e3 := effect(r, 1), c.issued(effect(r, 2)), effect(r, 3)
			r1 := next(r)
			c.mustSave(r1, issue(e1))
			b := finish(e1, e2)
			b.Finish[1].Outcome = ledger.Outcome{State: ledger.Failed, Error: "declined"}
			b.Finish[0].Outcome.Redacted = true
			b.Issue = []ledger.Effect{e3}
			r2 := next(r1)
			c.mustSave(r2, b)
			c.wantRun(r2)
			done := c.wantEffect(e1, ledger.Completed, 1)
			ok(sameJSON(done.Result, json.RawMessage(`"1"`)))
			if !done.Redacted || done.FinishedAt.IsZero() || done.Error != "" {
				fail("the ledger has %+v", done)
			}
			if got := c.wantEffect(e2, ledger.Failed, 1); got.Error != "declined" || got.Result != nil {
				fail("the ledger has %+v", got)
			}
			c.wantEffect(e3, ledger.Issued, 1)
			now, err := c.effects.Finish(c.ctx, e1.ID, 1, ledger.Outcome{
				State: ledger.Completed, Result: json.RawMessage(`"other"`),
			})
			ok(err)
			ok(sameJSON(now.Result, json.RawMessage(`"1"`)))
		},
	},
	{
		name: "carry-saves",
		rule: "a SaveEffects heeds payload and parts as Save does",
		check: func(c *cargo) {
			r := c.begun("a")
			r1 := next(r)
			r1.Parts = map[string]json.RawMessage{"p": json.RawMessage(`1`), "q": json.RawMessage(`1`)}
			c.mustSave(r1, issue(effect(r, 1)))
			c.wantWhole(r1)
			r2 := r1
			r2.Seq++
			r2.Payload, r2.Parts = nil, map[string]json.RawMessage{"q": json.RawMessage(`2`)}
			c.mustSave(r2, finish(effect(r, 1)))
			r2.Payload, r2.Parts = r1.Payload, map[string]json.RawMessage{"p": json.RawMessage(`1`), "q": json.RawMessage(`2`)}
			c.wantWhole(r2)
			r3 := next(r2)
			r3.Parts, r3.Pause, r3.Status, r3.Error = nil, time.Hour, snapshot.Waiting, "why"
			c.mustSave(r3, issue(effect(r, 2)))
			c.wantWhole(r3)
			r4 := next(r3)
			r4.Pause, r4.Status, r4.Error = 0, snapshot.Running, ""
			c.mustSave(r4, snapshot.Cargo{})
			c.wantWhole(r4)
		},
	},
	{
		name: "carry-plain",
		rule: "a SaveEffects whose effects are not plain writes nothing, and takes nothing",
		check: func(c *cargo) {
			r := c.begun("a")
			r1 := next(r)
			fresh, known, open := effect(r, 1), c.issued(effect(r, 2)), c.issued(effect(r, 3))
			_, err := c.effects.Finish(c.ctx, known.ID, 1, outcome(known).Outcome)
			ok(err)
			failed := c.issued(effect(r, 4))
			_, err = c.effects.Finish(c.ctx, failed.ID, 1, ledger.Outcome{State: ledger.Unknown})
			ok(err)
			failed.Attempts = 1
			_, _, err = c.effects.Issue(c.ctx, failed, true) // it is Unsure
			ok(err)
			other := effect(c.begun("b"), 1)
			c.issued(other)
			second := finish(failed)
			second.Finish[0].Attempt = 2
			late := finish(open)
			late.Finish[0].Attempt = 2
			for name, b := range map[string]snapshot.Cargo{
				"an effect is known":              issue(fresh, known),
				"an effect is open":               issue(fresh, open),
				"an outcome is known":             both(issue(fresh), finish(known)),
				"an effect is not known":          finish(open, fresh),
				"an effect of another run":        both(issue(fresh), finish(other)),
				"an attempt before may have been": second,
				"another attempt":                 late,
			} {
				taken, err := c.save(c.ctx, r1, b)
				ok(err)
				if taken {
					fail("%s, and it is taken", name)
				}
				c.wantRun(r)
				c.wantEffect(fresh, "", 0)
				c.wantEffect(open, ledger.Issued, 1)
				c.wantEffect(failed, ledger.Issued, 2)
				c.wantEffect(other, ledger.Issued, 1)
			}
			c.mustSave(r1, both(issue(fresh), finish(open)))
			c.wantRun(r1)
		},
	},
	{
		name: "carry-fence",
		rule: "a SaveEffects under a fence that was superseded writes nothing, also if only the ledger knows that",
		check: func(c *cargo) {
			r := c.begun("a")
			open := c.issued(effect(r, 1))
			b := both(issue(effect(r, 2)), finish(open))
			b.Log = logged(entry(r, 1)).Log
			now := r
			now.Fence = fence(r.Fence.Epoch + 1)
			ok(c.effects.Adopt(c.ctx, r.ID, now.Fence))
			c.mustLeave(r, next(r), b)
			c.wantEffect(open, ledger.Unknown, 1)
			c.adopt(r, now.Fence, 0)
			c.mustLeave(now, next(r), b)
			c.wantEffect(open, ledger.Unknown, 1)
			c.wantEffect(effect(r, 2), "", 0)
			stranger := next(r)
			stranger.Fence.Nonce = "stranger"
			c.mustLeave(now, stranger, issue(effect(stranger, 3)))
			c.wantEffect(effect(r, 3), "", 0)
			c.mustSave(next(now), issue(effect(now, 3)))
			gone := next(next(now))
			ok(c.store.Delete(c.ctx, now.Key, now.ID, now.Fence))
			taken, err := c.save(c.ctx, gone, issue(effect(now, 4)))
			if taken || err != nil && !errors.Is(err, lock.ErrFenced) {
				fail("the run is over, and its save is taken: %t, %v", taken, err)
			}
			c.wantEffect(effect(now, 4), "", 0)
		},
	},
	{
		name: "carry-adopts",
		rule: "the fence of a SaveEffects that issues becomes the fence of the run in the ledger",
		check: func(c *cargo) {
			r := c.begun("a")
			e := effect(r, 1)
			c.mustSave(next(r), issue(e))
			low := effect(r, 2)
			low.Fence = fence(r.Fence.Epoch - 1)
			_, _, err := c.effects.Issue(c.ctx, low, false)
			want(err, lock.ErrFenced)
			ok(c.effects.Adopt(c.ctx, r.ID, fence(r.Fence.Epoch+1)))
			c.wantEffect(e, ledger.Unknown, 1)
		},
	},
	{
		name: "carry-repeat",
		rule: "a SaveEffects that is repeated, or comes late, changes nothing and is taken",
		check: func(c *cargo) {
			r := c.begun("a")
			e1, e2 := effect(r, 1), effect(r, 2)
			first := next(r)
			c.mustSave(first, issue(e1))
			c.mustSave(first, issue(e1))
			c.wantEffect(e1, ledger.Issued, 1)
			second := next(first)
			b := both(issue(e2), finish(e1))
			b.Log = logged(entry(r, 1)).Log
			c.mustSave(second, b)
			c.mustSave(second, b)
			c.mustSave(first, issue(e1)) // of a sender that has given up on it
			c.wantEffect(e1, ledger.Completed, 1)
			c.wantEffect(e2, ledger.Issued, 1)
			c.wantRun(second)
			_, err := c.effects.Prune(c.ctx, time.Now().Add(time.Hour))
			ok(err)
			c.mustSave(first, issue(e1))
			c.wantEffect(e1, "", 0)
			c.wantLog(r, entry(r, 1))
		},
	},
	{
		name: "carry-raise",
		rule: "a SaveEffects issues nothing that a Raise concerns, and nothing under a fence from before a Raise",
		check: func(c *cargo) {
			r := c.begin(run("a", fence(time.Now().Add(-time.Hour).UnixMicro())))
			_, err := c.effects.Raise(c.ctx, time.Time{})
			ok(err)
			c.mustLeave(r, next(r), issue(effect(r, 1)))
			r2 := c.begin(run("b", fence(time.Now().Add(time.Hour).UnixMicro())))
			asking := effect(r2, 1)
			asking.Class = ledger.Ask
			c.mustLeave(r2, next(r2), issue(asking))
			c.wantEffect(asking, "", 0)
			c.mustSave(next(r2), issue(effect(r2, 2))) // it is Idempotent
		},
	},
	{
		name: "carry-invalid",
		rule: "a SaveEffects of what the run must not carry is ErrInvalid, and writes nothing",
		check: func(c *cargo) {
			r := c.begun("a")
			e := effect(r, 1)
			of, by, nameless, answer := effect(r, 1), effect(r, 1), effect(r, 1), finish(e)
			of.RunID, by.Fence, nameless.Name = "another", fence(20), ""
			answer.Finish[0].Outcome.By = "ann"
			begins, ends, others, late := entry(r, 1), entry(r, 1), entry(r, 1), entry(r, 1)
			begins.Phase, ends.Phase, others.Run = turnlog.Started, turnlog.Settled, "another"
			late.At = late.At.Add(time.Microsecond) // no whole millisecond
			for _, b := range []snapshot.Cargo{
				issue(of), issue(by), issue(nameless), issue(e, e), answer, finish(e, e), both(issue(e), finish(e)),
				{Batch: ledger.Batch{Finish: []ledger.Finish{{ID: e.ID, Attempt: 1}}}},
				logged(begins), logged(ends), logged(others), logged(late), logged(entry(r, 1), entry(r, 1)),
			} {
				taken, err := c.save(c.ctx, next(r), b)
				want(err, snapshot.ErrInvalid)
				if taken {
					fail("invalid, and taken: %+v", b)
				}
			}
			_, err := c.bare(c.ctx, next(r), logged(entry(r, 1)))
			want(err, snapshot.ErrInvalid)
			bad := next(r)
			bad.Status = "no status"
			_, err = c.save(c.ctx, bad, issue(e))
			want(err, snapshot.ErrInvalid)
			ctx, cancel := context.WithCancel(c.ctx)
			cancel()
			_, err = c.save(ctx, next(r), issue(e))
			want(err, context.Canceled)
			c.wantRun(r)
			c.wantEffect(e, "", 0)
			c.wantLog(r)
		},
	},
	{
		name: "carry-logs",
		rule: "a SaveEffects records entries as Record does, with effects and without",
		check: func(c *cargo) {
			r := c.begun("a")
			begins := entry(r, 1)
			begins.Phase = turnlog.Started
			ok(c.log.Record(c.ctx, begins))
			r1 := next(r)
			c.mustSave(r1, logged(entry(r, 3), entry(r, 2)))
			c.wantRun(r1)
			c.wantLog(r, begins, entry(r, 2), entry(r, 3))
			received, empty := entry(r, 4), entry(r, 5)
			received.Phase, empty.State = turnlog.ToolReceived, nil
			same := entry(r, 4) // of one time, and another phase
			all := both(issue(effect(r, 1)), logged(received, same, empty))
			r2 := next(r1)
			c.mustSave(r2, all)
			c.wantRun(r2)
			c.wantEffect(effect(r, 1), ledger.Issued, 1)
			empty.State = json.RawMessage("null")
			c.wantLog(r, begins, entry(r, 2), entry(r, 3), same, received, empty)
			c.mustSave(next(r2), finish(effect(r, 1)))
			c.wantOpen(r.ID, begins, empty)
			ends := entry(r, 6)
			ends.Phase = turnlog.Settled
			ok(c.log.Record(c.ctx, ends))
			c.wantOpen("")
			alone := c.begun("b") // nothing has recorded its beginning
			c.mustSave(next(alone), logged(entry(alone, 7)))
			c.wantOpen(alone.ID, entry(alone, 7), entry(alone, 7))
		},
	},
	{
		name: "carry-known",
		rule: "a SaveEffects with an entry that is known writes nothing, and takes nothing",
		check: func(c *cargo) {
			r := c.begun("a")
			known, changed := entry(r, 1), entry(r, 1)
			changed.State = json.RawMessage(`"another"`)
			ok(c.log.Record(c.ctx, known))
			open := c.issued(effect(r, 1))
			for _, e := range []turnlog.Entry{known, changed} {
				b := both(issue(effect(r, 2)), finish(open))
				b.Log = []turnlog.Entry{entry(r, 2), e}
				c.mustLeave(r, next(r), b)
				c.wantEffect(open, ledger.Issued, 1)
				c.wantEffect(effect(r, 2), "", 0)
				c.wantLog(r, known)
			}
			b := issue(open) // not plain, so that its entry is not recorded
			b.Log = []turnlog.Entry{entry(r, 2)}
			c.mustLeave(r, next(r), b)
			c.wantLog(r, known)
			c.mustSave(next(r), logged(entry(r, 2)))
			c.wantLog(r, known, entry(r, 2))
		},
	},
	{
		name: "carry-atomic",
		rule: "who has seen an effect or an entry that a SaveEffects has written sees the run as saved, and the other",
		check: func(c *cargo) {
			r := c.begun("a")
			for n := range 20 {
				r = next(r)
				e, done := effect(r, n), make(chan error, 1)
				b := issue(e)
				b.Log = []turnlog.Entry{entry(r, n)}
				go func() {
					taken, err := c.save(c.ctx, r, b)
					if err == nil && !taken {
						err = errors.New("it is not taken")
					}
					done <- err
				}()
				c.watch(r, e, n+1)
				ok(<-done)
			}
		},
	},
	{
		name: "carry-race",
		rule: "of two runs that issue one effect with a Key at once, one takes it, and the other writes nothing",
		check: func(c *cargo) {
			for n := range 20 {
				runs := []snapshot.Run{c.begun(fmt.Sprint("a", n)), c.begun(fmt.Sprint("b", n))}
				var taken [2]bool
				var errs [2]error
				both := func(i int) func() {
					e := effect(runs[i], n)
					e.ID, e.Key = fmt.Sprint("shared-", n), "shared"
					own := effect(runs[i], n)
					return func() { taken[i], errs[i] = c.save(c.ctx, next(runs[i]), issue(own, e)) }
				}
				together(both(0), both(1))
				ok(errors.Join(errs[:]...))
				if taken[0] == taken[1] {
					fail("of two saves %v are taken", taken)
				}
				for i, r := range runs {
					if taken[i] {
						c.wantRun(next(r))
						c.wantEffect(effect(r, n), ledger.Issued, 1)
					} else {
						c.wantRun(r)
						c.wantEffect(effect(r, n), "", 0)
					}
				}
			}
		},
	},
}

// watch waits until e is issued, or its run has n entries. From then on r must be saved, and the other be there.
func (c *cargo) watch(r snapshot.Run, e ledger.Effect, n int) {
	for c.ctx.Err() == nil {
		_, err := ledger.Load(c.ctx, c.effects, ledger.Query{ID: e.ID})
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			ok(err)
		}
		issued := err == nil
		all, err := c.log.Restore(c.ctx, r.ID)
		ok(err)
		if issued && len(all) < n {
			fail("effect %s is issued, and the run has %d entries, want %d", e.ID, len(all), n)
		}
		if len(all) >= n {
			c.wantEffect(e, ledger.Issued, 1)
			c.wantRun(r)
			return
		}
	}
	fail("the effect is never issued")
}

// both are two cargoes in one.
func both(a, b snapshot.Cargo) snapshot.Cargo {
	return snapshot.Cargo{
		Batch: ledger.Batch{Issue: append(a.Issue, b.Issue...), Finish: append(a.Finish, b.Finish...)},
		Log:   append(a.Log, b.Log...),
	}
}

// wantLog shows which entries the log has of r.
func (c *cargo) wantLog(r snapshot.Run, all ...turnlog.Entry) {
	got, err := c.log.Restore(c.ctx, r.ID)
	ok(err)
	sameEntries(got, all)
}

// wantOpen shows which turn of the log is open, by its first and last entry; "" if none is.
func (c *cargo) wantOpen(run string, ends ...turnlog.Entry) {
	var got []turnlog.Entry
	for s, err := range c.log.Turns(c.ctx, turnlog.Query{Open: true}) {
		ok(err)
		if s.First.Run != run {
			fail("run %s is open, want %q", s.First.Run, run)
		}
		got = append(got, s.First, s.Last)
	}
	sameEntries(got, ends)
}

func sameEntries(got, all []turnlog.Entry) {
	if len(got) != len(all) {
		fail("the log has %+v, want %+v", got, all)
	}
	for i, e := range got {
		w := all[i]
		ok(sameJSON(e.State, w.State))
		if e.State, w.State = nil, nil; !e.At.Equal(w.At) || e.Phase != w.Phase || e.Run != w.Run ||
			e.Session != w.Session || e.Orchestrator != w.Orchestrator || e.Turn != w.Turn {
			fail("the log has %+v, want %+v", e, w)
		}
	}
}
