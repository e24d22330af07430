package agent

import (
	"strings"
	"sync"
)

// A speech is what a model says while it answers.
type speech struct {
	emit func(string) // nil: nobody hears it
	most int          // bytes that are kept

	mu   sync.Mutex // protects following fields
	call int
	text strings.Builder
}

// begin begins a call, and returns the function that takes its tokens. After end that function does nothing.
func (s *speech) begin() (token func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call++
	s.text.Reset()
	call := s.call
	return func(delta string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.call != call || s.emit == nil {
			return
		}
		if s.text.Len() < s.most {
			s.text.WriteString(delta)
		}
		s.emit(delta)
	}
}

// end ends a call. What was said in it stays.
func (s *speech) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call++
}

// forget drops what was said, and reports whether there was anything.
func (s *speech) forget() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.Len() > 0
}

// String returns what was said, in a form that every store takes.
func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return clip(s.text.String(), s.most)
}
