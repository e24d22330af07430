package orchestratortest

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// calls are the calls of the stores.
var calls = []string{
	"checkpoint.Claim", "checkpoint.Renew", "checkpoint.Held", "checkpoint.Append", "checkpoint.Mark",
	"checkpoint.Delete", "checkpoint.Turns", "checkpoint.Sessions", "checkpoint.Head",
	"snapshot.Begin", "snapshot.Adopt", "snapshot.Save", "snapshot.Delete", "snapshot.Runs",
	"ledger.Adopt", "ledger.Issue", "ledger.Finish", "ledger.Record", "ledger.Effects",
	"turnlog.Record",
}

// Fail lets the next calls fail: so many calls of a store by its name, or of any call if call is "". 0 means all from
// now on. A call that fails does not reach the store. Its error is that of a refused connection.
func (p *Process[S]) Fail(call string, times int) {
	p.life.add(&fault{call: call, times: times, kind: fails})
}

// LoseReply lets the next calls lose their replies, as Fail counts them. The store does what it is asked. The process
// gets the error of a broken connection.
func (p *Process[S]) LoseReply(call string, times int) {
	p.life.add(&fault{call: call, times: times, kind: loses})
}

// Slow makes the calls of a name, or all calls if call is "", take d longer, until the process ends. If their context
// ends first, they do not reach the store.
func (p *Process[S]) Slow(call string, d time.Duration) {
	p.life.add(&fault{call: call, kind: slows, takes: d})
}

// CutOff cuts this process off from its stores. Its calls wait until they are over, or until reconnect is called. Other
// processes are not cut off.
func (p *Process[S]) CutOff() (reconnect func()) { return p.life.cutOff() }

func (l *life) cutOff() (reconnect func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := make(chan struct{})
	l.cut = cut
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cut == cut {
			close(cut)
			l.cut = nil
		}
	}
}

// gone is the error of the stores of a dead process. No answer ends a call sooner than that of a fence.
func gone() error { return fmt.Errorf("%w: %w", ErrDied, lock.ErrFenced) }

// do makes a call of a store, with what is to happen to it.
func (l *life) do(ctx context.Context, call string, f func(context.Context) error) error {
	if l.pass(call, true) {
		return gone()
	}
	if err := l.connected(ctx); err != nil {
		return err
	}
	fault := l.next(call)
	if fault != nil && fault.kind == fails {
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if fault != nil && fault.kind == slows {
		if err := l.wait(ctx, fault.takes); err != nil {
			return err
		}
	}
	err := f(ctx)
	switch {
	case l.pass(call, false):
		return gone()
	case fault != nil && fault.kind == loses:
		return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	return err
}

// reachable returns an error if the process is dead or cut off. It does not wait: no process would see the beats of a
// process that is cut off, and no test has to end them.
func (l *life) reachable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != nil || l.over.Err() != nil {
		return gone()
	}
	return nil
}

// connected waits while the process is cut off.
func (l *life) connected(ctx context.Context) error {
	for {
		l.mu.Lock()
		cut := l.cut
		l.mu.Unlock()
		if cut == nil {
			return nil
		}
		select {
		case <-cut:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.over.Done():
			return gone()
		}
	}
}

func (l *life) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.over.Done():
		return gone()
	}
}
