package model

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Scripted is an agent.Model that behaves like a support agent, and needs no server. It goes through what was said from
// the beginning, each time, and knows nothing else. So equal requests get equal replies. Its tools are those of package
// bot. The zero value answers without a pause.
//
// To a text with the word guarantee or promise, it promises more than it knows, unless its instructions have
// [Feedback].
type Scripted struct {
	// Pause is how long the model takes for each word of a reply.
	Pause time.Duration
}

// Feedback is in the instructions if the reply before must not be sent.
const Feedback = "Your last draft must not be sent: it promises what the shop cannot keep. Promise nothing."

// Noted begins what the program says in place of the customer when the desk has decided. The number of the order
// follows.
const Noted = "The desk has decided about order "

// The name of the model, and the price of a million tokens. The prices are made up, so that a demonstration shows some.
const (
	scriptedName   = "scripted"
	scriptedInput  = 0.15
	scriptedOutput = 0.60
)

// Reply returns what a support agent would do next.
func (m *Scripted) Reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	reply := message.Message{Role: message.RoleAssistant}
	var text string
	switch calls := plan(r, &text); {
	case calls != nil:
		number := made(r.Said)
		for _, c := range calls {
			number++
			args, err := json.Marshal(c.args)
			if err != nil {
				return agent.Reply{}, err
			}
			reply.Blocks = append(reply.Blocks, message.ToolCall(fmt.Sprintf("call-%d", number), c.tool, args))
		}
		if err := m.think(ctx); err != nil {
			return agent.Reply{}, err
		}
	default:
		for piece := range strings.SplitAfterSeq(text, " ") {
			if err := m.think(ctx); err != nil {
				return agent.Reply{Usage: usage(r, text)}, err
			}
			token(piece)
		}
		reply.Blocks = []message.Block{message.Text(text)}
	}
	return agent.Reply{Message: reply, Usage: usage(r, text)}, nil
}

// A call is one that the model makes.
type call struct {
	tool string
	args any
}

// The arguments of calls.
type (
	byOrder struct {
		Order string `json:"order"`
	}
	byAmount struct {
		Order string `json:"order"`
		Cents int    `json:"cents"`
	}
	byInput struct {
		Input string `json:"input"`
	}
)

// plan returns the calls to make, or sets the text of the reply.
func plan(r agent.Request, text *string) []call {
	turns := turnsOf(r.Said)
	last := turns[len(turns)-1]
	switch {
	case len(r.Tools) == 0:
		*text = summarize(last.text)
	case r.Tools[0].Name == "refunds":
		return hand(last, text)
	default:
		d := new(dialog)
		var calls []call
		for _, t := range turns {
			calls = d.take(t)
		}
		if calls != nil {
			return calls
		}
		*text = d.compose(strings.Contains(r.Instructions, Feedback))
	}
	return nil
}

// hand is the plan of a concierge: it answers small talk by itself, and hands the rest over to the refund bot.
func hand(t turn, text *string) []call {
	in := classify(t.text)
	r, done := t.results["refunds"]
	switch {
	case done && r.Failed:
		*text = "A colleague looks into your refund, and will write to you."
	case done:
		*text = r.Text
	case in.Category == Other && !in.Yes && !in.No && in.Order == "":
		*text = talk(t.text)
	default: // also what continues what the refund bot has asked
		return []call{{"refunds", byInput{t.text}}}
	}
	return nil
}

// A turn is what the customer has said, and what the tools have said since.
type turn struct {
	text    string
	results map[string]agent.Result // by tool
}

// goOn is what an agent adds to a conversation that was stopped.
const goOn = "Go on."

// turnsOf returns the turns of a conversation. There is one at least.
func turnsOf(said []message.Message) []turn {
	turns, tools := []turn{}, make(map[string]string)
	for _, m := range said {
		if text := words(m); m.Role == message.RoleUser && (text != goOn || len(turns) == 0) {
			turns = append(turns, turn{text, make(map[string]agent.Result)})
		}
		for _, b := range m.Blocks {
			if c, ok := b.Call(); ok {
				tools[c.ID] = c.Name
			}
			if r, ok := b.Result(); ok && len(turns) > 0 {
				turns[len(turns)-1].results[tools[r.CallID]] = agent.Result{Text: b.Text, Failed: r.IsError}
			}
		}
	}
	if len(turns) == 0 {
		turns = append(turns, turn{})
	}
	return turns
}

// think takes the time for one word.
func (m *Scripted) think(ctx context.Context) error {
	if m.Pause <= 0 {
		return context.Cause(ctx)
	}
	pause := time.NewTimer(m.Pause)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// usage counts a word as a token.
func usage(r agent.Request, text string) orchestrator.Usage {
	input, output := 0, 1+len(strings.Fields(text))
	for _, m := range r.Said {
		for _, b := range m.Blocks {
			input += 1 + len(strings.Fields(b.Text))
		}
	}
	return orchestrator.Usage{
		Input: input, Output: output, Model: scriptedName,
		Cost: (float64(input)*scriptedInput + float64(output)*scriptedOutput) / 1e6,
	}
}

// words returns the text of a message.
func words(m message.Message) string {
	var texts []string
	for _, b := range m.Blocks {
		if b.Kind == message.KindText {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// made counts the calls that were made.
func made(said []message.Message) (n int) {
	for _, m := range said {
		for _, b := range m.Blocks {
			if _, ok := b.Call(); ok {
				n++
			}
		}
	}
	return n
}
