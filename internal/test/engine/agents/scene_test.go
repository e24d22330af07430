package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

type none struct{}

// A play is a scene in a session.
type play struct {
	Site    site
	Scene   string // "turn", "asked", "family", "three", "steered" or "summed"
	Part    string // of "three": what the process does; "" is all
	Session string
	Dir     string // what the model, the vendors and the person have noted
	At      string // the point at which the process dies
	Vendor  string // through whose API the model is asked; "" is none
}

// The agents.
const boss, clerk, payer = "boss", "clerk", "payer"

// long makes each message so long that it moves to the transcript at the next step.
var long = strings.Repeat("0123456789abcdef", 17<<10/16)

// agentOf returns the agent that has a session.
func agentOf(session string) string {
	for _, child := range []string{payer, clerk} {
		if strings.Contains(session, "/"+child+"/") {
			return child
		}
	}
	return boss
}

// vendors returns the vendors of a scene: each is charged once.
func (p *play) vendors() []string {
	if p.Scene == "family" || p.Scene == "three" {
		return []string{"approved"}
	}
	if p.Scene == "asked" {
		return []string{"idem", "verify", "ask"}
	}
	return []string{"idem", "verify", "ask", "approved"}
}

// replies returns how many replies a scene needs.
func (p *play) replies() int {
	return map[string]int{"turn": 2, "asked": 2, "family": 4, "three": 6, "steered": 2, "summed": 3}[p.Scene]
}

// note writes a line that is there when the process is not any more.
func (p *play) note(file, line string) {
	f, err := os.OpenFile(filepath.Join(p.Dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		_ = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// noted returns the lines of a file.
func (p *play) noted(file string) []string {
	text, err := os.ReadFile(filepath.Join(p.Dir, file))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

type order struct {
	Order string `json:"order"`
}

// charge charges a vendor. Those of the tools that are Idempotent know keys, and charge once for each.
func (p *play) charge(h *hook, vendor string, class ledger.Class, key string) {
	h.around("pay "+vendor, func() {
		if class != ledger.Idempotent || !slices.Contains(p.noted("paid-"+vendor), key) {
			p.note("paid-"+vendor, key)
		}
	})
}

// deadAfter is how long a process is silent until it counts as dead. Where several live, none is so slow.
func (p *play) deadAfter() time.Duration {
	if p.Scene == "three" {
		return 2 * time.Second
	}
	return 500 * time.Millisecond
}

// settles is how long a vendor may take until its book has a charge.
const settles = 200 * time.Millisecond

// effect returns a tool that charges a vendor.
func (p *play) effect(h *hook, vendor string, class ledger.Class, asks bool) agent.Tool {
	return agent.Effect[order, string]{
		Name: vendor, Class: class, Settles: settles, Approve: func(order) bool { return asks },
		Run: func(_ context.Context, key string, _ order) (string, error) {
			p.charge(h, vendor, class, key)
			return "paid " + long, nil
		},
		Verify: func(_ context.Context, key string) (string, bool, error) {
			return "paid " + long, slices.Contains(p.noted("paid-"+vendor), key), nil
		},
	}.Tool()
}

// asking returns a tool that asks before it charges a vendor.
func (p *play) asking(h *hook, vendor string, class ledger.Class) agent.Tool {
	tool := p.effect(h, vendor, class, false)
	pays := tool.Run
	tool.Run = func(ctx context.Context, c agent.Call) (string, error) {
		if agent.From(ctx).Answer != nil {
			return pays(ctx, c)
		}
		h.around("question "+vendor, func() { p.note("questions-"+vendor, c.Key) })
		return "", agent.Ask(agent.Question{Text: "sure?"})
	}
	return tool
}

// model returns a model that asks for calls once, and then is done. No reply is like another one.
func (p *play) model(h *hook, who string, calls ...called) agent.ModelFunc {
	return func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		if err := agent.Valid(r.Said, nil); err != nil {
			p.note("invalid", err.Error())
		}
		kind := "done"
		switch {
		case r.Instructions != "":
			kind = "summary"
		case len(r.Said) == 1 && strings.HasPrefix(r.Said[0].Blocks[0].Text, "pay"):
			kind = "working"
		}
		var n int
		h.around("model", func() {
			n = len(p.noted("asked")) + 1
			p.note("asked", who+" "+kind)
			h.replied(who, true)
		})
		m := message.Assistant(fmt.Sprintf("%s%s%d", kind, unlike, n))
		if kind == "working" {
			m.Blocks = append(m.Blocks, message.Text(" "+long)) // some APIs join texts
			for i, c := range calls {
				m.Blocks = append(m.Blocks, call(fmt.Sprintf("c%d%s%d", i, unlike, n), c.tool, c.args))
			}
		}
		return agent.Reply{Message: m, Usage: orchestrator.Usage{Input: 1, Cost: 0.25}}, nil
	}
}

// unlike comes before the number that makes a text of a model, or the id of a call, unlike those of all other replies.
const unlike = "_"

// A called is a call as a model makes it.
type called struct{ tool, args string }

func call(id, name, args string) message.Block {
	return message.ToolCall(id, name, json.RawMessage(args))
}

// agents returns the agents of a scene. The first one is talked to.
func (p *play) agents(st agent.Stores, h *hook) (all []*agent.Agent[none], err error) {
	o := &orchestrator.Options{
		Limits: orchestrator.Limits{DeadAfter: p.deadAfter(), FanOut: 1, Attempts: 50}, Logger: quiet,
	}
	const about = `{"order":"A1"}`
	d := agent.Definition[none]{Name: boss}
	if p.Scene == "family" || p.Scene == "three" {
		all, err = p.children(st, h, o)
		if err != nil {
			return nil, err
		}
		d.Tools = []agent.Tool{agent.ChildTool(all[0], "pays")}
		d.Model = p.asked(p.model(h, boss, called{all[0].Name(), `{"input":"pay"}`}))
	} else {
		d.Model = p.asked(p.model(h, boss, called{"lookup", about}, called{"idem", about}, called{"verify", about},
			called{"ask", about}, called{"approved", about}))
		d.Tools = []agent.Tool{
			agent.Read("lookup", "", func(ctx context.Context, _ order) (string, error) {
				p.note("looked", "x")
				if err := p.posts(ctx, st.Inbox); err != nil {
					return "", err
				}
				if st.TurnLog == nil {
					return "found " + long, nil
				}
				return "found " + long, agent.From(ctx).Record(ctx, looked, "A1")
			}),
			p.effect(h, "idem", ledger.Idempotent, false), p.effect(h, "verify", ledger.Verifiable, false),
			p.effect(h, "ask", ledger.Ask, false), p.effect(h, "approved", ledger.Idempotent, true),
		}
	}
	switch p.Scene {
	case "asked":
		d.Tools = []agent.Tool{
			d.Tools[0], p.asking(h, "idem", ledger.Idempotent), p.asking(h, "verify", ledger.Verifiable),
			p.asking(h, "ask", ledger.Ask),
		}
		d.Model = p.model(h, boss, called{"lookup", about}, called{"idem", about}, called{"verify", about},
			called{"ask", about})
	case "steered":
		d.Steer = agent.IntoTurn
	case "summed": // before the last reply
		d.Compact = &agent.Compaction{Above: 17_000, Keep: 1000}
	}
	a, err := agent.New(d, st, o)
	return append([]*agent.Agent[none]{a}, all...), err
}

// children returns the agents whom the boss asks, those that ask others first. In a family of three the payer asks the
// client too, through a clerk.
func (p *play) children(st agent.Stores, h *hook, o *orchestrator.Options) (all []*agent.Agent[none], err error) {
	d := agent.Definition[none]{
		Name: payer, Model: p.asked(p.model(h, payer, called{"approved", `{"order":"A1"}`})),
		Tools: []agent.Tool{p.effect(h, "approved", ledger.Ask, true)},
	}
	if p.Scene == "three" {
		d.Model = p.model(h, payer, called{"camera", `{"order":"A1"}`}, called{"approved", `{"order":"A1"}`})
		d.Tools = append(d.Tools, agent.ClientTool[order]("camera", ""))
	}
	pays, err := agent.New(d, st, o)
	if err != nil || p.Scene != "three" {
		return []*agent.Agent[none]{pays}, err
	}
	asks, err := agent.New(agent.Definition[none]{
		Name: clerk, Model: p.model(h, clerk, called{payer, `{"input":"pay"}`}),
		Tools: []agent.Tool{agent.ChildTool(pays, "pays")},
	}, st, o)
	return []*agent.Agent[none]{asks, pays}, err
}

// inputs returns what the user says, one after another.
func (p *play) inputs() []orchestrator.Input {
	all := []orchestrator.Input{{RequestID: "r1 " + p.Session, Text: "pay " + long}}
	if p.Scene == "steered" {
		all = append(all, orchestrator.Input{RequestID: "r2 " + p.Session, Text: "and say when"})
	}
	return all
}

// posts lets the second input of the user steer the turn in flight, as another process does that is asked to Say it.
func (p *play) posts(ctx context.Context, st inbox.Store) error {
	for _, in := range p.inputs()[1:] {
		raw, err := json.Marshal(in.Text)
		if err != nil {
			return err
		}
		k := inbox.Key{Orchestrator: boss, Session: p.Session}
		it := inbox.Item{Key: k, Kind: inbox.Message, ID: in.RequestID, By: "user", Data: raw}
		if _, err := st.Post(ctx, it); err != nil {
			return err
		}
	}
	return nil
}
