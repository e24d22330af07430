package model

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/message"
)

func TestClassify(t *testing.T) {
	refund := []message.Message{
		message.User("I want a refund for A-1042"), message.Assistant("It was shipped. Shall I refund 42.00?"),
	}
	shipping := append(slices.Clone(refund), message.User("and where is the parcel?"), message.Assistant("Which order?"))
	for _, tt := range []struct {
		history []message.Message
		text    string
		want    Intent
	}{
		{nil, "I want a refund for order A-1042", Intent{Category: Refund, Order: "A-1042"}},
		{nil, "my money back please, a1042 came broken", Intent{Category: Refund, Order: "A-1042"}},
		{nil, "I'd like to return it", Intent{Category: Refund}},
		{nil, "Where is B-2001?", Intent{Category: Shipping, Order: "B-2001"}},
		{nil, "has my parcel been delivered", Intent{Category: Shipping}},
		{nil, "where is my refund", Intent{Category: Refund}},
		{nil, "Hello there", Intent{Category: Other}},
		{nil, "yes please", Intent{Category: Other, Yes: true}},
		{nil, "A-1042", Intent{Category: Other, Order: "A-1042"}},
		{nil, "", Intent{Category: Other}},
		{refund, "Yes please start the refund", Intent{Category: Refund, Yes: true}},
		{refund, "yes please", Intent{Category: Refund, Yes: true}},
		{refund, "no thanks", Intent{Category: Refund, No: true}},
		{refund, "yes, but I do not want a refund", Intent{Category: Refund, No: true}},
		{refund, "ok, where is my parcel?", Intent{Category: Shipping}},
		{refund, "thanks", Intent{Category: Other}},
		{shipping, "it is A-1043", Intent{Category: Shipping, Order: "A-1043"}},
		{shipping, "what a day, and the queue at A-1043 was as long as ever", Intent{Category: Other, Order: "A-1043"}},
		{[]message.Message{message.System(summarize(refund))}, "yes", Intent{Category: Refund, Yes: true}},
	} {
		got, used, err := new(Scripted).Classify(t.Context(), tt.history, tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
		if tt.text != "" && (used.Input == 0 || used.Output == 0 || used.Cost == 0 || used.Model == "") {
			t.Errorf("%q: %+v", tt.text, used)
		}
	}
}

func TestCompose(t *testing.T) {
	facts := []string{"The refund of 42.00 for order A-1042 is paid.", "The receipt is R-1."}
	for _, tt := range []struct {
		name string
		p    Prompt
		want string
	}{
		{
			"facts",
			Prompt{Text: "refund A-1042", Category: Refund, Order: "A-1042", Facts: facts},
			"Thank you for your patience. " + strings.Join(facts, " "),
		},
		{
			"no order",
			Prompt{Text: "refund", Category: Refund, Facts: []string{"Which order is it about?"}},
			"I am sorry to hear that. Which order is it about?",
		},
		{
			"shipping",
			Prompt{Text: "where?", Category: Shipping, Order: "A-1", Facts: []string{"It is on its way."}},
			"I have looked it up for you. It is on its way.",
		},
		{"talk", Prompt{Text: "thank you!", Category: Other}, "You are welcome. Is there anything else?"},
		{
			"too much",
			Prompt{Text: "can you promise it?", Category: Other, Facts: facts[:1]},
			facts[0] + " I guarantee that all of this is done by tomorrow.",
		},
		{
			"sent back",
			Prompt{Text: "can you promise it?", Category: Other, Facts: facts[:1], Feedback: "promise nothing"},
			"Let me be exact. " + facts[0] + " I cannot say more than that for certain.",
		},
	} {
		var pieces []string
		got, used, err := new(Scripted).Compose(t.Context(), tt.p, func(s string) { pieces = append(pieces, s) })
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
		if strings.Join(pieces, "") != got || len(pieces) != used.Output || used.Input == 0 {
			t.Errorf("%s: pieces %q, usage %+v", tt.name, pieces, used)
		}
	}
}

// What was asked, and which orders were named, survives two summaries.
func TestSummarize(t *testing.T) {
	m := new(Scripted)
	first, _, err := m.Summarize(t.Context(), []message.Message{
		message.User("where is A-1043?"), message.Assistant("Order A-1043 is on its way."), message.User("and A-1044?"),
	})
	if want := "The customer has asked about: shipping; orders named: A-1043, A-1044."; err != nil || first != want {
		t.Errorf("%q, %v; want %q", first, err, want)
	}
	second, _, err := m.Summarize(t.Context(), []message.Message{
		message.System(first), message.User("refund A-1044 please"), message.User("and refund a1042"),
	})
	want := first + " The customer has asked about: refund; orders named: A-1042."
	if err != nil || second != want {
		t.Errorf("%q, %v; want %q", second, err, want)
	}
}

// Each word takes the pause, and the end of the context is the end of the reply.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Scripted{Pause: time.Second}
		p := Prompt{Facts: []string{"one two three four"}}
		began := time.Now()
		if _, _, err := m.Compose(t.Context(), p, nil); err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, errors.New("handed over"))
		defer cancel()
		var said []string
		_, used, err := m.Compose(ctx, p, func(s string) { said = append(said, s) })
		if err == nil || err.Error() != "handed over" || !slices.Equal(said, []string{"one "}) || used.Output != 1 {
			t.Errorf("%v after %q, %+v", err, said, used)
		}
	})
}
