package message_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/message"
)

// talk is a turn of a model with a tool: 2.7 KB of JSON.
func talk() []message.Message {
	text := strings.Repeat("The parcel has left depot nine; \"A-1042\" arrives on Monday.\n", 13)
	all := []message.Message{
		message.User(text),
		{Role: message.RoleAssistant, Blocks: []message.Block{
			message.Text(text[:200]), message.ToolCall("call_1", "lookup", json.RawMessage(`{"order":"A-1042"}`)),
		}},
		{Role: "tool", Blocks: []message.Block{message.ToolResult("call_1", text, false)}},
		message.Assistant(text),
	}
	for i := range all {
		all[i].Turn, all[i].CreatedAt = 7, time.Date(2026, 3, 1, 9, 30, 0, 500e6, time.UTC)
	}
	return all
}

func BenchmarkEncode(b *testing.B) {
	all := talk()
	for b.Loop() {
		if _, err := json.Marshal(all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/message")
}

func BenchmarkDecode(b *testing.B) {
	doc, err := json.Marshal(talk())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var all []message.Message
		if err := json.Unmarshal(doc, &all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*4), "ns/message")
}
