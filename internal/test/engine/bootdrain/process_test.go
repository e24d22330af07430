package bootdrain_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// A child is another process, which does a job. It does not outlive the test.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (j job) start(t *testing.T) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &child{t: t, cmd: exec.CommandContext(patience(t), exe)}
	p.cmd.Env = append(os.Environ(), jobEnv+"="+j.text())
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

// hear waits for the next line of the process.
func (p *child) hear(want string) {
	p.t.Helper()
	if !p.out.Scan() || p.out.Text() != want {
		p.t.Fatalf("the process says %q, want %q", p.out.Text(), want)
	}
}

// outcomes waits for the last line of a drain.
func (p *child) outcomes() outcomes {
	p.t.Helper()
	var sum outcomes
	if !p.out.Scan() {
		p.t.Fatal("the process ended without a word")
	}
	if err := json.Unmarshal(p.out.Bytes(), &sum); err != nil {
		p.t.Fatalf("%v: %q", err, p.out.Text())
	}
	p.exit()
	return sum
}

func (p *child) goOn() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "go on\n"); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end of a process that has done its job.
func (p *child) exit() {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
}

// kill kills the process with SIGKILL.
func (p *child) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.killed()
}

// killed waits for the death of a process. If the process ends in another way, killed fails the test.
func (p *child) killed() {
	p.t.Helper()
	for p.out.Scan() {
		p.t.Errorf("the process lives, and says %q", p.out.Text())
	}
	err := p.cmd.Wait()
	if e, ok := errors.AsType[*exec.ExitError](err); !ok || e.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		p.t.Fatalf("the process was not killed: %v", err)
	}
}

// orphan leaves an input "hello" in flight in each session, in a process that is killed in the intent. Its leases end
// at once.
func orphan(t *testing.T, s site, w opened, sessions ...string) {
	t.Helper()
	p := job{Do: execute, Site: s, Body: wait, Sessions: sessions, Text: "hello"}.start(t)
	p.hear(inFlight)
	p.kill()
	w.free(t, sessions...)
}

// free takes sessions from a dead owner and releases them, so that no caller has to wait for the leases. A claim of the
// dead owner may come to the server after its death, and change the fence again.
func (w opened) free(t *testing.T, sessions ...string) {
	t.Helper()
	for _, session := range sessions {
		key := checkpoint.Key{Orchestrator: "support", Session: session}
		claim := checkpoint.ClaimRequest{Owner: "test", Nonce: rand.Text(), TTL: time.Minute}
		if !w.take(t, key, claim) {
			t.Fatalf("%s has no owner", session)
		}
	}
}

// seize is free for sessions of which the dead process has released some, or had not begun.
func (w opened) seize(t *testing.T, sessions ...string) {
	t.Helper()
	for _, session := range sessions {
		key := checkpoint.Key{Orchestrator: "support", Session: session}
		w.take(t, key, checkpoint.ClaimRequest{Owner: "test", Nonce: rand.Text(), TTL: time.Minute})
	}
}

// take makes a claim, and releases it. owned says that another owner was there.
func (w opened) take(t *testing.T, key checkpoint.Key, claim checkpoint.ClaimRequest) (owned bool) {
	t.Helper()
	got, err := w.checkpoints.Claim(t.Context(), key, claim)
	dead, owned := errors.AsType[*checkpoint.HeldError](err)
	for ok := owned; ok && dead.Fence != claim.From; dead, ok = errors.AsType[*checkpoint.HeldError](err) {
		claim.From = dead.Fence
		got, err = w.checkpoints.Claim(t.Context(), key, claim)
	}
	if err == nil {
		err = w.checkpoints.Mark(t.Context(), got.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		t.Fatalf("%s: %v", key.Session, err)
	}
	return owned
}
