package agui

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/tell"
)

// cursorKey is the key of the cursor in the metadata of an event. The client keeps the metadata with its message, and
// sends the message with its next request: that is how it says what it has of a run.
const cursorKey = "holdfast.after"

// afterEvents is the number of what is told after the last event: the part of the reply that no event has shown.
const afterEvents = math.MaxInt64

// A cursor says how much of a run a client has: of the event with a number, so many events of AG-UI.
type cursor struct {
	number int64
	count  int
}

func (c cursor) String() string { return fmt.Sprintf("%d.%d", c.number, c.count) }

func (c cursor) before(other cursor) bool {
	return c.number < other.number || c.number == other.number && c.count < other.count
}

// cursorOf reads a cursor; it is zero if there is none.
func cursorOf(text string) (c cursor) {
	if n, err := fmt.Sscanf(text, "%d.%d", &c.number, &c.count); n != 2 || err != nil || c.number < 1 || c.count < 1 {
		return cursor{}
	}
	return c
}

// A client is the client of one request, and what it has of the run: its messages, what is open there, and its state.
// Every id of a message of the run begins with the run id of the bot.
type client struct {
	input     RunInput
	run       string // of the bot
	cancelled bool   // it takes the outcome cancelled

	// at is the event that is told, and until what the client has of the run. While muted is set, what is told was sent
	// before.
	at, until cursor
	seen      cursor // of what was told while muted
	muted     bool

	others []any            // its messages that are not of the run
	sent   []*clientMessage // its messages of the run
	open   []event          // what has begun and has not ended

	// state is what it has, and after what it is to have at the end. nil is none.
	state, after json.RawMessage

	history []any // what was said, for a client that connects; nil if it is not known
}

// A clientMessage is a message of AG-UI, as a client keeps it.
type clientMessage struct {
	ID         string     `json:"id"`
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"toolCalls,omitempty"`
	ToolCallID string     `json:"toolCallId,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// begin begins a run of the bot. A client that has a part of it already goes on from there. If it does not say how far
// it has come, that part is taken back.
func (c *client) begin(p *protocol, run string) {
	c.run = run
	stale := false
	for i, m := range c.input.Messages {
		if !strings.HasPrefix(m.ID, run+"-") {
			c.others = append(c.others, c.input.raw[i])
			continue
		}
		stale = true
		if at := cursorOf(m.after()); c.until.before(at) {
			c.until = at
		}
	}
	c.muted = c.until != cursor{}
	if c.history != nil {
		c.others, stale = c.history, true
	}
	if stale && !c.muted {
		c.snapshot(p)
	}
	if c.state != nil && !sameJSON(c.state, c.input.State) {
		p.put(event{Type: "STATE_SNAPSHOT", Snapshot: c.state})
	}
}

// snapshot replaces the messages of the client.
func (c *client) snapshot(p *protocol) {
	all := slices.Clone(c.others)
	if all == nil {
		all = []any{}
	}
	for _, m := range c.sent {
		all = append(all, m)
	}
	p.put(event{Type: "MESSAGES_SNAPSHOT", Messages: &all})
}

// passes completes an event. It reports whether the client has it already.
func (c *client) passes(p *protocol, ev *event) (sentBefore bool) {
	c.own(ev)
	if c.has(p) {
		c.note(ev)
		return true
	}
	c.note(ev)
	if c.at.number > 0 {
		with := map[string]any{cursorKey: c.at.String()}
		for key, value := range ev.Metadata {
			with[key] = value
		}
		ev.Metadata = with
	}
	return false
}

// has counts an event, and reports whether the client has it already.
func (c *client) has(p *protocol) bool {
	if c.at.number > 0 {
		c.at.count++
	}
	if c.muted && c.at.number > 0 && !c.until.before(c.at) {
		c.seen = c.at
		return true
	}
	c.unmute(p)
	return false
}

// unmute begins to send. If the events that the client has seen are no longer kept, it gets its messages anew.
func (c *client) unmute(p *protocol) {
	if !c.muted {
		return
	}
	c.muted = false
	if c.seen != c.until {
		c.snapshot(p)
	}
	for _, ev := range c.open {
		p.put(ev)
	}
}

// own makes the ids of messages those of the run.
func (c *client) own(ev *event) {
	mine := func(id string) string {
		if strings.HasPrefix(id, c.run+"-") {
			return id
		}
		return c.run + "-" + id
	}
	switch ev.Type {
	case "TOOL_CALL_START":
		ev.ParentMessageID = mine(ev.ToolCallID) + "-call"
	case "TOOL_CALL_RESULT":
		ev.MessageID = mine(ev.MessageID)
	}
}

// note keeps what the client has once it has an event.
func (c *client) note(ev *event) {
	text, _ := ev.Delta.(string)
	switch ev.Type {
	case "STEP_STARTED", "REASONING_START":
		c.opened(*ev)
	case "STEP_FINISHED":
		c.closed("STEP_STARTED", ev)
	case "REASONING_END":
		c.closed("REASONING_START", ev)
	case "TEXT_MESSAGE_START", "REASONING_MESSAGE_START":
		c.opened(*ev)
		c.message(ev.MessageID, ev.Role)
	case "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
		c.message(ev.MessageID, "").Content += text
	case "TEXT_MESSAGE_END":
		c.closed("TEXT_MESSAGE_START", ev)
	case "REASONING_MESSAGE_END":
		c.closed("REASONING_MESSAGE_START", ev)
	case "TOOL_CALL_START":
		c.opened(*ev)
		m := c.message(ev.ParentMessageID, "assistant")
		m.ToolCalls = []toolCall{{ev.ToolCallID, "function", function{Name: ev.ToolCallName}}}
	case "TOOL_CALL_ARGS":
		if m := c.calling(ev.ToolCallID); m != nil {
			m.ToolCalls[0].Function.Arguments += text
		}
	case "TOOL_CALL_END":
		c.closed("TOOL_CALL_START", ev)
	case "TOOL_CALL_RESULT":
		m := c.message(ev.MessageID, "tool")
		m.ToolCallID, m.Content = ev.ToolCallID, *ev.Content
	}
}

func (c *client) opened(ev event) {
	ev.Metadata = nil
	c.open = append(c.open, ev)
}

func (c *client) closed(kind string, end *event) {
	c.open = slices.DeleteFunc(c.open, func(ev event) bool {
		return ev.Type == kind && ev.MessageID == end.MessageID && ev.StepName == end.StepName &&
			ev.ToolCallID == end.ToolCallID
	})
}

// message returns a message of the run, which is new if it has another id.
func (c *client) message(id, role string) *clientMessage {
	for _, m := range c.sent {
		if m.ID == id {
			return m
		}
	}
	m := &clientMessage{ID: id, Role: role}
	c.sent = append(c.sent, m)
	return m
}

// calling returns the message with a call; nil if the run has none.
func (c *client) calling(call string) *clientMessage {
	for _, m := range c.sent {
		if len(m.ToolCalls) > 0 && m.ToolCalls[0].ID == call {
			return m
		}
	}
	return nil
}

// answered reports whether a call of the run has a result.
func (c *client) answered(call string) bool {
	return slices.ContainsFunc(c.sent, func(m *clientMessage) bool { return m.Role == "tool" && m.ToolCallID == call })
}

// drop takes a text back.
func (c *client) drop(p *protocol, id string) {
	has := c.has(p)
	c.sent = slices.DeleteFunc(c.sent, func(m *clientMessage) bool { return m.ID == id })
	if !has {
		c.snapshot(p)
	}
}

// dropCall takes a call of the run and its result back, if there are any.
func (c *client) dropCall(p *protocol, call string) {
	m := c.calling(call)
	if m == nil {
		return
	}
	c.sent = slices.DeleteFunc(c.sent, func(m *clientMessage) bool { return m.ToolCallID == call })
	c.drop(p, m.ID)
}

// finish completes the end of a run: the state, the calls that the client's side has to make, and the interrupts.
func (c *client) finish(p *protocol, r tell.Reply, end *event) {
	c.unmute(p)
	c.sendState(p)
	about := map[string]any{"run": c.run}
	if r.Usage.Cost != 0 {
		about["cost"] = r.Usage.Cost
	}
	end.Metadata = map[string]any{"holdfast": about}
	for i, q := range r.Questions {
		call := ""
		if c.calling(q.ID) != nil {
			call = q.ID
		}
		if call != "" && r.Reply.Questions[i].Client && !c.answered(call) {
			end.Outcome.Pending = append(end.Outcome.Pending, call)
			continue
		}
		var shown struct {
			Asks string          `json:"asks"`
			Form json.RawMessage `json:"form"`
		}
		_ = json.Unmarshal(q.Shown, &shown) // a question of another shape has none of them
		if !strings.HasPrefix(string(shown.Form), "{") {
			shown.Form = nil
		}
		end.Outcome.Type = "interrupt"
		end.Outcome.Interrupts = append(end.Outcome.Interrupts, interrupt{
			ID: interruptID(q.ID, q.Sum), Reason: reasonQuestion, Message: shown.Asks, Form: shown.Form,
			ToolCallID: call, ExpiresAt: q.Expires,
			Metadata: map[string]any{"holdfast": map[string]any{"question": q.ID, "shown": q.Shown, "sum": q.Sum}},
		})
	}
	if end.Outcome.Type == "interrupt" { // an interrupt has no other member
		end.Outcome.Pending = nil
	}
}

// sendState sends what has changed of the state, or all of it if that is shorter.
func (c *client) sendState(p *protocol) {
	if c.after == nil || c.state != nil && sameJSON(c.state, c.after) {
		return
	}
	if patch := diff(c.state, c.after); c.state != nil && patch != nil {
		p.put(event{Type: "STATE_DELTA", Delta: patch})
	} else {
		p.put(event{Type: "STATE_SNAPSHOT", Snapshot: c.after})
	}
	c.state = c.after
}

// interruptID is the id of an interrupt: that of the question, and the sum of what was shown of it. So the answer of
// any client says what it is an answer to.
func interruptID(question, sum string) string { return question + "." + sum }

// questionOf returns the question of an interrupt, and the sum.
func questionOf(interrupt string) (question, sum string) {
	i := strings.LastIndexByte(interrupt, '.')
	if i < 0 {
		return interrupt, ""
	}
	return interrupt[:i], interrupt[i+1:]
}
