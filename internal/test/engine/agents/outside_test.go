package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A libMessage, a libModel and a libTool are what a library of agents has: it calls both through interfaces of its own,
// with a context and nothing else.
type libMessage struct {
	Role, Text string
	Calls      []libCall `json:",omitempty"`
	Answers    string    `json:",omitempty"` // the id of a call
}

type libCall struct{ ID, Name, Args string }

type libModel interface {
	Generate(ctx context.Context, said []libMessage) (libMessage, error)
}

type libTool interface {
	Name() string
	Run(ctx context.Context, id, args string) (string, error)
}

// libRun is the loop of the library. What a tool says goes to the model, also an error, and no error is wrapped.
func libRun(ctx context.Context, m libModel, tools []libTool, input string) (said []libMessage, err error) {
	for said = []libMessage{{Role: "user", Text: input}}; ; {
		reply, err := m.Generate(ctx, said)
		if err != nil {
			return said, fmt.Errorf("the model: %v", err) // as some libraries do
		}
		if said = append(said, reply); len(reply.Calls) == 0 {
			return said, nil
		}
		for _, c := range reply.Calls {
			i := slices.IndexFunc(tools, func(t libTool) bool { return t.Name() == c.Name })
			text, err := tools[i].Run(ctx, c.ID, c.Args)
			if err != nil {
				text = "error: " + err.Error()
			}
			said = append(said, libMessage{Role: "tool", Text: text, Answers: c.ID})
		}
	}
}

// A recordedModel and a durableTool are the adapters.
type recordedModel struct{ vendor libModel }

func (m recordedModel) Generate(ctx context.Context, said []libMessage) (libMessage, error) {
	return agent.Recorded(ctx, "model", said, func(ctx context.Context) (libMessage, orchestrator.Usage, error) {
		reply, err := m.vendor.Generate(ctx, said)
		return reply, orchestrator.Usage{Input: 1, Cost: 0.25}, err
	})
}

type durableTool struct{ tool agent.Tool }

func (t durableTool) Name() string { return t.tool.Name }

func (t durableTool) Run(ctx context.Context, id, args string) (string, error) {
	r, err := agent.Once(ctx, t.tool, agent.Call{ID: id, Args: json.RawMessage(args)})
	if err == nil && r.Failed {
		err = errors.New(r.Text)
	}
	return r.Text, err
}

// A vendorModel asks for calls twice. No reply is like another one.
type vendorModel struct {
	play *play
	hook *hook
}

func (m vendorModel) Generate(_ context.Context, said []libMessage) (reply libMessage, _ error) {
	m.hook.around("model", func() {
		n := len(m.play.noted("asked")) + 1
		m.play.note("asked", strconv.Itoa(len(said)))
		m.hook.replied(boss, true)
		reply = libMessage{Role: "assistant", Text: fmt.Sprint("reply", unlike, n)}
		rounds := map[int][]string{1: {"look", "idem", "declines", "verify"}, 6: {"ask"}}
		for i, tool := range rounds[len(said)] {
			c := libCall{ID: fmt.Sprintf("c%d%s%d", i, unlike, n), Name: tool, Args: `{"order":"A1"}`}
			reply.Calls = append(reply.Calls, c)
		}
	})
	return reply, nil
}

// outsideState is that of a bot which is no agent.
type outsideState struct{ Said []libMessage }

// outside returns a bot whose turns are runs of the library.
func (p *play) outside(st agent.Stores, h *hook) (*orchestrator.Orchestrator[outsideState], error) {
	tools := []libTool{
		durableTool{agent.Read("look", "", func(context.Context, order) (string, error) {
			p.note("looked", "x")
			return fmt.Sprint("found", unlike, len(p.noted("looked"))), nil
		})},
		durableTool{agent.Effect[order, string]{Name: "declines", Class: ledger.Idempotent, Run: p.declines(h)}.Tool()},
	}
	for name, class := range map[string]ledger.Class{
		"idem": ledger.Idempotent, "verify": ledger.Verifiable, "ask": ledger.Ask,
	} {
		t := p.effect(h, name, class, false)
		t.Wait, t.When = "", nil
		tools = append(tools, durableTool{t})
	}
	work := func(ctx context.Context, t *orchestrator.Turn[outsideState]) error {
		return agent.Loop(ctx, t, func(ctx context.Context) (err error) {
			t.State.Said, err = libRun(ctx, recordedModel{vendorModel{p, h}}, tools, t.Input.Text)
			return err
		})
	}
	return orchestrator.New(orchestrator.Definition[outsideState]{
		Name: boss, Intents: orchestrator.Intents[outsideState]{"work": {Run: work}},
	}, st.Checkpoints, &orchestrator.Options{
		Snapshots: st.Snapshots, Ledger: st.Ledger, Logger: quiet,
		Limits: orchestrator.Limits{DeadAfter: p.deadAfter(), Attempts: 50},
	})
}

// declines is an effect that is declined the first time, and would be done if it were tried again.
func (p *play) declines(h *hook) func(context.Context, string, order) (string, error) {
	return func(_ context.Context, key string, _ order) (_ string, err error) {
		h.around("decline", func() {
			if p.note("declined", key); len(p.noted("declined")) == 1 {
				err = ledger.NotDone(errors.New("declined"))
				return
			}
			p.note("paid-declines", key)
		})
		return "paid", err
	}
}

// roleOutside is the role of a process that plays a turn of the library, and dies at a point of it.
const roleOutside = "outside"

func diesOutside(text string, out io.Writer) error {
	p := new(play)
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return err
	}
	ctx := context.Background()
	st, shut, err := p.Site.open(ctx)
	if err != nil {
		return err
	}
	defer shut()
	h := newHook(p.At, out)
	bot, err := p.outside(h.stores(st, false), h)
	if err != nil {
		return err
	}
	if _, err := p.runOutside(ctx, bot, st.Ledger); err != nil {
		return err
	}
	h.beside(func() { fmt.Fprintln(out, lived) })
	return nil
}

// runOutside does what a client does until the turn has settled: it repeats. A person looks into the books of vendors.
func (p *play) runOutside(
	ctx context.Context, bot *orchestrator.Orchestrator[outsideState], book ledger.Ledger,
) (*orchestrator.Result[outsideState], error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		res, err := bot.Execute(ctx, p.Session, orchestrator.Input{RequestID: "r1 " + p.Session, Text: "pay"}, nil)
		var doubt *orchestrator.InDoubtError
		switch {
		case err == nil:
			return res, nil
		case errors.As(err, &doubt), errors.Is(err, orchestrator.ErrSuspended):
			if err := p.resolve(ctx, book); err != nil {
				return nil, err
			}
		case errors.Is(err, orchestrator.ErrIndeterminate), errors.Is(err, orchestrator.ErrBusy):
		default:
			return nil, err
		}
	}
}

// The loop of a library runs in a turn, through two adapters of a few lines. A process is killed before and after each
// call of a store, of the model and of a vendor, and the process of the test goes on. Each vendor is charged once, or a
// person is asked. The model is asked once more only for a reply that was not recorded, and its cost counts once. What
// it was told of a tool, a failure too, it is told again.
//
// With HOLDFAST_SOAK=1 each site plays all points.
func TestLoopKilledEverywhere(t *testing.T) {
	for number, name := range []string{"postgres", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sites[name](t)
			whole := &play{Site: s.copied(t), Session: "whole", Dir: t.TempDir()}
			points, said := whole.goesOnOutside(t, 0)
			if len(points) < 40 {
				t.Fatalf("a process has only the points %q", points)
			}
			for i, at := range points {
				if !soak() && i%2 != number {
					continue
				}
				t.Run(at, func(t *testing.T) {
					t.Parallel()
					p := &play{Site: s.copied(t), Session: at, Dir: t.TempDir(), At: at}
					lost, struck := p.killAs(t, roleOutside)
					if !struck && !hasty.MatchString(at) {
						t.Error("the process has not come to this point")
					}
					if _, got := p.goesOnOutside(t, lost); got != said && len(p.noted("declined")) == 1 {
						t.Errorf("said was %s\nwant     %s", got, said)
					}
				})
			}
		})
	}
}

// goesOnOutside ends the turn in the process of the test, and judges it.
func (p *play) goesOnOutside(t *testing.T, lost int) (points []string, said string) {
	t.Helper()
	st, shut, err := p.Site.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shut)
	h := newHook("", nil)
	bot, err := p.outside(h.stores(st, false), h)
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.runOutside(t.Context(), bot, st.Ledger)
	if err := bot.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"idem", "verify", "ask"} {
		if paid := p.noted("paid-" + v); len(paid) != 1 {
			t.Errorf("%s was charged %d times: %q", v, len(paid), paid)
		}
	}
	var all []string
	for _, m := range res.State.Said {
		all = append(all, strings.ReplaceAll(m.Text, long, "…"))
	}
	said = strings.Join(all, ", ")
	if told := strings.Contains(said, "error: declined"); told == (len(p.noted("paid-declines")) > 0) {
		t.Errorf("declines was charged %q, and the model was told %s", p.noted("paid-declines"), said)
	}
	if asked := len(p.noted("asked")); asked != 3+lost {
		t.Errorf("the model was asked %d times, want %d", asked, 3+lost)
	}
	if u := res.Usage; u.Input != 3 || u.Cost != 0.75 {
		t.Errorf("the turn has used %+v", u)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.points, likeOthers.ReplaceAllString(said, "")
}
