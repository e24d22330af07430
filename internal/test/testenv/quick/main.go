// Command quick runs go test without servers, without the race detector and without go vet, prints what fails, and says
// at the end how many tests were skipped and why, and what it left out because it is slow:
//
//	go run ./internal/test/testenv/quick packages…
//
// go test itself says what it skipped only with -v, among the names of all tests.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	list := exec.Command("go", append([]string{"list", "-f", format}, os.Args[1:]...)...) //nolint:gosec // packages
	list.Stderr = os.Stderr
	packages, err := list.Output()
	if err != nil {
		fatal(err)
	}
	args, left := leaveOut(string(packages))
	code, err := test(args)
	if err != nil {
		fatal(err)
	}
	for _, what := range left {
		fmt.Println("left out:", what)
	}
	os.Exit(code)
}

// test runs go test. It returns the exit code.
func test(args []string) (code int, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json", "-vet=off"}, args...)...) //nolint:gosec // see main
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	r := newReport(os.Stdout)
	if err := r.read(events); err != nil {
		return 0, err
	}
	err = cmd.Wait()
	r.skips()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "quick:", err)
	os.Exit(1)
}

// An event is a line of go test -json.
type event struct{ Action, Package, Test, ImportPath, Output string }

// key names what the output belongs to: a test, a package or a build.
func (e event) key() string { return e.Package + e.ImportPath + " " + e.Test }

// A report prints like go test, and adds a summary of the tests that were skipped.
type report struct {
	w       io.Writer
	output  map[string][]string // of each test and package that has not ended
	reasons map[string]int      // why tests were skipped, and how many
}

func newReport(w io.Writer) *report {
	return &report{w: w, output: make(map[string][]string), reasons: make(map[string]int)}
}

func (r *report) read(events io.Reader) error {
	for dec := json.NewDecoder(events); ; {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r.add(e)
	}
}

func (r *report) add(e event) {
	k := e.key()
	switch e.Action {
	case "output", "build-output":
		r.output[k] = append(r.output[k], e.Output)
		return
	case "fail", "build-fail":
		r.print(r.output[k])
	case "pass", "skip":
		if e.Test == "" { // the verdict on the package
			r.print(r.output[k][max(0, len(r.output[k])-1):])
		} else if e.Action == "skip" {
			r.reasons[reason(r.output[k])]++
		}
	default:
		return
	}
	delete(r.output, k)
}

func (r *report) print(lines []string) {
	for _, line := range lines {
		fmt.Fprint(r.w, line)
	}
}

// place is where a test called Skip.
var place = regexp.MustCompile(`^ +\w+\.go:\d+: `)

// reason finds in the output of a test why it was skipped.
func reason(output []string) string {
	for _, line := range output {
		if at := place.FindString(line); at != "" {
			return strings.TrimSpace(line[len(at):])
		}
	}
	return "no reason given"
}

// skips says why tests were skipped, the most frequent reason first.
func (r *report) skips() {
	reasons := slices.Collect(maps.Keys(r.reasons))
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.reasons[b], r.reasons[a]), strings.Compare(a, b))
	})
	for _, why := range reasons {
		fmt.Fprintf(r.w, "%4d tests skipped: %s\n", r.reasons[why], why)
	}
}
