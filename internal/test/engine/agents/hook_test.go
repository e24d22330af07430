package agents_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A hook names the points of a process: before and after each call of a store, of a model and of a vendor. It may kill
// the process at one of them. All calls hold alone for reading, so that the process dies between them and not within.
type hook struct {
	at    string    // the point at which the process dies; "" if it lives
	out   io.Writer // hears of the death
	alone sync.RWMutex

	mu      sync.Mutex // protects following fields
	counts  map[string]int
	points  []string
	unsaved map[string]bool // by agent: it has a reply that no save has
}

func newHook(at string, out io.Writer) *hook {
	return &hook{at: at, out: out, counts: make(map[string]int), unsaved: make(map[string]bool)}
}

// number returns the name of the next call of a kind.
func (h *hook) number(kind string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[kind]++
	return fmt.Sprintf("%s %d", kind, h.counts[kind])
}

// point notes that the process has come to a point.
func (h *hook) point(name string) {
	h.mu.Lock()
	h.points = append(h.points, name)
	h.mu.Unlock()
	if name == h.at {
		h.die()
	}
}

// die kills the process with SIGKILL, and says how many replies are lost with it.
func (h *hook) die() {
	h.alone.Lock()
	fmt.Fprintln(h.out, died, len(h.unsaved))
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// around makes a call of a kind between two points.
func (h *hook) around(kind string, call func()) {
	name := h.number(kind)
	h.point("before " + name)
	h.beside(call)
	h.point("after " + name)
}

// beside makes a call at which the process does not die.
func (h *hook) beside(call func()) {
	h.alone.RLock()
	defer h.alone.RUnlock()
	call()
}

// timed are the calls that come when the clock says so.
var timed = []string{"Beat", "Rest", "Renew", "Held"}

// store makes a call of a store.
func (h *hook) store(ctx context.Context, c faulttest.Call, next func(context.Context) error) (err error) {
	call := func() {
		if err = next(ctx); err == nil && slices.Contains([]string{"Save", "Append", "Settle", "Record"}, c.Method) {
			h.replied(agentOf(c.Session), false)
		}
	}
	if slices.Contains(timed, c.Method) {
		h.beside(call)
	} else {
		h.around(strings.TrimSpace(c.Method+" "+c.Phase), call)
	}
	return err
}

// replied notes whether an agent has a reply that no save has.
func (h *hook) replied(agent string, unsaved bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.unsaved, agent); unsaved {
		h.unsaved[agent] = true
	}
}

// An early store shows that a process which has just claimed is alive. The process would be dead before its own first
// beat, and others would wait for the end of its lease.
type early struct {
	checkpoint.Store
	checkpoint.Inspector
	lock.Beater
}

func (s early) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	if c, err = s.Store.Claim(ctx, k, r); err == nil {
		_, err = s.Beat(ctx, r.Owner)
	}
	return c, err
}

// stores returns stores whose calls are points.
func (h *hook) stores(st agent.Stores, log bool) agent.Stores {
	turns := early{st.Checkpoints, st.Checkpoints.(checkpoint.Inspector), st.Checkpoints.(lock.Beater)}
	wrapped := agent.Stores{
		Checkpoints: faulttest.Checkpoints(turns, h.store), Transcript: faulttest.Transcripts(st.Transcript, h.store),
		Ledger: faulttest.Ledger(st.Ledger, h.store), Inbox: faulttest.Inbox(st.Inbox, h.store),
		Stream: faulttest.Stream(st.Stream, h.store),
	}
	if !log {
		st.TurnLog = nil
	}
	wrapped.Snapshots = faulttest.Joined(st.Snapshots, st.Checkpoints, st.TurnLog, h.store)
	if log {
		wrapped.TurnLog = turnlog.New(faulttest.TurnLog(st.TurnLog, h.store), phases())
	}
	return wrapped
}
