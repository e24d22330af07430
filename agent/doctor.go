package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/message"
)

// A Fault is something in a transcript that a model API may refuse, and that Doctor has healed.
type Fault struct {
	Message int    // its index in what Doctor was given
	Call    string // the id of the call there, if the fault is one of a call or of its result
	What    string
}

// String returns the fault in a line.
func (f Fault) String() string {
	if f.Call == "" {
		return fmt.Sprintf("message %d: %s", f.Message, f.What)
	}
	return fmt.Sprintf("message %d, call %s: %s", f.Message, f.Call, f.What)
}

// Doctor heals a transcript that another program has written, and names what it has healed. What it returns is Valid,
// begins with the user, and has no faults. A transcript without faults is returned as it is.
//
// A result goes directly behind the message that has called for it. Of two results of a call Doctor keeps the newest
// one that is no error: the first may only say that the work has begun. A result without a call is dropped. A call
// without a result gets one that says that nobody knows whether it was executed: a model must not take it for undone.
// Two messages of the same role in a row are no fault.
func Doctor(said []message.Message) (healed []message.Message, faults []Fault) {
	d := doctor{calls: make(map[string][]*cared), had: make(map[string]bool), taken: make(map[string]bool)}
	for _, m := range said {
		for _, b := range m.Blocks {
			if c, ok := b.Call(); ok {
				d.had[c.ID] = true
			}
		}
	}
	for i, m := range said {
		d.examine(i, m)
	}
	d.late()
	healed = d.discharge()
	if len(d.faults) == 0 {
		return said, nil
	}
	slices.SortStableFunc(d.faults, func(f, g Fault) int { return f.Message - g.Message })
	return healed, d.faults
}

type doctor struct {
	parts  []*limb
	calls  map[string][]*cared // by the ids that they had
	had    map[string]bool     // the ids that calls had, and new ones
	taken  map[string]bool     // the ids that calls have now
	early  []stray
	faults []Fault
}

// A limb is a message without results, with blocks of one role.
type limb struct {
	message.Message
	at    int // the index of the message that it was in
	calls []*cared
}

// A cared is a call, and what came of it.
type cared struct {
	was    string // the id that it had
	id     string // that it has now
	part   *limb
	result *message.Block
	of     message.Message // that the result was in
}

// A stray is a result that came before any call of its id.
type stray struct {
	at  int
	id  string
	b   message.Block
	was message.Message
}

func (d *doctor) found(at int, call, what string) {
	d.faults = append(d.faults, Fault{at, call, what})
}

// examine takes a message apart: into limbs, and results of calls.
func (d *doctor) examine(i int, m message.Message) {
	role := d.role(i, m)
	if len(m.Blocks) == 0 {
		d.found(i, "", "it is empty")
	}
	var open *limb // the part that further blocks of this message go to
	for _, b := range m.Blocks {
		if _, err := b.MarshalJSON(); err != nil {
			d.found(i, "", "a block cannot be read")
			continue
		}
		if r, ok := b.Result(); ok {
			if role != roleTool {
				d.found(i, r.CallID, "its result is in a message of the "+role)
			}
			d.result(i, m, b, r)
			open = nil
			continue
		}
		own := role
		switch c, isCall := b.Call(); {
		case b.Kind == message.KindText && blank(b.Text):
			d.found(i, "", "a text is empty")
			continue
		case isCall && role != message.RoleAssistant:
			own = message.RoleAssistant
			d.found(i, c.ID, "it is in a message of the "+role)
		case b.Kind == message.KindReasoning && role != message.RoleAssistant:
			d.found(i, "", "reasoning of the "+role)
			continue
		case !isCall && role == roleTool:
			own = message.RoleUser
			d.found(i, "", "a tool says more than results")
		}
		if n := len(d.parts); own == message.RoleSystem && n > 0 && d.parts[n-1].Role != own {
			own = message.RoleUser // as role says
		}
		if open == nil || open.Role != own {
			open = &limb{Message: m, at: i}
			open.Role, open.Blocks = own, nil
			d.parts = append(d.parts, open)
		}
		open.Blocks = append(open.Blocks, d.block(open, b))
	}
}

// others are names that other programs give to roles.
var others = map[string]string{
	"human": message.RoleUser, "ai": message.RoleAssistant, "model": message.RoleAssistant,
	"developer": message.RoleSystem, "function": roleTool, "toolResult": roleTool,
}

// role returns the role of a message. A system message says what holds for all that follows: one that comes later is
// something that the user says.
func (d *doctor) role(i int, m message.Message) string {
	role := m.Role
	switch role {
	case message.RoleUser, message.RoleAssistant, message.RoleSystem, roleTool:
	default:
		if role = others[m.Role]; role == "" {
			role = message.RoleUser
		}
		d.found(i, "", fmt.Sprintf("its role is %q", m.Role))
	}
	if n := len(d.parts); role == message.RoleSystem && n > 0 && d.parts[n-1].Role != role {
		d.found(i, "", "a system message in the middle")
		role = message.RoleUser
	}
	return role
}

// block returns a block of a part, with what a model API takes as the id, the name and the arguments of a call.
func (d *doctor) block(p *limb, b message.Block) message.Block {
	was, ok := b.Call()
	if !ok {
		return b
	}
	c := was
	switch {
	case !toolName.MatchString(c.ID):
		c.ID = d.newID()
		d.found(p.at, was.ID, "no call may have such an id")
	case d.taken[c.ID]:
		c.ID = d.newID()
		d.found(p.at, was.ID, "another call has this id")
	}
	if c.Name = properName(was.Name); c.Name != was.Name {
		d.found(p.at, was.ID, fmt.Sprintf("no tool may be named %q", was.Name))
	}
	if c.Args = properArgs(was.Args); !bytes.Equal(c.Args, was.Args) {
		d.found(p.at, was.ID, "its arguments are no JSON object")
	}
	d.taken[c.ID] = true
	call := &cared{was: was.ID, id: c.ID, part: p}
	p.calls = append(p.calls, call)
	d.calls[was.ID] = append(d.calls[was.ID], call)
	if c.ID == was.ID && c.Name == was.Name && bytes.Equal(c.Args, was.Args) {
		return b
	}
	return message.ToolCall(c.ID, c.Name, c.Args)
}

// newID returns an id that no call has, or had. It is the same each time.
func (d *doctor) newID() string {
	for n := 1; ; n++ {
		if id := fmt.Sprintf("call_%d", n); !d.had[id] {
			d.had[id] = true
			return id
		}
	}
}

// result gives a result to the newest message that calls for it. Programs that use an id again expect that.
func (d *doctor) result(i int, m message.Message, b message.Block, r message.Result) {
	all := d.calls[r.CallID]
	if len(all) == 0 {
		d.early = append(d.early, stray{i, r.CallID, b, m})
		return
	}
	newest := all[len(all)-1]
	for n := len(all) - 1; n >= 0; n-- {
		if c := all[n]; c.result == nil && (newest.result != nil || c.part == newest.part) {
			newest = c
		}
	}
	if newest.result != nil {
		d.found(i, r.CallID, "it has another result")
		if kept, _ := newest.result.Result(); r.IsError && !kept.IsError {
			return
		}
	} else if newest.part != d.parts[len(d.parts)-1] {
		d.found(i, r.CallID, "its result comes late")
	}
	newest.result, newest.of = &b, m
}

// late gives results that came before their calls to them. An id that was used again says too little.
func (d *doctor) late() {
	for _, s := range d.early {
		all := d.calls[s.id]
		if len(all) != 1 || all[0].result != nil {
			d.found(s.at, s.id, "a result without a call")
			continue
		}
		d.found(s.at, s.id, "its result comes early")
		all[0].result, all[0].of = &s.b, s.was
	}
}

// unknown is the result of a call that has none.
const unknown = "no result is known: this may or may not have been executed"

// discharge puts the parts and the results together.
func (d *doctor) discharge() (healed []message.Message) {
	for _, p := range d.parts {
		n := len(p.Blocks)
		for n > 0 && p.Blocks[n-1].Kind == message.KindReasoning {
			n--
		}
		if n < len(p.Blocks) {
			d.found(p.at, "", "reasoning that nothing follows")
		}
		if p.Blocks = p.Blocks[:n]; n == 0 {
			continue
		}
		if p.Role != message.RoleSystem && p.Role != message.RoleUser && begins(healed) {
			d.found(p.at, "", "the assistant speaks first")
			healed = append(healed, message.User("(What was said before is not known.)"))
		}
		if healed = append(healed, p.Message); len(p.calls) > 0 {
			healed = append(healed, d.results(p))
		}
	}
	return healed
}

// begins reports whether nothing was said yet, beside what the system says.
func begins(all []message.Message) bool {
	return len(all) == 0 || all[len(all)-1].Role == message.RoleSystem
}

// results returns the results of the calls of a part.
func (d *doctor) results(p *limb) message.Message {
	m := message.Message{Role: roleTool, Turn: p.Turn, CreatedAt: p.CreatedAt}
	for i, c := range p.calls {
		text, failed := unknown, true
		if c.result == nil {
			d.found(p.at, c.was, "it has no result")
		} else {
			r, _ := c.result.Result()
			text, failed = c.result.Text, r.IsError
			if i == 0 {
				m.ID, m.CreatedAt = c.of.ID, c.of.CreatedAt
			}
		}
		m.Blocks = append(m.Blocks, message.ToolResult(c.id, text, failed))
	}
	return m
}

// properName returns a name that model APIs take for a tool.
func properName(name string) string {
	if toolName.MatchString(name) {
		return name
	}
	name = strings.Map(func(r rune) rune {
		if toolName.MatchString(string(r)) {
			return r
		}
		return '_'
	}, name)
	if len(name) > 64 {
		name = name[:64]
	}
	if name == "" {
		return "unnamed"
	}
	return name
}

// unreadable is the member under which arguments are kept that are no JSON object: model APIs take nothing else.
const unreadable = "unreadable_arguments"

// properArgs returns arguments as a JSON object. No arguments stay so.
func properArgs(args json.RawMessage) json.RawMessage {
	if t := bytes.TrimLeft(args, " \t\r\n"); len(t) == 0 || t[0] == '{' && json.Valid(args) {
		return args
	}
	text := string(args)
	var said string
	if json.Unmarshal(args, &said) == nil { // message.ToolCall keeps what is no JSON as a string
		text = said
	}
	doc, _ := json.Marshal(map[string]string{unreadable: text}) // a string is always JSON
	return doc
}
