package testenv

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

var Must, ErrUnavailable = must, errUnavailable
