package testenv

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A child is a process that dies with this process.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// startChild starts cmd in a process group of its own. When this process dies for any reason, the child gets the
// signal death.
func startChild(cmd *exec.Cmd, death syscall.Signal) (*child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	// If a stopped member of a group loses its parent, the kernel continues it, so that it can act on the signal.
	ownGroup(cmd.SysProcAttr)
	dieWithParent(cmd.SysProcAttr, death)

	started := make(chan error)
	launcher() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	p := &child{cmd: cmd, exited: make(chan struct{})}
	go p.wait()
	return p, nil
}

// launcher returns a channel of functions, which one OS thread calls. When the thread that started a child ends, the
// kernel tells the child that its parent died. Therefore that thread must never end.
var launcher = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go launch(c)
	return c
})

func launch(c <-chan func()) {
	runtime.LockOSThread()
	for f := range c {
		f()
	}
}

func (p *child) wait() {
	p.cmd.Wait() //nolint:errcheck // ProcessState tells how it ended
	close(p.exited)
}

func (p *child) pid() int { return p.cmd.Process.Pid }

func (p *child) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// freeze stops the process and its children with SIGSTOP. It returns all their ids, the children first.
func (p *child) freeze() ([]int, error) {
	if err := kill(p.pid(), sigStop); err != nil {
		return nil, err
	}
	// A parent that has stopped cannot fork any more.
	err := await(10*time.Second, p.exited, func(context.Context) error {
		if s := processState(p.pid()); s != 'T' {
			return fmt.Errorf("process is in state %q after SIGSTOP", s)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	pids := append(children(p.pid()), p.pid())
	return pids, signalAll(pids, sigStop)
}

func (p *child) thaw() error {
	return signalAll(append(children(p.pid()), p.pid()), sigCont)
}

// kill kills the process and its children with SIGKILL and returns when all are gone.
func (p *child) kill() error {
	if !p.alive() {
		return nil
	}
	pids, err := p.freeze()
	if err != nil {
		return err
	}
	if err := signalAll(pids, syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return awaitGone(pids)
}

// quit ends the process with sig. If the process does not end, quit kills it.
func (p *child) quit(sig syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	pids := append(children(p.pid()), p.pid())
	if err := signalAll(pids[len(pids)-1:], sig); err != nil {
		return err
	}
	if err := p.thaw(); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return awaitGone(pids)
	case <-time.After(time.Minute):
		return p.kill()
	}
}

func awaitGone(pids []int) error {
	return await(time.Minute, nil, func(context.Context) error {
		for _, pid := range pids {
			if s := processState(pid); s != 0 && s != 'Z' {
				return fmt.Errorf("process %d is still there, in state %q", pid, s)
			}
		}
		return nil
	})
}

// signalAll sends sig to all processes of pids that still exist.
func signalAll(pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%v to process %d: %w", sig, pid, err)
		}
	}
	return nil
}

// await calls f every few milliseconds until it returns nil. It gives up with
// f's last error after limit, or when stop is closed.
func await(limit time.Duration, stop <-chan struct{}, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-stop:
			return err
		case <-ctx.Done():
			return fmt.Errorf("gave up after %v: %w", limit, err)
		}
	}
}
