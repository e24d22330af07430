//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
)

// demonstration starts the demonstration.
func demonstration(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"-addr", "127.0.0.1:0", "-data", t.TempDir(), "-pace", "300ms"}, args...)
	return start(t, environment(stores.Config{}), args...)
}

func (c client) describe(t *testing.T) (doc configDoc) {
	t.Helper()
	c.must(t, http.StatusOK, http.MethodGet, "/app/config", "", nil, &doc)
	return doc
}

// awaitWorkers waits until the workers are in these states. It returns them.
func (c client) awaitWorkers(t *testing.T, states ...string) []workerDoc {
	t.Helper()
	for began := time.Now(); ; {
		all := c.describe(t).Workers
		fits := len(all) == len(states)
		for i := range all {
			fits = fits && all[i].State == states[i]
		}
		if fits {
			return all
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the workers are %+v, want %q", all, states)
		}
		if err := pause(t.Context(), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// provider sets how the payment provider behaves.
func (c client) provider(t *testing.T, mode provider.Mode) {
	t.Helper()
	c.must(t, http.StatusOK, http.MethodPost, "/app/provider", "", map[string]provider.Mode{"mode": mode}, nil)
}

func (c client) press(t *testing.T, worker, button string) {
	t.Helper()
	c.must(t, http.StatusOK, http.MethodPost, "/app/workers/"+worker, "", map[string]string{"do": button}, nil)
}

// Each button does what it says in the middle of a refund, and the order is paid once.
func TestDemo(t *testing.T) {
	for i, button := range []string{"kill", "stop", "drain", "deploy"} {
		t.Run(button, func(t *testing.T) {
			t.Parallel()
			p := demonstration(t)
			c := p.client()
			before := c.awaitWorkers(t, running, running)
			order := fmt.Sprintf("B-%d", 500+i)
			c.provider(t, provider.Timeout) // the payment does not end
			said := make(chan error, 1)
			go func() {
				turn, err := c.insist(t.Context(), "ada", "key", "I want a refund for "+order)
				if err == nil && turn.Reply.Receipt == "" {
					err = fmt.Errorf("%+v", turn)
				}
				said <- err
			}()
			awaitOwner(t.Context(), t, p, "ada", before[0].PID)
			awaitBeats(t.Context(), t, p.client(), "ada")
			c.press(t, "a", button)
			c.provider(t, provider.OK)
			began := time.Now()
			awaitOwner(t.Context(), t, p, "ada", before[1].PID)
			t.Logf("after %s another process has the turn within %v", button, time.Since(began))
			if err := <-said; err != nil {
				t.Fatal(err)
			}
			if button == "stop" {
				c.awaitWorkers(t, stopped, running)
				c.press(t, "a", "continue")
			}
			after := c.awaitWorkers(t, running, running)
			if same := after[0].PID == before[0].PID; same != (button == "stop") {
				t.Errorf("%+v, then %+v", before[0], after[0])
			}
			if want := map[bool]int{true: 2, false: 1}[button == "deploy"]; after[0].Bot != want || after[1].Bot != 1 {
				t.Errorf("versions %d and %d", after[0].Bot, after[1].Bot)
			}
			var paid struct{ Count int }
			c.must(t, http.StatusOK, http.MethodGet, "/app/payments", "", nil, &paid)
			if paid.Count != 1 {
				t.Errorf("%d payments", paid.Count)
			}
		})
	}
}

// The process of three refunds in flight ends. Each client gets its whole reply to its only request, and each order is
// paid once.
func TestDemoLosesNothing(t *testing.T) {
	t.Parallel()
	for i, end := range []string{"kill", "drain", "stop", "SIGTERM"} {
		t.Run(end, func(t *testing.T) {
			p := demonstration(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := p.client()
			before := c.awaitWorkers(t, running, running)
			c.provider(t, provider.Timeout)
			var clients sync.WaitGroup
			for j := range 3 {
				clients.Go(func() {
					var said turn
					text := map[string]string{"message": fmt.Sprintf("I want a refund for B-%d", 600+10*i+j)}
					path := fmt.Sprintf("/sessions/s-%d/turns", j)
					status, err := c.call(ctx, http.MethodPost, path, "key", text, &said)
					if err != nil || status != http.StatusOK || said.Reply.Receipt == "" {
						t.Errorf("session %d: %d, %v, %+v", j, status, err, said)
					}
				})
			}
			for j := range 3 {
				awaitOwner(ctx, t, p, fmt.Sprintf("s-%d", j), before[0].PID)
			}
			awaitBeats(ctx, t, p.client(), "s-0")
			if end == "SIGTERM" {
				if err := syscall.Kill(before[0].PID, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			} else {
				c.press(t, "a", end)
			}
			c.provider(t, provider.OK)
			clients.Wait()
			var paid struct{ Count int }
			c.must(t, http.StatusOK, http.MethodGet, "/app/payments", "", nil, &paid)
			if paid.Count != 3 {
				t.Errorf("%d payments", paid.Count)
			}
		})
	}
}

// A worker that was stopped, and has lost its sessions meanwhile, alarms nobody when it goes on.
func TestDemoFenced(t *testing.T) {
	t.Parallel()
	p := demonstration(t)
	c := p.client()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := c.awaitWorkers(t, running, running)
	c.provider(t, provider.Timeout)
	said := make(chan error, 1)
	go func() {
		_, err := c.insist(ctx, "ada", "key", "I want a refund for B-700")
		said <- err
	}()
	awaitOwner(ctx, t, p, "ada", before[0].PID)
	awaitBeats(ctx, t, p.client(), "ada")
	c.press(t, "a", "stop")
	c.provider(t, provider.OK)
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	c.press(t, "a", "continue")
	c.awaitWorkers(t, running, running)
	c.press(t, "b", "kill") // so a serves, and has said before what it has to say
	c.say(t, "ada", "next", "Hello")
	if log := p.stderr.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the terminal says\n%s", log)
	}
}

// The provider misbehaves as it is told, and buttons that do not fit are refused.
func TestDemoBadRequests(t *testing.T) {
	t.Parallel()
	c := demonstration(t).client()
	c.must(t, http.StatusOK, http.MethodPost, "/app/provider", "", map[string]string{"mode": "slow"}, nil)
	var now struct{ Mode string }
	if c.must(t, http.StatusOK, http.MethodGet, "/app/provider", "", nil, &now); now.Mode != "slow" {
		t.Errorf("the mode is %q", now.Mode)
	}
	c.must(t, http.StatusBadRequest, http.MethodPost, "/app/provider", "", map[string]string{"mode": "generous"}, nil)
	c.awaitWorkers(t, running, running)
	c.must(t, http.StatusConflict, http.MethodPost, "/app/workers/a", "", map[string]string{"do": "continue"}, nil)
	c.must(t, http.StatusConflict, http.MethodPost, "/app/workers/a", "", map[string]string{"do": "dance"}, nil)
	c.must(t, http.StatusBadRequest, http.MethodPost, "/app/workers/a", "", "kill", nil)
	c.must(t, http.StatusNotFound, http.MethodPost, "/app/workers/c", "", map[string]string{"do": "kill"}, nil)

	// A page of another origin may not press a button.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url()+"/app/workers/a", strings.NewReader(`{"do":"kill"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// The workers end with their parent, however it ends, also a worker that is stopped.
func TestNoOrphans(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := demonstration(t)
			workers := p.client().awaitWorkers(t, running, running)
			if signal == syscall.SIGKILL {
				p.client().press(t, "b", "stop")
			}
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if status := p.status(); status != 0 && signal != syscall.SIGKILL {
				t.Errorf("status %d\n%s", status, p.stderr)
			}
			for _, w := range workers {
				for began := time.Now(); syscall.Kill(w.PID, 0) == nil && !zombie(w.PID); {
					if time.Since(began) > 30*time.Second {
						t.Fatalf("worker %s lives on", w.Name)
					}
					_ = pause(t.Context(), 20*time.Millisecond)
				}
			}
		})
	}
}

// zombie reports whether a process has ended, and its parent has not waited for it.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// The tour kills processes between two iterations, and before the settle. The refund is paid once. Nothing is left.
func TestTour(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	env := append(environment(stores.Config{}), "TMPDIR="+temp)
	p, first := launch(t, env, "-tour", "-pace", "300ms")
	if status := p.status(); status != 0 || p.stderr.String() != "" {
		t.Errorf("status %d\n%s", status, p.stderr)
	}
	said := first + p.stdout.String()
	for _, want := range []string{
		`^Two processes serve one bot`, `(?m)kill -9 before it pays\.$`, `(?m)in the middle of the reply\.$`,
		`(?m)^The turn is settled: "Thank you`, `(?m)^Order A-1007 was paid 1 time\.\n\z`,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("it says\n%swant %s", said, want)
		}
	}
	if strings.Contains(said, "\x1b") || strings.Contains(said, "\r") {
		t.Errorf("it has colours where there is no terminal: %q", said)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
