package workflows_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A hook makes a process wait at a call for its run. Calls that claim nothing, and those that only ask whether the run
// is still owned, do not count.
type hook struct {
	strike int
	after  bool
	out    io.Writer     // hears that the process waits
	up     chan struct{} // closed when the engine runs
	goOn   chan struct{} // closed when the process may go on

	// alone is locked for the time of the wait, unless it is nil. All other calls hold it for reading. So the process
	// does not stop as the writer of a file: nobody else could write.
	alone *sync.RWMutex

	mu    sync.Mutex // protects following fields
	calls int
	seen  bool
}

// wait tells the test that the process waits, and waits.
func (h *hook) wait() {
	if h.alone != nil {
		h.alone.Lock()
		defer h.alone.Unlock()
	}
	fmt.Fprintln(h.out, here)
	<-h.goOn
}

// beside makes a call at which the process does not wait.
func (h *hook) beside(call func()) {
	if h.alone != nil {
		h.alone.RLock()
		defer h.alone.RUnlock()
	}
	call()
}

func (h *hook) count() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return h.calls
}

// around makes a call.
func (h *hook) around(call func()) {
	n := h.count()
	if n == h.strike && !h.after {
		h.wait()
	}
	h.beside(call)
	if n == h.strike && h.after {
		h.wait()
	}
}

// claims is called before each claim.
func (h *hook) claims() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.seen {
		h.seen = true
		close(h.up)
	}
}

// A database is a store of runs with all that an engine uses of it.
type database interface {
	workflow.Store
	workflow.Listener
	lock.Beater
}

// A struck is a store whose process waits at a call.
type struck struct {
	database
	*hook
}

func (s *struck) Start(ctx context.Context, runs []workflow.NewRun) (all []workflow.Started, err error) {
	s.around(func() { all, err = s.database.Start(ctx, runs) })
	return all, err
}

func (s *struck) Write(ctx context.Context, entries []workflow.Entry) (verdicts []error, err error) {
	if e := &entries[0]; len(entries) == 1 && e.Next == workflow.Stay && len(e.Steps) == 0 {
		s.beside(func() { verdicts, err = s.database.Write(ctx, entries) })
		return verdicts, err
	}
	s.around(func() { verdicts, err = s.database.Write(ctx, entries) })
	return verdicts, err
}

func (s *struck) Send(ctx context.Context, messages []workflow.Message) (receipts []workflow.Receipt, err error) {
	s.around(func() { receipts, err = s.database.Send(ctx, messages) })
	return receipts, err
}

func (s *struck) Claim(
	ctx context.Context, r workflow.ClaimRequest,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	s.claims()
	s.beside(func() { claimed, next, err = s.database.Claim(ctx, r) })
	if len(claimed) > 0 {
		if n := s.count(); n == s.strike && s.after {
			s.wait()
		}
	}
	return claimed, next, err
}

func (s *struck) Steps(ctx context.Context, run string) iter.Seq2[workflow.Step, error] {
	return func(yield func(workflow.Step, error) bool) {
		var rows []workflow.Step
		var errs []error
		s.around(func() {
			for st, err := range s.database.Steps(ctx, run) {
				rows, errs = append(rows, st), append(errs, err)
			}
		})
		for i := range rows {
			if !yield(rows[i], errs[i]) {
				return
			}
		}
	}
}

func (s *struck) Beat(ctx context.Context, process string) (beats map[string]int64, err error) {
	s.beside(func() { beats, err = s.database.Beat(ctx, process) })
	return beats, err
}

func (s *struck) Rest(ctx context.Context, process string) (err error) {
	s.beside(func() { err = s.database.Rest(ctx, process) })
	return err
}

// A struckTx is a database whose process waits at a transaction of a step.
type struckTx[Tx any] struct {
	flow.Transactor[Tx]
	*hook
}

func (s struckTx[Tx]) WriteTx(
	ctx context.Context, f func(tx Tx) (workflow.Entry, error),
) (verdict, err error) {
	s.around(func() { verdict, err = s.Transactor.WriteTx(ctx, f) })
	return verdict, err
}
