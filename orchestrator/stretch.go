package orchestrator

import (
	"hash/maphash"
	"sync"
	"time"
)

// Without a Locker nobody queues at the store. A process that claims a session again as soon as it has given it back would keep
// other processes from it for as long as it goes on. So after a stretch it leaves a gap of a twentieth of that time, in which
// others, who look at intervals, find the session free.
const (
	longStretch = 500 * time.Millisecond
	shortestGap = 10 * time.Millisecond
	longestGap  = longestPause + 50*time.Millisecond
	lookOften   = shortestGap / 2 // of a waiter that has seen the session change hands
)

// stretches know how long this process has used its sessions without a gap. It is a table of fixed size: two sessions that share
// a place make a gap come early or late, which does no harm.
type stretches struct {
	once sync.Once
	seed maphash.Seed

	mu    sync.Mutex // protects following field
	table [256]stretch
}

type stretch struct {
	session     uint64
	since, last time.Time // since when it is used, and when it was given back
}

// used notes that the session was given back.
func (s *stretches) used(session string) {
	id, now := s.id(session), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.table[id%uint64(len(s.table))]
	if t.session != id {
		*t = stretch{session: id, since: now}
	}
	t.last = now
}

// gap returns how long to leave the session alone before it is claimed; mostly 0.
func (s *stretches) gap(session string) time.Duration {
	id, now := s.id(session), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.table[id%uint64(len(s.table))]
	if t.session != id {
		return 0
	}
	used, left := now.Sub(t.since), now.Sub(t.last)
	gap := min(max(used/20, shortestGap), longestGap)
	switch {
	case left >= gap: // there was one
		*t = stretch{}
		return 0
	case used < longStretch:
		return 0
	}
	*t = stretch{}
	return gap - left
}

func (s *stretches) id(session string) uint64 {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	return maphash.String(s.seed, session)
}
