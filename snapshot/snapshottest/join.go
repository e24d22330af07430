package snapshottest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A JoiningStore is a store of runs that can write in one transaction with a checkpoint store.
type JoiningStore interface {
	snapshot.Store
	snapshot.Joiner
}

// RunJoiner checks the clauses of [snapshot.Joiner]. newStores must return two empty stores that can be joined.
func RunJoiner(t *testing.T, newStores func(t *testing.T) (JoiningStore, checkpoint.Store)) {
	joinContract().Run(t, func(t *testing.T) pair {
		return func() (JoiningStore, checkpoint.Store) { return newStores(t) }
	})
}

// JoinViolations is Violations for RunJoiner.
func JoinViolations(
	ctx context.Context, newStores func() (JoiningStore, checkpoint.Store), names ...string,
) map[string]error {
	return joinContract().Violations(ctx, func() pair { return newStores }, names...)
}

// A pair makes two stores that can be joined.
type pair = func() (JoiningStore, checkpoint.Store)

func joinContract() suite.Clauses[pair] {
	return suite.Of(joinClauses, func(c joinClause) suite.Clause[pair] {
		return suite.Clause[pair]{Name: c.name, Rule: c.rule, Check: func(ctx context.Context, newStores pair) error {
			runs, turns := newStores()
			settle := runs.Join(turns)
			if settle == nil {
				return errors.New("the stores cannot be joined")
			}
			c.check(&joint{&probe{ctx: ctx, store: runs}, turns, settle})
			return nil
		}}
	})
}

// A joinClause is a clause about two stores.
type joinClause struct {
	name, rule string
	check      func(j *joint)
}

// A joint is a probe of the store of runs, with the checkpoint store that it is joined with.
type joint struct {
	*probe
	turns  checkpoint.Store
	settle snapshot.Settle
}

// started claims a session and begins the run of its next turn.
func (j *joint) started(session string, turn int) (checkpoint.Lease, snapshot.Run) {
	c, err := j.turns.Claim(j.ctx, key(session), checkpoint.ClaimRequest{
		Owner: "suite", Nonce: fence(0).Nonce, TTL: time.Hour,
	})
	ok(err)
	r := run(session, c.Fence)
	r.Turn = turn
	return c.Lease, j.begin(r)
}

func settling(r snapshot.Run) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Turn: r.Turn, RunID: r.ID, Signature: "sig", State: json.RawMessage(fmt.Sprintf(`{"n":%d}`, r.Turn)),
	}
}

// mustSettle settles the turn of r and shows that the run is reported as deleted.
func (j *joint) mustSettle(l checkpoint.Lease, r snapshot.Run, o checkpoint.AppendOptions) {
	forgotten, err := j.settle(j.ctx, l, settling(r), o)
	ok(err)
	if !forgotten {
		fail("the run %s in flight is not forgotten", r.ID)
	}
}

// wantNewest shows which turn of the session was settled last; -1 means none.
func (j *joint) wantNewest(session string, turn int) {
	newest := -1
	cp, err := checkpoint.Load(j.ctx, j.turns, key(session), checkpoint.Newest)
	if !errors.Is(err, checkpoint.ErrNotFound) {
		ok(err)
		newest = cp.Turn
	}
	if newest != turn {
		fail("the newest turn of %q is %d, want %d", session, newest, turn)
	}
}

var joinClauses = []joinClause{
	{
		name: "join-settles",
		rule: "a Settle appends the turn and deletes its run",
		check: func(j *joint) {
			_, other := j.started("b", 0)
			l, r := j.started("a", 0)
			j.mustSettle(l, r, checkpoint.AppendOptions{})
			j.wantNewest("a", 0)
			j.wantNone("a")
			j.wantRun(other)
		},
	},
	{
		name: "join-fence",
		rule: "the fence of a run that a Settle deleted is kept, and spent",
		check: func(j *joint) {
			l, r := j.started("a", 0)
			j.mustSettle(l, r, checkpoint.AppendOptions{})
			late := run("a", l.Fence)
			_, err := j.store.Begin(j.ctx, late)
			want(err, lock.ErrFenced)
			_, err = j.store.Adopt(j.ctx, key("a"), fence(l.Fence.Epoch-1), 0)
			want(err, lock.ErrFenced)
			want(j.store.Delete(j.ctx, key("a"), r.ID, fence(l.Fence.Epoch)), lock.ErrFenced)
			ok(j.store.Delete(j.ctx, key("a"), r.ID, l.Fence))
			j.begin(run("a", fence(l.Fence.Epoch+1)))
		},
	},
	{
		name: "join-options",
		rule: "a Settle heeds the options of Append",
		check: func(j *joint) {
			for n := range 3 {
				l, r := j.started("a", n)
				j.mustSettle(l, r, checkpoint.AppendOptions{Keep: 2, Release: true})
			}
			kept := 0
			for _, err := range j.turns.Turns(j.ctx, key("a"), checkpoint.Newest) {
				ok(err)
				kept++
			}
			if kept != 2 {
				fail("%d turns are kept, want 2", kept)
			}
			l, r := j.started("a", 3)
			labels := []checkpoint.Label{{Name: "wait", At: time.UnixMilli(1)}}
			j.mustSettle(l, r, checkpoint.AppendOptions{Owes: true, Relabel: true, Labels: labels})
			q := checkpoint.SessionQuery{Orchestrator: bot, Owing: true, Label: "wait", By: time.UnixMilli(1)}
			for session, err := range j.turns.Sessions(j.ctx, q) {
				ok(err)
				if session == "a" {
					return
				}
			}
			fail("the turn is not owed, or the session has not its label")
		},
	},
	{
		name: "join-refused",
		rule: "a Settle whose Append is refused returns its error and leaves the run in flight",
		check: func(j *joint) {
			l, r := j.started("a", 0)
			skipped := settling(r)
			skipped.Turn = 7
			invalid := settling(r)
			invalid.State = nil
			stranger := l
			stranger.Fence = fence(l.Fence.Epoch)
			for _, c := range []struct {
				l    checkpoint.Lease
				cp   checkpoint.Checkpoint
				want error
			}{
				{l, skipped, checkpoint.ErrConflict},
				{l, invalid, checkpoint.ErrInvalid},
				{stranger, settling(r), lock.ErrFenced},
			} {
				forgotten, err := j.settle(j.ctx, c.l, c.cp, checkpoint.AppendOptions{})
				want(err, c.want)
				if forgotten {
					fail("refused with %v, it is reported as forgotten", err)
				}
				j.wantNewest("a", -1)
				j.wantRun(r)
			}
			ctx, cancel := context.WithCancel(j.ctx)
			cancel()
			forgotten, err := j.settle(ctx, l, settling(r), checkpoint.AppendOptions{})
			want(err, context.Canceled)
			if forgotten {
				fail("after ctx has ended, it is reported as forgotten")
			}
		},
	},
	{
		name: "join-taken",
		rule: "a Settle under a fence that was superseded appends nothing, and leaves the run to its new owner",
		check: func(j *joint) {
			l, r := j.started("a", 0)
			c, err := j.turns.Claim(j.ctx, l.Key, checkpoint.ClaimRequest{
				Owner: "suite", Nonce: fence(0).Nonce, TTL: time.Hour, From: l.Fence,
			})
			ok(err)
			_, err = j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{})
			want(err, lock.ErrFenced)
			j.wantRun(r)
			r.Fence, r.Attempt = c.Fence, 2
			_, err = j.store.Adopt(j.ctx, r.Key, c.Fence, 3)
			ok(err)
			_, err = j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{})
			want(err, lock.ErrFenced)
			j.wantRun(r)
			j.mustSettle(c.Lease, r, checkpoint.AppendOptions{})
			j.wantNone("a")
		},
	},
	{
		name: "join-other",
		rule: "a Settle deletes no run with another id or fence, and appends all the same",
		check: func(j *joint) {
			l, r := j.started("a", 0)
			renamed := settling(r)
			renamed.RunID = "another"
			forgotten, err := j.settle(j.ctx, l, renamed, checkpoint.AppendOptions{})
			ok(err)
			if forgotten {
				fail("the run %s is in flight, and reported as forgotten", r.ID)
			}
			j.wantNewest("a", 0)
			j.wantRun(r)
			r.Fence = fence(l.Fence.Epoch + 1)
			_, err = j.store.Adopt(j.ctx, r.Key, r.Fence, 0)
			ok(err)
			r.Turn = 1
			forgotten, err = j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{})
			ok(err)
			if forgotten {
				fail("the run is under another fence, and reported as forgotten")
			}
			j.wantNewest("a", 1)
			if _, err := j.store.Adopt(j.ctx, r.Key, r.Fence, 0); err != nil {
				fail("the run under another fence is gone: %v", err)
			}
		},
	},
	{
		name: "join-none",
		rule: "a Settle appends a turn whose run is not in flight",
		check: func(j *joint) {
			l, r := j.started("a", 0)
			ok(j.store.Delete(j.ctx, r.Key, r.ID, r.Fence))
			_, err := j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{})
			ok(err)
			j.wantNewest("a", 0)
		},
	},
	{
		name: "join-repeat",
		rule: "a Settle that is repeated is judged as Append is, and touches no later run",
		check: func(j *joint) {
			l, r := j.started("a", 0)
			j.mustSettle(l, r, checkpoint.AppendOptions{Release: true})
			_, err := j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{})
			ok(err)
			_, err = j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{Fresh: true})
			want(err, checkpoint.ErrConflict)
			_, later := j.started("a", 1)
			_, err = j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{})
			ok(err)
			j.wantRun(later)
			j.wantNewest("a", 0)
		},
	},
	{
		name: "join-parts",
		rule: "the parts of a run that a Settle deleted are not those of a later run",
		check: func(j *joint) {
			l, r := j.started("a", 0)
			r.Seq++
			r.Payload, r.Parts = nil, map[string]json.RawMessage{"p": json.RawMessage(`{"of":0}`)}
			j.save(r)
			j.mustSettle(l, r, checkpoint.AppendOptions{Release: true})
			j.wantNone("a")
			_, r = j.started("a", 1)
			got, err := j.store.Adopt(j.ctx, r.Key, r.Fence, 0)
			ok(err)
			if len(got.Parts) > 0 {
				fail("the new run has parts %v", got.Parts)
			}
		},
	},
	{
		name: "join-atomic",
		rule: "who has seen the turn of a Settle does not see its run in flight any more",
		check: func(j *joint) {
			for n := range 20 {
				l, r := j.started("a", n)
				done := make(chan error, 1)
				go func() {
					_, err := j.settle(j.ctx, l, settling(r), checkpoint.AppendOptions{Release: true})
					done <- err
				}()
				j.watch(r)
				ok(<-done)
			}
		},
	},
}

// watch waits until the turn of r is settled. From then on r must not be in flight.
func (j *joint) watch(r snapshot.Run) {
	for j.ctx.Err() == nil {
		cp, err := checkpoint.Load(j.ctx, j.turns, r.Key, checkpoint.Newest)
		if err == nil && cp.RunID == r.ID {
			j.wantNone(r.Session)
			return
		}
		if !errors.Is(err, checkpoint.ErrNotFound) {
			ok(err)
		}
	}
	fail("the turn never settles")
}
