package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var cancelClauses = []clause{
	{
		name: "cancelled",
		rule: "with a ctx that is done every method returns its error and its cause, and changes nothing",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.append(l, turn(0))
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			s := p.store
			_, claim := s.Claim(ctx, key("b"), request(time.Hour))
			_, renew := s.Renew(ctx, time.Hour, []checkpoint.Lease{l})
			_, held := s.Held(ctx, bot, []string{"a"})
			errs := []error{
				claim, renew, held, s.Append(ctx, l, turn(1), checkpoint.AppendOptions{Release: true}),
				s.Mark(ctx, l, checkpoint.Marks{Summarized: 1, Release: true}), s.Delete(ctx, l),
			}
			for _, err := range s.Turns(ctx, key("a"), checkpoint.Newest) {
				errs = append(errs, err)
			}
			for _, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: bot}) {
				errs = append(errs, err)
			}
			for i, err := range errs {
				if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
					fail("method %d returns %v, want %v and its cause", i, err, context.Canceled)
				}
			}
			if len(errs) != 8 {
				fail("%d errors, want 8", len(errs))
			}
			p.append(l, turn(1))
			p.wantTurns("a", 1, 0)
			if c := p.steal("a"); c.Summarized != 0 {
				fail("summarized %d", c.Summarized)
			}
			ok(p.tryClaim("b"))
		},
	},
	{
		name: "cancelled-append",
		rule: "an Append that is cancelled in the middle is whole or not there, and a repeat settles it",
		check: func(p *probe) {
			l := p.claim("a").Lease
			o := checkpoint.AppendOptions{Keep: 2}
			for n := range cancellations {
				err := p.interrupted(n, func(ctx context.Context) error { return p.store.Append(ctx, l, turn(n), o) })
				if err != nil {
					wantDeadline(err)
				}
				ok(p.store.Append(p.ctx, l, turn(n), o))
				want := []int{n, n - 1}
				if n == 0 {
					want = want[:1]
				}
				p.wantTurns("a", want...)
			}
		},
	},
	{
		name: "cancelled-claim",
		rule: "a claim that is cancelled in the middle is granted to its own nonce, and to another after a Delete",
		check: func(p *probe) {
			for n := range cancellations {
				session := fmt.Sprintf("s%d", n)
				r := request(time.Hour)
				err := p.interrupted(n, func(ctx context.Context) error {
					_, err := p.store.Claim(ctx, key(session), r)
					return err
				})
				if err != nil {
					wantDeadline(err)
				}
				c := p.claimAs(session, r)
				want(p.tryClaim(session), lock.ErrHeld)
				p.append(c.Lease, turn(0))
			}
		},
	},
	{
		name: "cancelled-steal",
		rule: "a claim From that is cancelled in the middle takes the session or leaves it, and a repeat takes it",
		check: func(p *probe) {
			for n := range cancellations {
				session := fmt.Sprintf("s%d", n)
				l := p.claim(session).Lease
				r := from(l.Fence)
				err := p.interrupted(n, func(ctx context.Context) error {
					_, err := p.store.Claim(ctx, key(session), r)
					return err
				})
				if err != nil {
					wantDeadline(err)
				}
				c := p.claimAs(session, r)
				want(p.tryAppend(l, turn(0)), lock.ErrFenced)
				p.append(c.Lease, turn(0))
			}
		},
	},
	{
		name: "cancelled-delete",
		rule: "a Delete that is cancelled in the middle leaves all of the session or nothing",
		check: func(p *probe) {
			for n := range cancellations {
				// A request that its sender gave up may arrive at any time, so each round has a session of its own.
				session := fmt.Sprintf("s%d", n)
				l := p.claim(session).Lease
				p.append(l, turn(0), turn(1))
				err := p.interrupted(n, func(ctx context.Context) error { return p.store.Delete(ctx, l) })
				if err != nil {
					wantDeadline(err)
				}
				err = p.tryAppend(l, turn(2))
				if err != nil {
					want(err, lock.ErrFenced)
				}
				left := len(p.turns(session, checkpoint.Newest))
				if 0 < left && left < 3 { // it arrived between two pages: by now all are gone
					left = len(p.turns(session, checkpoint.Newest))
				}
				if left != 0 && (left != 3 || err != nil) {
					fail("%d turns are left, and Append returned %v", left, err)
				}
			}
		},
	},
}

// cancellations is the number of moments at which a call is interrupted.
const cancellations = 40

// interrupted calls f with a ctx that ends n times 50 µs later.
func (p *probe) interrupted(n int, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.ctx, time.Duration(n)*50*time.Microsecond)
	defer cancel()
	return f(ctx)
}

func wantDeadline(err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		fail("a call whose ctx ended returns %v, want %v", err, context.DeadlineExceeded)
	}
}
