package model

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/message"
)

// Scripted is a Model that behaves like a support agent, and needs no server. Equal calls get equal replies. The zero
// value answers without a pause.
//
// To a text with the word guarantee or promise, it promises more than the facts say, unless it gets Feedback. So the
// bot has something to send back.
type Scripted struct {
	// Pause is how long the model takes for each word of a reply.
	Pause time.Duration
}

// The name of the model, and the price of a million tokens. The prices are made up, so that a demonstration shows some.
const (
	scriptedName   = "scripted"
	scriptedInput  = 0.15
	scriptedOutput = 0.60
)

// Classify looks for words.
func (m *Scripted) Classify(ctx context.Context, history []message.Message, text string) (Intent, Usage, error) {
	if err := m.think(ctx); err != nil {
		return Intent{}, Usage{}, err
	}
	in := classify(text)
	return in, m.usage(words(history)+len(strings.Fields(text)), len(strings.Fields(in.Category+" "+in.Order))), nil
}

// Compose says the facts in a friendly frame, word by word.
func (m *Scripted) Compose(ctx context.Context, p Prompt, emit func(piece string)) (string, Usage, error) {
	asked := words(p.History)
	for _, text := range append([]string{p.Text, p.Feedback}, append(p.Facts, p.Recalled...)...) {
		asked += len(strings.Fields(text))
	}
	reply := compose(p)
	said := 0
	for piece := range strings.SplitAfterSeq(reply, " ") {
		if err := m.think(ctx); err != nil {
			return "", m.usage(asked, said), err
		}
		said++
		if emit != nil {
			emit(piece)
		}
	}
	return reply, m.usage(asked, said), nil
}

// Summarize names the orders and what was asked about them.
func (m *Scripted) Summarize(ctx context.Context, messages []message.Message) (string, Usage, error) {
	if err := m.think(ctx); err != nil {
		return "", Usage{}, err
	}
	summary := summarize(messages)
	return summary, m.usage(words(messages), len(strings.Fields(summary))), nil
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
func (m *Scripted) usage(input, output int) Usage {
	return Usage{
		Input: input, Output: output, Model: scriptedName,
		Cost: (float64(input)*scriptedInput + float64(output)*scriptedOutput) / 1e6,
	}
}

// words counts the words of messages.
func words(messages []message.Message) (n int) {
	for _, m := range messages {
		n += len(strings.Fields(said(m)))
	}
	return n
}

// said returns the text of a message.
func said(m message.Message) string {
	var texts []string
	for _, b := range m.Blocks {
		if b.Kind == message.KindText {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}
