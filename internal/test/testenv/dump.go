package testenv

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Dump saves the database of a PostgreSQL with pg_dump. Each call of restore makes a new database of what was saved, on
// the same server, and returns its URL.
func (s *Server) Dump() (restore func() (url string)) {
	s.tb.Helper()
	file := filepath.Join(s.tb.TempDir(), "dump")
	at := []string{"--host=127.0.0.1", fmt.Sprint("--port=", s.d.port), "--username=postgres"}
	run := func(program string, args ...string) {
		s.tb.Helper()
		path, err := binary(program, postgresDirs)
		must(s.tb, err)
		must(s.tb, output(exec.CommandContext(s.tb.Context(), path, append(at, args...)...)))
	}
	run("pg_dump", "--format=custom", "--file="+file, "postgres")
	n := 0
	return func() string {
		s.tb.Helper()
		n++
		name := fmt.Sprint("restored", n)
		must(s.tb, exec1(s.tb.Context(), s.URL, "CREATE DATABASE "+name))
		run("pg_restore", "--exit-on-error", "--dbname="+name, file)
		return strings.Replace(s.URL, "/postgres?", "/"+name+"?", 1)
	}
}
