package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// A Model replies by a script. It may be used concurrently. Set its fields before its first use.
type Model struct {
	// Delay is the pause before each word of a reply. The words are sent as tokens.
	Delay time.Duration

	// Usage is what each call costs, also one that fails.
	Usage orchestrator.Usage

	rules []Rule
}

// New returns a Model that follows the first of the rules whose pattern is in what the user said last. If no rule fits,
// or the rule has no further reply, the call fails for good.
func New(rules ...Rule) *Model { return &Model{rules: rules} }

// A Rule says what the model replies to something that the user says.
type Rule struct {
	pattern *regexp.Regexp
	replies []Reply
}

// On returns a Rule for a regular expression. The first reply answers the user. Each further reply answers the results
// of the calls before it. On panics if the pattern is no regular expression.
func On(pattern string, replies ...Reply) Rule { return Rule{regexp.MustCompile(pattern), replies} }

// A Reply is one reply of a Rule. In its texts and arguments, {0} is what has matched the pattern, {1} is its first
// group, and {result} is the newest result of a call.
type Reply struct {
	text  string
	calls []message.Call
	err   error
}

// Say returns a reply of words.
func Say(text string) Reply { return Reply{text: text} }

// Call returns a reply that calls a tool. args is JSON in a string, or a value that is encoded as JSON.
func Call(tool string, args any) Reply { return Reply{}.Call(tool, args) }

// Call returns the reply with one more call.
func (r Reply) Call(tool string, args any) Reply {
	raw, ok := args.(string)
	if !ok {
		doc, err := json.Marshal(args)
		if err != nil {
			return Fail(retry.Permanent(fmt.Errorf("scripted: arguments of %s: %w", tool, err)))
		}
		raw = string(doc)
	}
	r.calls = append(slices.Clip(r.calls), message.Call{Name: tool, Args: json.RawMessage(raw)})
	return r
}

// Fail returns a reply that fails, each time. The agent asks again, unless retry.Permanent marks err.
func Fail(err error) Reply { return Reply{err: err} }

// Reply returns the reply that the script has for what was said.
func (m *Model) Reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	reply := agent.Reply{Usage: m.Usage, Message: message.Message{Role: message.RoleAssistant}}
	next, fill, err := m.next(r)
	if err == nil {
		err = next.err
	}
	if err != nil {
		return reply, err
	}
	text := fill(next.text, false)
	for _, word := range strings.SplitAfter(text, " ") {
		if err := keeper.Sleep(ctx, m.Delay); err != nil {
			return reply, err
		}
		token(word)
	}
	if text != "" {
		reply.Message = message.Assistant(text)
	}
	number := calls(r.Said)
	for _, c := range next.calls {
		number++
		id, args := fmt.Sprintf("call-%d", number), json.RawMessage(fill(string(c.Args), true))
		reply.Message.Blocks = append(reply.Message.Blocks, message.ToolCall(id, c.Name, args))
	}
	return reply, nil
}

// next returns the reply to what was said, and a function that fills its texts in.
func (m *Model) next(r agent.Request) (next Reply, fill func(text string, quoted bool) string, err error) {
	user, result, replied := "", "", 0
	for _, said := range slices.Backward(r.Said) {
		if said.Role == message.RoleAssistant {
			replied++
		}
		for _, b := range slices.Backward(said.Blocks) {
			if said.Role == message.RoleUser {
				user = b.Text + user
			} else if _, ok := b.Result(); ok && result == "" {
				result = b.Text
			}
		}
		if said.Role == message.RoleUser {
			break
		}
	}
	for _, rule := range m.rules {
		groups := rule.pattern.FindStringSubmatch(user)
		switch {
		case groups == nil:
			continue
		case replied >= len(rule.replies):
			err = fmt.Errorf("scripted: the rule %q has no reply %d", rule.pattern, replied+1)
			return next, nil, retry.Permanent(err)
		}
		return rule.replies[replied], filler(groups, result), nil
	}
	return next, nil, retry.Permanent(fmt.Errorf("scripted: no rule for %.100q", user))
}

// filler returns a function that replaces the marks in a text. In JSON the values are quoted.
func filler(groups []string, result string) func(text string, quoted bool) string {
	return func(text string, quoted bool) string {
		value := func(s string) string {
			if doc, err := json.Marshal(s); quoted && err == nil {
				return string(doc[1 : len(doc)-1])
			}
			return s
		}
		pairs := []string{"{result}", value(result)}
		for i, group := range groups {
			pairs = append(pairs, "{"+strconv.Itoa(i)+"}", value(group))
		}
		return strings.NewReplacer(pairs...).Replace(text)
	}
}

// calls counts the calls that were made.
func calls(said []message.Message) (n int) {
	for _, m := range said {
		for _, b := range m.Blocks {
			if b.Kind == message.KindToolCall {
				n++
			}
		}
	}
	return n
}
