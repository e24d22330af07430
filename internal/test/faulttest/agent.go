package faulttest

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A wish is what somebody wants of a session of an agent.
type wish struct {
	op   string // say, answer, submit, continue, drop, stop, branch or delete
	call string // of an answer
	at   int    // of a branch
}

// An outcome is what came of a wish.
type outcome struct {
	err     error
	version int
	status  agent.Status
	replies int    // of the model, in this turn
	waits   string // for which calls, in their order
}

// A talk is the state of a session, as far as what comes of wishes shows it. A call that waits is " a" in open, and
// " a!" once it was answered and has not run yet.
type talk struct {
	version  int // 0: there is none
	status   agent.Status
	open     string
	answered string // all calls that were ever
	again    string // the versions that Continue and Drop have made: a repeat of such a request gets its turn
}

// Conditions that no error of package agent has.
var (
	errBusy    = errors.New("nothing has happened: the session is busy")
	errDeleted = errors.New("nothing has happened: the session was deleted during the turn")
	// Whoever waited for the session may have gone on with the turn before the session was deleted.
	errUnknown = errors.New("the turn may have settled before the session was deleted, or not")
)

// step is the sequential specification of a session: whether out may come of w, and the session after it.
func (s talk) step(w wish, out outcome) (ok bool, next talk) {
	want := s.refuses(w)
	switch {
	case errors.Is(out.err, errBusy), errors.Is(out.err, errDeleted), w.op == "stop":
		return true, s
	case out.err == nil && strings.Contains(s.again, fmt.Sprintf(" %s%d ", w.op, out.version)):
		return true, s
	case out.err != nil || want != nil:
		return errors.Is(out.err, want), s
	}
	switch w.op {
	case "branch":
		return true, s
	case "delete":
		return true, talk{}
	case "drop", "continue":
		s.again += fmt.Sprintf(" %s%d ", w.op, s.version+1)
	case "answer", "submit":
		s.open = strings.Replace(s.open+" ", " "+w.call+" ", " "+w.call+"! ", 1)
		s.open, s.answered = strings.TrimSuffix(s.open, " "), cmp.Or(s.answered, " ")+w.call+" "
	}
	return s.settles(w, out)
}

// steps returns the sessions that there may be after out came of w.
func (s talk) steps(w wish, out outcome) (all []any) {
	if !errors.Is(out.err, errUnknown) {
		if ok, next := s.step(w, out); ok {
			all = append(all, next)
		}
		return all
	}
	rest := strings.TrimSuffix(strings.Replace(s.missing()+" ", " "+w.call+" ", " ", 1), " ")
	untold := fmt.Sprintf(" %da %[1]db", s.version+1) // calls that nobody was told of
	out = outcome{version: s.version + 1}
	for _, out.status = range []agent.Status{agent.Interrupted, agent.Paused, agent.Completed} {
		for out.replies = range 2 {
			for _, out.waits = range []string{"", rest, untold} {
				if ok, next := s.step(w, out); ok {
					all = append(all, next)
				}
			}
		}
	}
	return append(all, s)
}

// settles says what a turn comes to.
func (s talk) settles(w wish, out outcome) (ok bool, next talk) {
	was := s
	s.version, s.status = s.version+1, out.status
	if out.version != s.version {
		return false, s
	}
	if w.op == "submit" || w.op == "answer" && s.missing() != "" { // it stores, and asks no model
		return out.status == agent.Paused && out.replies == 0 && out.waits == s.missing(), s
	}
	s.open = out.waits
	interrupted := was.status == agent.Interrupted
	switch out.status {
	case agent.Interrupted:
		return w.op != "drop" && out.waits == "" && out.replies <= 1, s
	case agent.Paused: // the model was shown what the user has said
		begins := w.op == "say" || w.op == "continue" && interrupted
		return begins && out.replies == 1 && len(strings.Fields(out.waits)) == 2 && s.fresh(), s
	case agent.Completed:
		if w.op == "drop" {
			return out.replies == 0 && out.waits == "", s
		}
		return out.replies == 1 && out.waits == "" && (was.open != "" || interrupted), s
	}
	return false, s
}

// refuses returns the error that a wish gets, or nil.
func (s talk) refuses(w wish) error {
	switch w.op {
	case "say":
		if s.open != "" {
			return agent.ErrPending
		}
	case "branch":
		if w.at < 1 || w.at > s.version {
			return agent.ErrUnknown
		}
	case "drop":
		if s.version == 0 {
			return agent.ErrUnknown
		}
	case "continue":
		switch {
		case s.version == 0:
			return agent.ErrUnknown
		case s.missing() != "":
			return agent.ErrPending
		case s.open == "" && s.status == agent.Completed:
			return agent.ErrIdle
		}
	case "answer", "submit":
		switch {
		case strings.Contains(s.open+" ", " "+w.call+" "):
		case strings.Contains(s.answered, " "+w.call+" "):
			return agent.ErrAnswered
		default:
			return agent.ErrNoCall
		}
	}
	return nil
}

// missing returns the calls that have no answer.
func (s talk) missing() (all string) {
	for _, id := range strings.Fields(s.open) {
		if !strings.HasSuffix(id, "!") {
			all += " " + id
		}
	}
	return all
}

// fresh reports whether no call that waits was answered before.
func (s talk) fresh() bool {
	for _, id := range strings.Fields(s.open) {
		if strings.Contains(s.answered, " "+id+" ") {
			return false
		}
	}
	return true
}

// talkSpec is the specification of a session of an agent.
var talkSpec = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{talk{}} },
	Step: func(state, input, output any) []any { return state.(talk).steps(input.(wish), output.(outcome)) },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v: %+v: %v", input, output, output.(outcome).err)
	},
}).ToModel()

// AgentHistories lets people act at random on sessions of two processes: they say, answer, submit, go on, drop, stop,
// branch and delete. The test fails if no order of their wishes explains what came of them, if a call has two results,
// if an effect happens twice, or if versions have a gap. newStores returns the stores of both processes.
func AgentHistories(t *testing.T, newStores func(*testing.T) [2]agent.Stores, n int) {
	t.Helper()
	h := &conversation{t: t, paid: make(map[string]int), counts: make(map[string]int)}
	for i, st := range newStores(t) {
		h.agents[i] = h.agent(st)
	}
	seed := rand.Uint64()
	for i := 0; i < n || h.missing() != "" && i < 100*n; i++ {
		ops := h.record(t.Context(), "s "+crand.Text(), seed+uint64(i))
		if porcupine.CheckOperationsTimeout(talkSpec, ops, time.Minute) == porcupine.Illegal {
			t.Errorf("illegal history of seed %d", seed)
		}
		if t.Failed() {
			t.Fatal(listing(talkSpec, ops))
		}
	}
	for key, n := range h.paid {
		if n != 1 {
			t.Errorf("%s was paid %d times", key, n)
		}
	}
	t.Logf("%d histories are legal: %v, %d payments", n, h.counts, len(h.paid))
	if op := h.missing(); op != "" {
		t.Errorf("%s has never come to anything", op)
	}
}

// A conversation is a session at a time, of two agents.
type conversation struct {
	t      *testing.T
	agents [2]*agent.Agent[struct{}]

	mu     sync.Mutex // protects following fields
	ids    []string   // of calls that have waited
	paid   map[string]int
	counts map[string]int
}

// missing names a wish that has never come to anything, or "".
func (h *conversation) missing() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range []string{"say", "answer", "submit", "continue", "drop", "branch", "delete", "interrupted"} {
		if h.counts[op] == 0 {
			return op
		}
	}
	return ""
}

// agent returns an agent whose model asks for an approval and for a photo, and then is done.
func (h *conversation) agent(st agent.Stores) *agent.Agent[struct{}] {
	type about struct{}
	d := agent.Definition[struct{}]{
		Name: "talk",
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if err := agent.Valid(r.Said, nil); err != nil {
				h.t.Error(err)
			}
			<-time.After(time.Duration(rand.IntN(4000)) * time.Microsecond) // others want something meanwhile
			m := message.Assistant("done")
			if r.Said[len(r.Said)-1].Role == message.RoleUser {
				for _, tool := range []string{"pay", "photo"} {
					m.Blocks = append(m.Blocks, message.ToolCall(crand.Text()[:12], tool, json.RawMessage(`{}`)))
				}
			}
			return agent.Reply{Message: m, Usage: orchestrator.Usage{Input: 1}}, nil
		}),
		Tools: []agent.Tool{
			agent.ClientTool[about]("photo", ""),
			agent.Effect[about, string]{
				Name: "pay", Approve: func(about) bool { return true },
				Run: func(_ context.Context, key string, _ about) (string, error) {
					h.mu.Lock()
					defer h.mu.Unlock()
					h.paid[key]++
					return "paid", nil
				},
			}.Tool(),
		},
	}
	a, err := agent.New(d, st, &orchestrator.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := a.Bot().Shutdown(context.WithoutCancel(h.t.Context())); err != nil {
			h.t.Error(err)
		}
	})
	return a
}

// record lets workers act on a session, and returns what they did.
func (h *conversation) record(ctx context.Context, session string, seed uint64) (ops []porcupine.Operation) {
	var clock atomic.Int64
	var group sync.WaitGroup
	for id := range workers {
		rng := rand.New(rand.NewPCG(seed, uint64(id)))
		group.Go(func() {
			for n := range callsOfEach {
				w := h.draw(rng)
				op := porcupine.Operation{ClientId: id, Input: w, Call: clock.Add(1)}
				out := h.do(ctx, h.agents[id%2], session, w, fmt.Sprintf("%d.%d", id, n))
				if op.Return, op.Output = clock.Add(1), out; errors.Is(out.err, errUnknown) {
					op.Return = math.MaxInt64
				}
				h.mu.Lock()
				ops = append(ops, op)
				h.ids = append(h.ids, strings.Fields(out.waits)...)
				switch {
				case out.err == nil:
					h.counts[w.op]++
				case op.Return == math.MaxInt64:
					h.counts["unknown"]++
				}
				h.counts[string(out.status)]++
				h.mu.Unlock()
			}
		})
	}
	group.Wait()
	h.ends(ctx, session)
	return ops
}

func (h *conversation) draw(rng *rand.Rand) wish {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []string{
		"say", "say", "say", "say", "answer", "answer", "answer", "answer", "answer", "submit", "submit", "submit",
		"continue", "continue", "continue", "stop", "stop", "stop", "stop", "drop", "branch", "delete",
	}
	w := wish{op: all[rng.IntN(len(all))]}
	if n := len(h.ids); (w.op == "answer" || w.op == "submit") && n > 0 {
		w.call = h.ids[max(0, n-1-rng.IntN(4))]
	}
	if w.op == "branch" {
		w.at = rng.IntN(6)
	}
	return w
}

// do makes a wish.
func (h *conversation) do(
	ctx context.Context, a *agent.Agent[struct{}], session string, w wish, name string,
) (out outcome) {
	var o *agent.Outcome[struct{}]
	var err error
	switch w.op {
	case "say":
		o, err = a.Say(ctx, session, orchestrator.Input{RequestID: name, Text: name}, nil)
	case "answer", "submit":
		o, err = answered(ctx, a, session, w, name)
	case "continue":
		o, err = a.Continue(ctx, session, nil)
	case "drop":
		o, err = a.Drop(ctx, session)
	case "stop": // of a turn that comes soon
		for range 10 {
			if err = a.Stop(ctx, session, "", "enough"); err == nil {
				break
			}
			<-time.After(time.Millisecond)
		}
	case "branch":
		err = a.Branch(ctx, session, w.at, session+" "+name)
	case "delete":
		err = a.Delete(ctx, session)
	}
	if o != nil {
		out = outcome{version: o.Version, status: o.Status, replies: o.Usage.Input}
		for _, p := range o.Pending {
			out.waits += " " + p.Call.ID
		}
	}
	out.err = h.known(err)
	return out
}

// answered gives an answer of the kind that the call waits for.
func answered(
	ctx context.Context, a *agent.Agent[struct{}], session string, w wish, name string,
) (o *agent.Outcome[struct{}], err error) {
	how := a.Answer
	if w.op == "submit" {
		how = a.Submit
	}
	o, err = how(ctx, session, w.call, agent.Answer{Kind: agent.Client, Result: "photo", By: name})
	if errors.Is(err, agent.ErrKind) {
		return how(ctx, session, w.call, agent.Answer{Kind: agent.Approval, Approved: true, By: name})
	}
	return o, err
}

// known returns the condition of an error.
func (h *conversation) known(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, orchestrator.ErrBusy):
		return fmt.Errorf("%w: %w", errBusy, err)
	case errors.Is(err, checkpoint.ErrNotFound):
		return agent.ErrUnknown
	}
	for _, want := range []error{
		agent.ErrPending, agent.ErrAnswered, agent.ErrNoCall, agent.ErrIdle, agent.ErrUnknown,
	} {
		if errors.Is(err, want) {
			return want
		}
	}
	switch {
	case errors.Is(err, orchestrator.ErrIndeterminate):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case errors.Is(err, orchestrator.ErrAbandoned), errors.Is(err, lock.ErrFenced):
		return fmt.Errorf("%w: %w", errDeleted, err)
	}
	h.t.Errorf("a wish comes to nothing: %v", err)
	return err
}

// ends fails the test if versions have a gap, or if a call has no result, or two.
func (h *conversation) ends(ctx context.Context, session string) {
	a, want := h.agents[0], 0
	for r, err := range a.Runs(ctx, session) {
		if err != nil || want != 0 && r.Version != want || r.Status == string(agent.Active) {
			h.t.Errorf("version %d, %s, want %d: %v", r.Version, r.Status, want, err)
			return
		}
		want = r.Version - 1
	}
	s, _, err := a.Get(ctx, session)
	if errors.Is(err, agent.ErrUnknown) {
		return
	}
	waiting := make(map[string]bool)
	for _, o := range s.Open {
		waiting[o.Call.ID] = true
	}
	var said []message.Message
	for m, failed := range a.Messages(ctx, session) {
		said, err = append(said, m), errors.Join(err, failed)
	}
	if err := errors.Join(err, agent.Valid(said, waiting)); err != nil || want != 0 {
		h.t.Errorf("the oldest version is %d: %v", want+1, err)
	}
}
