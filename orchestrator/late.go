package orchestrator

import (
	"sync"
	"time"
)

// lateSummaries holds the sessions whose summarizer did not end in time. Without it, each of their turns would wait for
// the summarizer again.
type lateSummaries struct {
	mu       sync.Mutex // protects following field
	sessions map[string]pausing
}

type pausing struct {
	failures int
	until    time.Time
}

// mostLate bounds the sessions in lateSummaries. If there are more, the summarizer is down for all of them, and some
// wait again.
const mostLate = 4096

func (s *lateSummaries) pausing(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.sessions[session].until)
}

// note remembers whether the summarizer ran out of time.
func (s *lateSummaries) note(session string, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, known := s.sessions[session]
	if !late {
		delete(s.sessions, session)
		return
	}
	if !known && len(s.sessions) >= mostLate {
		clear(s.sessions)
	}
	if s.sessions == nil {
		s.sessions = make(map[string]pausing)
	}
	p.failures++
	p.until = time.Now().Add(min(time.Minute<<min(p.failures-1, 6), time.Hour))
	s.sessions[session] = p
}
