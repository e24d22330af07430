package owner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// A halved store does not answer for the sessions whose names begin with "far" while it is away.
type halved struct {
	checkpoint.Store
	away func() bool
	// silent says that the store does not name the leases of which it does not know.
	silent bool
	calls  atomic.Int64
}

var errFar = errors.New("the part is away")

func (h *halved) Renew(
	ctx context.Context, ttl time.Duration, all []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	h.calls.Add(1)
	var near, far []checkpoint.Lease
	for _, l := range all {
		if h.away() && strings.HasPrefix(l.Session, "far") {
			far = append(far, l)
		} else {
			near = append(near, l)
		}
	}
	switch {
	case len(far) == 0:
		return h.Store.Renew(ctx, ttl, all)
	case h.silent:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	lost, err = h.Store.Renew(ctx, ttl, near)
	if err != nil {
		return lost, err
	}
	<-ctx.Done()
	return lost, &checkpoint.RenewError{Unknown: far, Err: errFar}
}

// part is 40 sessions near and 40 far, whose store is away for a time.
type part struct {
	store *halved
	log   bytes.Buffer
	near  [40]Session
	far   [40]Session
	p     *Process
}

func newPart(t *testing.T, from, to time.Duration, silent bool) *part {
	start := time.Now()
	m := &part{store: &halved{Store: new(checkpoint.Memory), silent: silent, away: func() bool {
		at := time.Since(start)
		return from < at && at < to
	}}}
	m.p = process(m.store)
	m.p.options.Logger = slog.New(slog.NewTextHandler(&m.log, nil))
	for i := range m.near {
		for name, s := range map[string]*Session{"near": &m.near[i], "far": &m.far[i]} {
			id := fmt.Sprint(name, i)
			if err := s.Acquire(t.Context(), m.p, id, m.p.row(id), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

func (m *part) want(t *testing.T, near, far error) {
	t.Helper()
	for i := range m.near {
		if err := m.near[i].Lost(); !errors.Is(err, near) {
			t.Errorf("near %d: %v, want %v", i, err, near)
		}
		if err := m.far[i].Lost(); !errors.Is(err, far) {
			t.Errorf("far %d: %v, want %v", i, err, far)
		}
	}
}

// end returns what was logged.
func (m *part) end() string {
	for i := range m.near {
		m.near[i].Done()
		m.far[i].Done()
	}
	time.Sleep(time.Minute) // a renewal may be under way
	return m.log.String()
}

// A part of the store that is away costs no lease on another part. An unknown lease is trusted for as long as before,
// and no longer.
func TestPartAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPart(t, 5*time.Second, 10*time.Minute, false)
		trusted := 30*time.Second - 30*time.Second/8
		time.Sleep(trusted - time.Millisecond)
		m.want(t, nil, nil)
		time.Sleep(2 * time.Millisecond)
		m.want(t, nil, lock.ErrExpired)
		time.Sleep(5 * time.Minute)
		m.want(t, nil, lock.ErrExpired)
		if n := m.store.calls.Load(); n > 40 {
			t.Errorf("%d calls of Renew", n)
		}
		time.Sleep(10 * time.Minute)
		log := m.end()
		if strings.Count(log, "leases not renewed") != 1 || !strings.Contains(log, "leases=40 of=80") ||
			strings.Count(log, "leases renewed again") != 1 {
			t.Error(log)
		}
	})
}

// A part that comes back in time costs nothing.
func TestPartBack(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newPart(t, 5*time.Second, 20*time.Second, silent)
			time.Sleep(5 * time.Minute)
			m.want(t, nil, nil)
			m.end()
		})
	}
}

// If the store does not say which leases it does not know, each is asked about by itself, for a time that leaves a turn
// to all.
func TestPartAwayUnnamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPart(t, 5*time.Second, 10*time.Minute, true)
		time.Sleep(5 * time.Minute)
		m.want(t, nil, lock.ErrExpired)
		m.end()
	})
}

// What the store calls lost is lost at once, also beside leases that are unknown.
func TestLostBesideUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPart(t, 5*time.Second, 10*time.Minute, false)
		f := m.near[7].fence
		_, err := m.store.Claim(t.Context(), key("near7"),
			checkpoint.ClaimRequest{Owner: "thief", Nonce: "thief", TTL: time.Hour, From: f})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if err := m.near[7].Lost(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("got %v", err)
		}
		if err := m.near[8].Lost(); err != nil {
			t.Error(err)
		}
		m.end()
	})
}
