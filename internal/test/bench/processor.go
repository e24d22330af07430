package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A meter lists the threads whose use of processors counts. nil counts nothing.
type meter func() (threads []string)

// A usage is how many nanoseconds threads have run.
type usage map[string]uint64

// read reads the meter. A thread that has ended meanwhile does not count.
func (m meter) read() usage {
	if m == nil {
		return nil
	}
	u := make(usage)
	for _, thread := range m() {
		var ran uint64
		stat, err := os.ReadFile(filepath.Join(thread, "schedstat"))
		if err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(stat), &ran); err == nil {
			u[thread] = ran
		}
	}
	return u
}

// since returns how long the threads have run since before.
func (u usage) since(before usage) (nanoseconds uint64) {
	for thread, ran := range u {
		nanoseconds += ran - before[thread]
	}
	return nanoseconds
}

// clientAndServer meters this process and all processes of the server of pool.
func clientAndServer(ctx context.Context, pool *pgxpool.Pool) (meter, error) {
	var backend int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", backend))
	if err != nil {
		return nil, err
	}
	var state string
	var parent int
	_, after, _ := strings.Cut(string(stat), ") ") // the name of the program comes before, in parentheses
	if _, err := fmt.Sscan(after, &state, &parent); err != nil {
		return nil, err
	}
	return func() []string {
		threads, _ := filepath.Glob("/proc/self/task/*")
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", parent))
		for _, child := range strings.Fields(string(children)) {
			threads = append(threads, "/proc/"+child)
		}
		return threads
	}, nil
}
