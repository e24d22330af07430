package testenv

import "testing"

// Pids returns the processes of the server.
func (s *Server) Pids() []int {
	pid := s.d.proc.pid()
	return append(children(pid), pid)
}

// Gone reports whether the process is gone.
func Gone(pid int) bool {
	s := processState(pid)
	return s == 0 || s == 'Z'
}

// Need skips the test without the variables of make test.
func Need(tb testing.TB) {
	for _, e := range []engine{postgresEngine{}, redisEngine{}} {
		_, err := server(e)
		must(tb, err)
	}
}

var Must, ErrUnavailable = must, errUnavailable
