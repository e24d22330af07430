package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// roleDies is the role of a process that plays a scene, and dies at a point of it.
const roleDies = "dies"

// What such a process says in the end.
const (
	died  = "died" // and how many replies are lost with it
	lived = "lived"
)

func dies(text string, out io.Writer) error {
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
	if _, err := p.plays(ctx, st, h); err != nil {
		return err
	}
	h.beside(func() { fmt.Fprintln(out, lived) }) // a call in the background may have said that the process dies
	return nil
}

// plays does the part of a process. It returns the agents.
func (p *play) plays(ctx context.Context, st agent.Stores, h *hook) (all []*agent.Agent[none], err error) {
	if all, err = p.agents(h.stores(st, p.Site.Log), h); err != nil {
		return nil, err
	}
	for _, a := range all[1:] {
		if p.Part == a.Name() {
			return all, p.finishes(ctx, a)
		}
	}
	return all, p.drive(ctx, all[0], st.Ledger)
}

// kill plays the scene in a process that dies. lost are the replies that no save had. If struck is false, the process
// has not come to the point.
func (p *play) kill(t *testing.T) (lost int, struck bool) {
	t.Helper()
	return p.killAs(t, roleDies)
}

// killAs is kill, of a process with a role.
func (p *play) killAs(t *testing.T, role string) (lost int, struck bool) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	c := testenv.StartRole(t, role, string(text))
	last := ""
	for c.Out.Scan() {
		last = c.Out.Text()
	}
	err = c.Cmd.Wait()
	if _, scanErr := fmt.Sscanf(last, died+" %d", &lost); scanErr == nil {
		return lost, true
	}
	if last != lived || err != nil {
		t.Fatalf("the process says %q: %v", last, err)
	}
	return 0, false
}

// patience is for how long a session may take to come to its end.
const patience = 5 * time.Minute

// drive does what a client does until the session has come to its end: it repeats. A person approves, and looks into
// the books of vendors.
func (p *play) drive(ctx context.Context, a *agent.Agent[none], book ledger.Ledger) error {
	all := p.inputs()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		o, err := a.Say(ctx, p.Session, all[0], nil)
		if err == nil && o.Status == agent.Paused && p.Part != asks {
			o, err = p.answer(ctx, a, o)
		}
		var doubt *orchestrator.InDoubtError
		switch {
		case err == nil && o.Status == p.end():
			if all = all[1:]; len(all) == 0 {
				return nil
			}
		case err == nil:
			return fmt.Errorf("the turn is %s, %s", o.Status, o.Reason)
		case errors.As(err, &doubt), errors.Is(err, orchestrator.ErrSuspended):
			if err := p.resolve(ctx, book); err != nil {
				return err
			}
		case errors.Is(err, orchestrator.ErrIndeterminate), errors.Is(err, orchestrator.ErrBusy):
		default:
			return err
		}
	}
}

// answer answers what a turn waits for, at the root. The turn may be an older one, whose calls were answered.
func (p *play) answer(
	ctx context.Context, a *agent.Agent[none], o *agent.Outcome[none],
) (_ *agent.Outcome[none], err error) {
	kinds, pending := []agent.Kind{agent.Approval}, o.Pending
	switch p.Scene {
	case "three":
		kinds = []agent.Kind{agent.Client, agent.Approval}
	case "asked":
		kinds = []agent.Kind{agent.Input, agent.Input, agent.Input}
	}
	if len(pending) != len(kinds) {
		return nil, fmt.Errorf("the turn waits for %+v", pending)
	}
	for i, want := range kinds {
		ans := agent.Approve("desk")
		switch want {
		case agent.Client:
			ans = agent.Done("photo " + long)
		case agent.Input:
			ans = agent.Provide("desk", "yes")
		}
		o, err = a.Answer(ctx, p.Session, pending[i].Call.ID, ans)
		if err != nil || p.Part == shoots {
			break
		}
	}
	return o, err
}

// end returns how a session is at the end of the part.
func (p *play) end() agent.Status {
	if p.Part == asks || p.Part == shoots {
		return agent.Paused
	}
	return agent.Completed
}

// resolve answers for the effects in doubt of which nobody but a person knows. It waits for the others.
func (p *play) resolve(ctx context.Context, book ledger.Ledger) error {
	for e, err := range book.Effects(ctx, ledger.Query{Open: true}) {
		switch {
		case err != nil:
			return err
		case e.State != ledger.Unknown || !p.owns(e.Session):
			continue
		case e.Class == ledger.Verifiable:
			<-time.After(settles)
			continue
		}
		paid := p.noted("paid-" + e.Name)
		ans := ledger.Answer{Landed: slices.Contains(paid, e.ID) || slices.Contains(paid, e.Key), By: "desk"}
		if ans.Landed {
			ans.Result = json.RawMessage(`"paid ` + long + `"`)
		}
		p.note("doubts", e.Name)
		if err := ledger.Resolve(ctx, book, e.ID, ans); err != nil {
			return err
		}
	}
	return nil
}

// owns reports whether a session is that of the play, or of a child.
func (p *play) owns(session string) bool {
	return session == p.Session || strings.HasPrefix(session, p.Session+"/")
}
