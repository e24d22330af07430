package agents_test

import (
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// sessions yields the sessions of the play that an agent has.
func (p *play) sessions(t *testing.T, st agent.Stores, a *agent.Agent[none]) iter.Seq[string] {
	t.Helper()
	return func(yield func(string) bool) {
		q := checkpoint.SessionQuery{Orchestrator: a.Name(), Prefix: p.Session}
		for session, err := range st.Checkpoints.Sessions(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			if p.owns(session) && !yield(session) {
				return
			}
		}
	}
}

// judgeSaid checks what was said in the sessions of the play, what they have cost, and what is in the turn log. It
// returns what was said.
func (p *play) judgeSaid(t *testing.T, st agent.Stores, all []*agent.Agent[none]) string {
	t.Helper()
	var text []string
	replies := 0
	for _, a := range all {
		for session := range p.sessions(t, st, a) {
			msgs := saidIn(t, a, session)
			text = append(text, a.Name()+": "+likeOthers.ReplaceAllString(print(msgs), ""))
			for _, m := range msgs {
				if m.Role == message.RoleAssistant {
					p.judgeReply(t, a.Name(), m.Blocks[0].Text)
					replies++
				}
			}
			for r, err := range a.Bot().Turns(t.Context(), session) {
				if err != nil {
					t.Fatal(err)
				}
				if p.Site.Log {
					p.judgeLog(t, st.TurnLog, r, msgs)
				}
			}
		}
	}
	s, _, err := all[0].Get(t.Context(), p.Session)
	asked := len(p.noted("asked"))
	if err != nil || s.Status != agent.Completed || len(s.Open) > 0 {
		t.Errorf("the session is %s, and has %+v open: %v", s.Status, s.Open, err)
	}
	if p.Scene == "three" && s.Spent.Input != replies {
		t.Errorf("the session has spent %+v for %d replies", s.Spent, replies)
	}
	if s.Spent.Input < replies || s.Spent.Input > asked {
		t.Errorf("the session has %d replies, asked for %d, and spent %+v", replies, asked, s.Spent)
	}
	if len(s.Said) == 0 {
		t.Error("no message has moved to the transcript")
	}
	return strings.Join(text, "\n")
}

// likeOthers are the numbers that make each reply unlike the others.
var likeOthers = regexp.MustCompile(unlike + `\d+`)

// judgeReply checks that a reply that counts is the last one of its kind that the model has given.
func (p *play) judgeReply(t *testing.T, who, text string) {
	t.Helper()
	kind, number, _ := strings.Cut(text, unlike)
	number, _, _ = strings.Cut(number, " ")
	last := 0
	for i, asked := range p.noted("asked") {
		if asked == who+" "+kind {
			last = i + 1
		}
	}
	if number != strconv.Itoa(last) {
		t.Errorf("%s has said %q, and reply %d is the last one of this kind", who, text, last)
	}
}

// saidIn returns what a session sees, and fails the test if a model API would not take it.
func saidIn(t *testing.T, a *agent.Agent[none], session string) (all []message.Message) {
	t.Helper()
	for m, err := range a.Messages(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if err := agent.Valid(all, nil); err != nil {
		t.Errorf("%v: %s", err, print(all))
	}
	return all
}

// print returns messages in a form to compare and to read.
func print(all []message.Message) string {
	var parts []string
	for _, m := range all {
		for _, b := range m.Blocks {
			parts = append(parts, m.Role+" "+printBlock(b))
		}
	}
	return strings.Join(parts, " | ")
}

func printBlock(b message.Block) string {
	if c, ok := b.Call(); ok {
		return c.ID + "=" + c.Name + string(c.Args)
	}
	text := strings.ReplaceAll(b.Text, long, "…")
	if r, ok := b.Result(); ok {
		return r.CallID + ": " + text
	}
	return text
}

// judgeLog checks the turn log of a turn: it has each reply, and each result with the id of its effect. What a process
// had recorded that was killed before its save is there twice.
func (p *play) judgeLog(
	t *testing.T, log turnlog.Log, r *orchestrator.Result[agent.State[none]], msgs []message.Message,
) {
	t.Helper()
	entries, err := log.Restore(t.Context(), r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var order, want []string
	seen := make(map[string]string)
	for _, e := range entries {
		order = append(order, e.Phase)
		if e.Phase != turnlog.LLMComplete && e.Phase != turnlog.ToolReceived {
			continue
		}
		var state struct {
			Respond message.Message
			SlotKey string
			Message message.Block
			Effect  string
		}
		if err := json.Unmarshal(e.State, &state); err != nil {
			t.Error(err)
		}
		if e.Phase == turnlog.LLMComplete {
			seen["reply "+print([]message.Message{state.Respond})] = ""
		} else {
			seen[state.SlotKey+", "+printBlock(state.Message)] = state.Effect
		}
	}
	for _, m := range msgs {
		if m.Turn != r.Turn {
			continue
		}
		if m.Role == message.RoleAssistant {
			want = append(want, "reply "+print([]message.Message{m}))
		}
		for _, b := range m.Blocks {
			if res, ok := b.Result(); ok {
				want = append(want, res.CallID+", "+printBlock(b))
			}
		}
	}
	for _, w := range want {
		effect, ok := seen[w]
		isEffect := strings.Contains(w, ": paid")
		if len(p.noted("doubts")) > 0 && effect == "" { // a person does not say which effect the answer is of
			isEffect = false
		}
		if !ok || (effect != "") != isEffect {
			t.Errorf("the turn log lacks %q with effect %t: %q", w, isEffect, seen)
		}
	}
	p.judgeOrder(t, order, len(want))
}

// judgeOrder checks the order of the phases of a turn, which has so many replies and results.
func (p *play) judgeOrder(t *testing.T, order []string, said int) {
	t.Helper()
	last := len(order) - 1
	if last < 1 || order[0] != turnlog.Started || slices.Index(order, turnlog.Settled) != last {
		t.Fatalf("the phases of a turn are %q", order)
	}
	reply, tool := slices.Index(order, turnlog.LLMComplete), slices.Index(order, turnlog.ToolReceived)
	if i := slices.Index(order, looked); i >= 0 && (i < reply || i > tool) {
		t.Errorf("the program's own phase is at %d of %q", i, order)
	}
	if p.At == "" && len(order) != said+2 && len(order) != said+3 {
		t.Errorf("%d replies and results, and the phases %q", said, order)
	}
}
