package main

import (
	"os/exec"
	"strings"
	"testing"
)

// What passes is one line, what fails is printed whole, and what is skipped is counted by reason.
func TestReport(t *testing.T) {
	events := `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: needs PostgreSQL\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB/sub","Output":"    b_test.go:17: needs PostgreSQL\n"}
{"Action":"skip","Package":"p","Test":"TestB/sub"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    b_test.go:18: only in a soak\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestD","Output":"    b_test.go:19: a log of a test that passes\n"}
{"Action":"pass","Package":"p","Test":"TestD"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
{"Action":"output","Package":"q","Test":"TestE","Output":"    e_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"q","Test":"TestE"}
{"ImportPath":"r","Action":"build-output","Output":"r.go:1: syntax error\n"}
{"ImportPath":"r","Action":"build-fail"}
`
	want := `ok  	p	0.1s
    e_test.go:1: got 1, want 2
r.go:1: syntax error
   2 tests skipped: needs PostgreSQL
   1 tests skipped: only in a soak
`
	var got strings.Builder
	r := newReport(&got)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	r.skips()
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

// What is slow, what is tested with what is slow, and what has no tests is left out. The first two are said.
func TestLeaveOut(t *testing.T) {
	args, left := leaveOut(module + "lock  testing " + module + "lock\n" + module + "internal/test/bench testing \n" +
		module + "internal/test/stores/x testing " + module + "internal/test/testenv \n" + module + "postgres  \n")
	if len(args) != 3 || args[0] != "-skip" || !strings.HasSuffix(args[1], "|^Test(Users|ReadmeProgram)$") ||
		args[2] != module+"lock" {
		t.Errorf("got %q", args)
	}
	for what, want := range map[string]bool{
		"bench": true, "stores": true, "programs in the documents": true, "openai": false,
	} {
		if said := strings.Join(left, "\n"); strings.Contains(said, what) != want {
			t.Errorf("%s, want %t: %s", what, want, said)
		}
	}
}

// Each line of slow is about something that is there.
func TestSlowIsThere(t *testing.T) {
	list, err := exec.CommandContext(t.Context(), "go", "list", "-f", format, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, left := leaveOut(string(list)); len(left) != len(slow) {
		t.Errorf("found only %q", left)
	}
}
