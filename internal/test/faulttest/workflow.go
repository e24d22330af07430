package faulttest

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// A runCall is the input of one operation of a history of a run.
type runCall struct {
	op      string // claim, take, again, stay, park, sleep, end, record, read, or an action of a message
	process string
	nonce   string     // of a claim, and the id of a signal
	other   string     // from whom, or which nonce again
	fence   lock.Fence // of an entry
	mail    int64      // -1 does not compare
}

// A runReply is the answer of a store. The zero fence is that of a claim that got nothing.
type runReply struct {
	fence   lock.Fence
	mail    int64
	verdict string
	rows    string
}

// A runState is the one run of a history.
type runState struct {
	status workflow.Status // "" is running
	owner  string
	fence  lock.Fence
	mail   int64
	held   bool
	waits  bool // for the one event
	asleep bool // it is never due
	rows   string
}

// step is the sequential specification. It returns whether out is an answer to c, and the run after it. An answer that
// is nil was lost.
func (s runState) step(c runCall, out *runReply) (ok bool, next runState) {
	reply := runReply{}
	switch c.op {
	case "claim", "take", "again":
		return s.claim(c, out)
	case "read":
		reply.rows = s.rows
	case "record":
		s.rows = inOrder(s.rows + " " + c.nonce)
	case string(workflow.Signal), string(workflow.Cancel), string(workflow.Pause), string(workflow.Resume):
		reply.verdict, s = s.message(c)
	default:
		reply.verdict, s = s.write(c)
	}
	return out == nil || *out == reply, s
}

// claim is of a process that becomes the owner. A claim may get nothing at any time: it skips a run that another call
// changes.
func (s runState) claim(c runCall, out *runReply) (ok bool, next runState) {
	if out != nil && out.fence == (lock.Fence{}) {
		return true, s
	}
	free := s.status == "" && !s.held && map[string]bool{
		"claim": s.owner == "" && !s.asleep, "take": s.owner != "" && s.owner == c.other,
		"again": s.owner == c.process && s.fence.Nonce == c.other,
	}[c.op]
	if !free {
		return out == nil, s
	}
	s.owner, s.fence = c.process, lock.Fence{Epoch: s.fence.Epoch + 1, Nonce: c.nonce}
	s.waits, s.asleep = false, false
	return out == nil || out.fence == s.fence && out.mail == s.mail, s
}

func (s runState) message(c runCall) (receipt string, next runState) {
	if s.status != "" {
		return string(workflow.Over), s
	}
	switch workflow.Action(c.op) {
	case workflow.Signal:
		receipt = string(workflow.Kept)
		if s.owner == "" && !s.held && s.waits {
			receipt = string(workflow.Consumed)
			s.waits, s.asleep = false, false
		}
		s.mail++
		return receipt, s
	case workflow.Resume:
		if s.held {
			s.held, s.asleep = false, false
		}
		return string(workflow.Applied), s
	case workflow.Cancel:
		s.status = workflow.Cancelled
	default:
		s.held = true
	}
	s.owner, s.waits, s.fence.Epoch = "", false, s.fence.Epoch+1
	return string(workflow.Applied), s
}

func (s runState) write(c runCall) (verdict string, next runState) {
	switch {
	case c.fence == s.fence && s.owner == "" && c.op != "stay":
		return "", s // it was written before
	case s.status != "":
		return workflow.ErrOver.Error(), s
	case c.fence != s.fence || s.owner == "":
		return lock.ErrFenced.Error(), s
	case c.mail >= 0 && c.mail != s.mail:
		return workflow.ErrMail.Error(), s
	}
	s.rows = inOrder(s.rows + " " + c.nonce)
	switch c.op {
	case "park":
		s.owner, s.waits, s.asleep = "", true, true
	case "sleep":
		s.owner = ""
	case "end":
		s.owner, s.status = "", workflow.Completed
	}
	return "", s
}

// runSpec is the linearizable specification of a run.
var runSpec = porcupine.Model{
	Init: func() any { return runState{} },
	Step: func(state, input, output any) (bool, any) {
		if output == nil {
			return state.(runState).step(input.(runCall), nil)
		}
		out := output.(runReply)
		return state.(runState).step(input.(runCall), &out)
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// inOrder returns names in order.
func inOrder(rows string) string {
	names := strings.Fields(rows)
	slices.Sort(names)
	return strings.Join(names, " ")
}

// WorkflowHistories records n histories of five owners on a store, each about one run. A quarter of their entries has
// the fence of another. If no order of the calls explains the replies, the test fails and prints the seed and the calls
// of the first such history.
func WorkflowHistories(t *testing.T, newStore func(*testing.T) workflow.Store, n int) {
	t.Helper()
	s := newStore(t)
	record := func(ctx context.Context, seed uint64) []porcupine.Operation {
		ops, err := recordRun(ctx, s, seed)
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		return ops
	}
	fenced := func(c runCall, out runReply) bool { return out.verdict == lock.ErrFenced.Error() }
	legal(t, n, runSpec, record, fenced, "no owner was fenced off")
}

// owners act on one run.
type owners struct {
	store workflow.Store
	id    string
	of    []workflow.Definition

	mu     sync.Mutex // protects following fields
	fences []runCall  // what claims got, by whom
	err    error
}

// recordRun lets five owners act at random on one run. The error is of a call that no context has ended.
func recordRun(ctx context.Context, s workflow.Store, seed uint64) ([]porcupine.Operation, error) {
	o := &owners{store: s, id: "run " + crand.Text()}
	o.of = []workflow.Definition{{Workflow: strings.ToLower("h-" + crand.Text()), Version: 1}}
	n := workflow.NewRun{ID: o.id, Workflow: o.of[0].Workflow, Version: 1, RetentionDays: 1}
	if _, err := s.Start(ctx, []workflow.NewRun{n}); err != nil {
		return nil, err
	}
	ops := together(ctx, seed, o.draw, func(ctx context.Context, c runCall) (runReply, error) {
		out, err := o.do(ctx, c)
		o.mu.Lock()
		defer o.mu.Unlock()
		if err != nil && ctx.Err() == nil && o.err == nil {
			o.err = fmt.Errorf("%+v: %w", c, err)
		}
		if out.fence != (lock.Fence{}) {
			o.fences = append(o.fences, runCall{process: c.process, fence: out.fence, mail: out.mail})
		}
		return out, err
	})
	_, err := s.Send(ctx, []workflow.Message{{Run: o.id, Action: workflow.Cancel}})
	return ops, errors.Join(o.err, err)
}

// draw returns the next call of an owner. It uses the fence that the owner got last, or that of another.
func (o *owners) draw(h *hand[runReply]) runCall {
	me, _, _ := strings.Cut(h.name, ".")
	c := runCall{process: "p" + me, nonce: h.name, mail: -1}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, got := range o.fences {
		if got.process == c.process {
			c.fence, c.mail = got.fence, got.mail
		}
	}
	if len(o.fences) > 0 && h.IntN(4) == 0 {
		c.fence = o.fences[h.IntN(len(o.fences))].fence
	}
	c.op = strings.Fields("claim claim take take again stay stay stay park park sleep sleep end record read signal " +
		"signal cancel pause resume resume")[h.IntN(21)]
	switch {
	case c.op == "take":
		c.other = fmt.Sprint("p", h.IntN(workers))
	case c.op == "again":
		c.other = me + fmt.Sprint(".", h.IntN(callsOfEach))
	case c.op == "end" && h.IntN(3) > 0, c.op == "cancel" && h.IntN(3) > 0:
		c.op = "read"
	}
	if c.fence == (lock.Fence{}) {
		c.fence = lock.Fence{Epoch: 1, Nonce: "none"}
	}
	return c
}

// do makes the call.
func (o *owners) do(ctx context.Context, c runCall) (out runReply, err error) {
	switch c.op {
	case "claim", "take", "again":
		q := workflow.ClaimRequest{Process: c.process, Nonce: c.nonce, Definitions: o.of, Limit: 1, MostCrashes: 1000}
		if c.op == "take" {
			q.From = c.other
		} else if c.op == "again" {
			q.Again = c.other
		}
		got, _, err := o.store.Claim(ctx, q)
		if len(got) > 0 {
			out.fence, out.mail = got[0].Fence, got[0].Mail
		}
		return out, err
	case "read":
		for st, err := range o.store.Steps(ctx, o.id) {
			if err != nil {
				return out, err
			}
			if st.Kind != workflow.KindSignal {
				out.rows = inOrder(out.rows + " " + st.Name)
			}
		}
		return out, nil
	case string(workflow.Signal), string(workflow.Cancel), string(workflow.Pause), string(workflow.Resume):
		m := workflow.Message{Run: o.id, Action: workflow.Action(c.op), ID: c.nonce, Event: "e"}
		receipts, err := o.store.Send(ctx, []workflow.Message{m})
		if err == nil {
			out.verdict = string(receipts[0])
		}
		return out, err
	}
	verdicts, err := o.store.Write(ctx, []workflow.Entry{c.entry(o.id)})
	if err == nil && verdicts[0] != nil {
		out.verdict = verdicts[0].Error()
	}
	return out, err
}

// entry returns the entry of the call. Its one row has the name of the call.
func (c runCall) entry(id string) workflow.Entry {
	e := workflow.Entry{Run: id, Fence: c.fence, Mail: c.mail, Steps: []workflow.Step{
		{Name: c.nonce, Kind: workflow.KindStep, Outcome: workflow.Done},
	}}
	switch c.op {
	case "park":
		e.Next, e.Event = workflow.Park, "e"
	case "sleep":
		e.Next, e.After = workflow.Park, 1
	case "end":
		e.Next, e.Status = workflow.End, workflow.Completed
	case "record":
		e.Next = workflow.Record
	}
	return e
}
