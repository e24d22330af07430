package owner

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/lock"
)

// rows are the sessions of a checkpoint store, as an orchestrator shows them to its Process.
type rows struct{ checkpoint.Store }

func (r rows) Renew(ctx context.Context, ttl time.Duration, leases []Lease) (lost []Lease, err error) {
	all := make([]checkpoint.Lease, len(leases))
	for i, l := range leases {
		all[i] = checkpoint.Lease{Key: key(l.ID), Fence: l.Fence}
	}
	gone, err := r.Store.Renew(ctx, ttl, all)
	if partial, ok := errors.AsType[*checkpoint.RenewError](err); ok {
		err = &UnknownError{ofRows(partial.Unknown), partial.Err}
	}
	return ofRows(gone), err
}

func ofRows(leases []checkpoint.Lease) (all []Lease) {
	for _, l := range leases {
		all = append(all, Lease{l.Session, l.Fence})
	}
	return all
}

func (r rows) Held(ctx context.Context, sessions []string) (owners map[string]string, err error) {
	return r.Store.Held(ctx, "bot", sessions)
}

func key(session string) checkpoint.Key { return checkpoint.Key{Orchestrator: "bot", Session: session} }

// A row is one of these sessions.
type row struct {
	store checkpoint.Store
	key   checkpoint.Key
}

func (p *Process) row(session string) row { return row{p.options.Rows.(rows).Store, key(session)} }

func (r row) Claim(ctx context.Context, q Request) (Grant, error) {
	c, err := r.store.Claim(ctx, r.key, checkpoint.ClaimRequest{
		Owner: q.Owner, Nonce: q.Nonce, TTL: q.TTL, From: q.From,
	})
	return Grant{c.Fence, c.Last == nil && c.Born == c.Fence.Epoch}, err
}

func (r row) Release(ctx context.Context, f lock.Fence) error {
	return r.store.Mark(ctx, checkpoint.Lease{Key: r.key, Fence: f}, checkpoint.Marks{Release: true})
}

func (r row) Remove(ctx context.Context, f lock.Fence) error {
	return r.store.Delete(ctx, checkpoint.Lease{Key: r.key, Fence: f})
}

func process(store checkpoint.Store) *Process {
	return New(Options{
		Orchestrator: "bot", Rows: rows{store}, Pulse: pulse.Of(store), Waited: func(time.Time) {},
		Logger:   slog.New(slog.DiscardHandler),
		Why:      func(err error) slog.Attr { return slog.Any("err", err) },
		LeaseTTL: 30 * time.Second, LockWait: 30 * time.Second, SettleTimeout: 10 * time.Second,
	})
}

// A lease is over when its time has passed, even if no timer had a chance to fire.
func TestLeaseWithoutTimer(t *testing.T) {
	p := process(new(checkpoint.Memory))
	var s Session
	if err := s.Acquire(t.Context(), p, "s", p.row("s"), false); err != nil {
		t.Fatal(err)
	}
	defer s.Done()
	if err := s.Lost(); err != nil {
		t.Fatal(err)
	}
	s.Expire()
	if err := s.Lost(); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("got %v", err)
	}
}

// If the session is lost already, a context that outlives the call is over at once.
func TestOutlivingAfterLoss(t *testing.T) {
	for name, end := range map[string]func(*Session){
		"lost":       func(s *Session) { s.take(lock.ErrLost) },
		"handed off": func(s *Session) { s.handOff() },
	} {
		var s Session
		if err := s.Enter(t.Context(), process(new(checkpoint.Memory)), "s", nil); err != nil {
			t.Fatal(err)
		}
		end(&s)
		ctx, cancel := s.Outliving(time.Hour, true)
		if ctx.Err() == nil {
			t.Errorf("%s: it goes on", name)
		}
		cancel()
		s.Undo()
	}
}

// A claim that is granted while the process closes owns nothing.
func TestOwnWhileClosing(t *testing.T) {
	p := process(new(checkpoint.Memory))
	var s Session
	if err := s.Enter(t.Context(), p, "s", p.row("s")); err != nil {
		t.Fatal(err)
	}
	idle := p.Close()
	if err := p.own(&s); !errors.Is(err, ErrShuttingDown) || s.owns {
		t.Errorf("owns %t, %v", s.owns, err)
	}
	s.Undo()
	<-idle
}

// A claim that is granted before the process closes, and noticed after it, is given back.
func TestGrantedWhileClosing(t *testing.T) {
	store := new(checkpoint.Memory)
	p := process(store)
	var s Session
	if err := s.Enter(t.Context(), p, "s", p.row("s")); err != nil {
		t.Fatal(err)
	}
	end := s.cancel
	defer end(nil)
	s.cancel = func(error) {} // its context ends too late to be noticed by the claim
	idle := p.Close()
	s.cancel = end
	if err := s.wait(true); !errors.Is(err, ErrShuttingDown) {
		t.Errorf("got %v", err)
	}
	next := checkpoint.ClaimRequest{Owner: "o", Nonce: "n", TTL: time.Minute}
	if _, err := store.Claim(t.Context(), key("s"), next); err != nil {
		t.Error(err)
	}
	s.Undo()
	<-idle
}

// A slowClaim is a store whose first claim takes a while. If the caller does not wait for the answer, the claim is
// granted all the same, as by a server that did not notice in time.
type slowClaim struct {
	checkpoint.Store
	takes time.Duration
	sent  chan struct{} // closed by the first claim
}

func (s *slowClaim) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	select {
	case <-s.sent:
		return s.Store.Claim(ctx, k, r)
	default:
		close(s.sent)
	}
	type answer struct {
		checkpoint.Claimed
		err error
	}
	granted := make(chan answer, 1)
	go func() {
		time.Sleep(s.takes)
		c, err := s.Store.Claim(context.WithoutCancel(ctx), k, r)
		granted <- answer{c, err}
	}()
	select {
	case a := <-granted:
		return a.Claimed, a.err
	case <-ctx.Done():
		return checkpoint.Claimed{}, ctx.Err()
	}
}

// A claim is under way when the process closes, or when the caller goes away. The session is free afterwards: the claim
// is not granted later, when its call has ended.
func TestClaimUnderWay(t *testing.T) {
	for name, closes := range map[string]bool{"closes": true, "caller goes": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowClaim{new(checkpoint.Memory), lingering / 2, make(chan struct{})}
				p := process(store)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				ended := make(chan error, 1)
				go func() {
					var s Session
					ended <- s.Acquire(ctx, p, "s", p.row("s"), true)
				}()
				<-store.sent
				if closes {
					<-p.Close()
				} else {
					leave()
				}
				if err := <-ended; closes && !errors.Is(err, ErrShuttingDown) ||
					!closes && !errors.Is(err, context.Canceled) {
					t.Errorf("the call ended with %v", err)
				}
				time.Sleep(lingering)
				k := key("s")
				next := checkpoint.ClaimRequest{Owner: "o", Nonce: "n", TTL: time.Minute}
				if _, err := store.Claim(t.Context(), k, next); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The answer to a claim comes when its lease can no longer be trusted. The store counts the lease from its answer, and
// would keep the session from others for another half a minute.
func TestGrantedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowClaim{new(checkpoint.Memory), 28 * time.Second, make(chan struct{})}
		p := process(store)
		var s Session
		if err := s.Acquire(t.Context(), p, "s", p.row("s"), true); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		next := checkpoint.ClaimRequest{Owner: "o", Nonce: "n", TTL: time.Minute}
		if _, err := store.Claim(t.Context(), key("s"), next); err != nil {
			t.Error(err)
		}
	})
}

// A call from within a turn knows which session and run it comes from, for as long as the turn goes on.
func TestScope(t *testing.T) {
	p := process(new(checkpoint.Memory))
	if run := ScopeIn(t.Context()).Run(); run != "" {
		t.Errorf("outside of turns the run is %q", run)
	}
	var outer Session
	if err := outer.Acquire(t.Context(), p, "s", p.row("s"), false); err != nil {
		t.Fatal(err)
	}
	outer.AtWork("r")
	inside, cancel := context.WithCancel(outer.Ctx)
	defer cancel()
	if c := ScopeIn(inside); c.Session() != "s" || c.Run() != "r" {
		t.Errorf("session %q, run %q", c.Session(), c.Run())
	}
	var same, other Session
	if err := same.Enter(inside, p, "s", p.row("s")); !errors.Is(err, ErrReentrant) {
		t.Errorf("the same session: %v", err)
	}
	idle := p.Close()
	if err := other.Enter(inside, p, "another", p.row("another")); err != nil {
		t.Errorf("another session, from within a turn that is under way: %v", err)
	}
	other.Undo()
	outer.Done()
	<-idle
	if err := same.Enter(inside, p, "s", p.row("s")); !errors.Is(err, ErrShuttingDown) {
		t.Errorf("after its turn: %v", err)
	}
}

// lockedRow is a store in which the row of one session is locked at times.
type lockedRow struct {
	checkpoint.Store
	locked func() bool
}

func (l *lockedRow) Renew(
	ctx context.Context, ttl time.Duration, all []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	for slices.ContainsFunc(all, func(l checkpoint.Lease) bool { return l.Session == "locked" }) && l.locked() {
		if err := keeper.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return l.Store.Renew(ctx, ttl, all)
}

// A session whose row is locked, and therefore not renewed, costs the others nothing.
func TestLockedRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := process(&lockedRow{new(checkpoint.Memory), func() bool {
			at := time.Since(start)
			return 9*time.Second < at && at < 19*time.Second || 20*time.Second < at && at < time.Minute
		}})
		var locked, other Session
		for session, s := range map[string]*Session{"locked": &locked, "other": &other} {
			if err := s.Acquire(t.Context(), p, session, p.row(session), false); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(50 * time.Second)
		if err := locked.Lost(); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("the session with the locked row: %v", err)
		}
		if err := other.Lost(); err != nil {
			t.Errorf("the other session: %v", err)
		}
		time.Sleep(time.Minute)
		locked.Done()
		other.Done()
		time.Sleep(time.Minute) // a renewal may be under way
	})
}
