package owner

import (
	"hash/maphash"
	"sync"
	"time"
)

// Without a Locker no caller queues at the store. If a process claims a session again as soon as it has given it back,
// no other process can get the session. So the process leaves gaps, in which others find the session free.
//
// A short gap is enough for a process that has seen the session change hands, and therefore looks often. A full gap is
// longer than any pause between two claims of a process. So no caller waits for much longer than a full stretch.
const (
	shortStretch = 500 * time.Millisecond
	shortestGap  = 10 * time.Millisecond

	// gapShare sets a short gap: one part in so many of the stretch.
	gapShare = 40

	// lookOften is the pause of a waiter that has seen the session change hands.
	lookOften = shortestGap / 2

	fullStretch = 6 * time.Second
	fullGap     = longestPause + 50*time.Millisecond
)

// stretches hold how long this process has used its sessions without a gap. The table has a fixed size: if two sessions
// share a place, a gap comes early or late, which does no harm.
type stretches struct {
	once sync.Once
	seed maphash.Seed

	mu    sync.Mutex // protects following field
	table [256]stretch
}

type stretch struct {
	session uint64

	// gap and full are since when the session is used without a gap, and without a full gap.
	gap, full time.Time
	last      time.Time // when it was last given back
}

// used notes that the session was claimed at claimed, and is given back now.
func (s *stretches) used(session string, claimed time.Time) {
	id := s.id(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.table[id%uint64(len(s.table))]
	if t.session != id {
		*t = stretch{session: id, gap: claimed, full: claimed}
	}
	t.last = time.Now()
}

// gap returns how long to leave the session alone before the next claim; mostly 0.
func (s *stretches) gap(session string) time.Duration {
	id, now := s.id(session), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.table[id%uint64(len(s.table))]
	if t.session != id {
		return 0
	}
	left, used := now.Sub(t.last), now.Sub(t.gap)
	short := min(max(used/gapShare, shortestGap), fullGap)
	switch {
	case left >= fullGap:
		*t = stretch{}
		return 0
	case now.Sub(t.full) >= fullStretch:
		*t = stretch{}
		return fullGap - left
	case left >= short:
		t.gap = now
		return 0
	case used < shortStretch:
		return 0
	}
	t.gap = now
	return short - left
}

func (s *stretches) id(session string) uint64 {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	return maphash.String(s.seed, session)
}
