package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// The states of a worker.
const (
	starting = "starting"
	running  = "running"
	stopped  = "stopped"
	draining = "draining"
	dead     = "dead"
)

// A worker is a process that serves, and the next one after it has died.
type worker struct {
	name      string
	args, env []string
	idle      func(context.Context) bool // whether nothing is being written

	mu      sync.Mutex // protects the following fields
	version int        // of the bot
	state   string
	cmd     *exec.Cmd
	url     *url.URL

	// serving ends when the process should get no requests any more. Requests that it has are given up then.
	serving context.Context
	giveUp  context.CancelFunc

	// changed is closed at the next change of state.
	changed chan struct{}
}

// keep starts the worker, and starts it anew when it has died, until ctx ends.
func (w *worker) keep(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.live(ctx)
		switch state, _ := w.watch(); {
		case state == dead, state == draining, ctx.Err() != nil: // a button has done it
		case err == nil:
			slog.InfoContext(ctx, "worker has ended", "worker", w.name)
		default:
			slog.WarnContext(ctx, "worker has ended; it is started again", "worker", w.name, "err", err)
		}
		w.set(dead)
		_ = pause(ctx, mourning)
	}
}

// live is the life of one process.
func (w *worker) live(ctx context.Context) error {
	w.set(starting)
	w.mu.Lock()
	args := append([]string{"-bot", strconv.Itoa(w.version)}, w.args...)
	w.mu.Unlock()
	cmd, err := workerCommand(args, w.env)
	if err != nil {
		return err
	}
	stdin, err := cmd.StdinPipe() // it is closed when this process has gone
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.mu.Lock()
	w.cmd = cmd
	w.mu.Unlock()
	gone := make(chan struct{})
	defer close(gone)
	go endWith(ctx, cmd, gone)
	if err := w.attend(ctx, stdout); err != nil {
		slog.DebugContext(ctx, "worker does not serve", "worker", w.name, "err", err)
	}
	_, _ = io.Copy(io.Discard, stdout) // until the process ends
	w.giveUpRequests()
	err = cmd.Wait()
	_ = stdin.Close()
	return err
}

// attend waits until the process serves.
func (w *worker) attend(ctx context.Context, stdout io.Reader) error {
	address, err := firstLine(stdout)
	if err != nil {
		return err
	}
	at, err := url.Parse(address)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.url = at
	w.serving, w.giveUp = context.WithCancel(ctx)
	w.mu.Unlock()
	w.set(running)
	return nil
}

// endWith lets a process end when ctx has ended, and kills it if it does not.
func endWith(ctx context.Context, cmd *exec.Cmd, gone <-chan struct{}) {
	select {
	case <-gone:
		return
	case <-ctx.Done():
	}
	_ = terminate(cmd.Process)
	last := time.NewTimer(lastChance)
	defer last.Stop()
	select {
	case <-gone:
	case <-last.C:
		_ = cmd.Process.Kill()
	}
}

// do does what a button says.
func (w *worker) do(what string) error {
	w.mu.Lock()
	state, cmd := w.state, w.cmd
	w.mu.Unlock()
	act := func(from, to string, signal func() error) error {
		if state != from {
			return fmt.Errorf("worker %s is %s", w.name, state)
		}
		w.set(to) // before the process ends of it
		if err := signal(); err != nil {
			w.set(from)
			return err
		}
		if to == stopped || to == dead { // one that drains answers what it has
			w.giveUpRequests()
		}
		return nil
	}
	switch what {
	case "kill":
		if state != running && state != stopped && state != draining {
			return fmt.Errorf("worker %s is %s", w.name, state)
		}
		return act(state, dead, cmd.Process.Kill)
	case "stop":
		return act(running, stopped, func() error { return w.stop(cmd.Process) })
	case "continue":
		return act(stopped, running, func() error { w.serveAgain(); return resume(cmd.Process) })
	case "deploy":
		w.mu.Lock()
		w.version = 3 - w.version
		w.mu.Unlock()
		fallthrough
	case "drain":
		return act(running, draining, func() error { return terminate(cmd.Process) })
	}
	return fmt.Errorf("a worker can be told to kill, stop, continue, drain or deploy")
}

// stop stops a process between two writes, if there is such a moment within ten seconds.
func (w *worker) stop(p *os.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for more := 5 * time.Millisecond; ; more *= 2 {
		if err := stop(p); err != nil {
			return err
		}
		_ = pause(ctx, 50*time.Millisecond) // a call to the system goes on, and may lock the file
		if w.idle(ctx) || ctx.Err() != nil {
			return nil
		}
		if err := resume(p); err != nil {
			return err
		}
		_ = pause(ctx, more)
	}
}

func (w *worker) set(state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	close(w.changed)
	w.changed = make(chan struct{})
}

// watch returns the state, and a channel that is closed when it changes.
func (w *worker) watch() (state string, changed chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

func (w *worker) giveUpRequests() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.giveUp != nil {
		w.giveUp()
	}
}

// serveAgain lets a worker that was stopped have requests.
func (w *worker) serveAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serving, w.giveUp = context.WithCancel(context.WithoutCancel(w.serving))
}

// place returns where the worker serves, and until when; nil if it does not.
func (w *worker) place() (*url.URL, context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != running {
		return nil, nil
	}
	return w.url, w.serving
}

func (w *worker) doc() workerDoc {
	w.mu.Lock()
	defer w.mu.Unlock()
	doc := workerDoc{Name: w.name, State: w.state, Bot: w.version}
	if w.state == starting {
		doc.State = dead // the page knows no other word
	}
	if w.cmd != nil && w.cmd.Process != nil {
		doc.PID = w.cmd.Process.Pid
		doc.Owner = ownerOf(doc.PID)
	}
	return doc
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
