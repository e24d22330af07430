package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A goTool runs the go command in a directory.
type goTool struct {
	ctx context.Context
	dir string
}

func (g goTool) run(args ...string) ([]byte, error) {
	cmd := exec.CommandContext(g.ctx, "go", args...)
	cmd.Dir = g.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// list returns the packages, and the packages that they need, with the files of their exported types.
func (g goTool) list(patterns ...string) ([]goPackage, error) {
	out, err := g.run(append([]string{"list", "-export", "-deps", "-json"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		switch err := d.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, p)
	}
}

// A program is the compiled test of a package.
type program struct {
	suite
	path, dir string
	took      time.Duration // without a mutant
	reached   map[int]bool  // the mutants that the tests come by
}

// A suite is a package whose tests test the package that is changed.
type suite struct {
	pkg       string
	run, skip string // as for go test
}

// compile builds the tests of a package with an overlay.
func (g goTool) compile(s suite, overlay, to string) (*program, error) {
	if _, err := g.run("test", "-c", "-vet=off", "-overlay", overlay, "-o", to, s.pkg); err != nil {
		return nil, err
	}
	dir, err := g.run("list", "-f", "{{.Dir}}", s.pkg)
	if err != nil {
		return nil, err
	}
	return &program{suite: s, path: to, dir: strings.TrimSpace(string(dir))}, nil
}

// A verdict says what the tests found about a mutant.
type verdict string

const (
	killed     verdict = "killed"
	survived   verdict = "survived"
	timedOut   verdict = "timed out"
	notReached verdict = "not reached" // survived, because no test comes by
)

// limits bound what a test program may use.
type limits struct {
	memory int // in GiB; 0 is no bound
	least  time.Duration
	factor int // how often the time that the program takes without a mutant
	env    []string
}

// run runs the tests with a mutant switched on. It returns the text of a failure too.
func (p *program) run(ctx context.Context, mutant int, l limits, env ...string) (verdict, string, error) {
	limit := l.least + time.Duration(l.factor)*p.took
	args := []string{"-test.failfast", "-test.short", "-test.timeout", limit.String()}
	if p.suite.run != "" {
		args = append(args, "-test.run", p.suite.run)
	}
	if p.skip != "" {
		args = append(args, "-test.skip", p.skip)
	}
	// A program that does not act on its own timeout is killed.
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	// A program that is killed leaves its files.
	files, err := tempDir(filepath.Dir(p.path), "files-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(files) //nolint:errcheck // it is in the directory for temporary files
	cmd := l.bounded(ctx, p.path, args)
	cmd.Dir = p.dir
	cmd.Env = slices.Concat(l.env, []string{mutantEnv + "=" + strconv.Itoa(mutant), "TMPDIR=" + files}, env)
	cmd.WaitDelay = time.Second // a child of the test may hold its output
	ownGroup(cmd)
	out, err := cmd.CombinedOutput()
	killGroup(cmd) // a child with the mutant may never end
	switch exit, ended := errors.AsType[*exec.ExitError](err); {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return "", "", ctx.Err()
	case ctx.Err() != nil || bytes.Contains(out, []byte("panic: test timed out after")):
		return timedOut, string(out), nil
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return survived, "", nil
	case ended && exit.ExitCode() != 0:
		return killed, string(out), nil
	}
	return "", "", fmt.Errorf("%s: %w", p.pkg, err)
}

// tempDir makes a directory that every user may read: a test of root runs its servers as another user.
func tempDir(parent, pattern string) (string, error) {
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // see above
}

// bounded returns a command whose memory is bounded, because a mutant may allocate without end.
func (l limits) bounded(ctx context.Context, path string, args []string) *exec.Cmd {
	if l.memory == 0 || runtime.GOOS == "windows" {
		return exec.CommandContext(ctx, path, args...)
	}
	script := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, l.memory<<20)
	return exec.CommandContext(ctx, "sh", append([]string{"-c", script, path}, args...)...)
}

// withoutMutant runs a program, which must pass. It notes how long that takes, and which mutants the tests come by.
func (p *program) withoutMutant(ctx context.Context, l limits, dir string) error {
	log := filepath.Join(dir, "reached")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		return err
	}
	const patience = 20 * time.Minute
	start := time.Now()
	v, out, err := p.run(ctx, 0, limits{memory: l.memory, least: patience, env: l.env}, reachedEnv+"="+log)
	p.took = time.Since(start)
	if err == nil && v != survived {
		err = fmt.Errorf("%s fails without a mutant:\n%s", p.pkg, out)
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(log)
	p.reached = make(map[int]bool)
	for line := range strings.FieldsSeq(string(text)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		p.reached[id] = true
	}
	return err
}
