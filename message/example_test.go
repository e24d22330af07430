package message_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/message"
)

// A model asks for a tool. One process stores the message, another process reads it.
func Example() {
	said := message.Assistant("I look it up.")
	said.Turn = 3
	said.Blocks = append(said.Blocks, message.ToolCall("c1", "order", json.RawMessage(`{"id":"A-1042"}`)))
	doc, err := json.Marshal(said)
	fmt.Println(string(doc), err)

	var read message.Message
	fmt.Println(json.Unmarshal(doc, &read))
	for _, b := range read.Blocks {
		if call, ok := b.Call(); ok {
			fmt.Println(call.Name, string(call.Args))
		}
	}
	// Output:
	// {"v":1,"role":"assistant","turn":3,"blocks":[{"kind":"text","text":"I look it up."},{"kind":"tool_call","id":"c1","name":"order","args":{"id":"A-1042"}}]} <nil>
	// <nil>
	// order {"id":"A-1042"}
}

// During a deploy an old process reads a message of a new process. The old process may go on with the blocks that it
// understands, and loses no block.
func ExampleMessage_UnmarshalJSON_unknownKind() {
	doc := []byte(`{"v":1,"role":"user","turn":0,"blocks":[` +
		`{"kind":"text","text":"look"},{"kind":"image","url":"1.png"}]}`)
	var m message.Message
	err := json.Unmarshal(doc, &m)
	fmt.Println(err)
	fmt.Println(errors.Is(err, message.ErrUnknownKind), m.Blocks[0].Text)
	stored, err := json.Marshal(m)
	fmt.Println(string(stored), err)
	// Output:
	// message "": block 1: unknown block kind "image"
	// true look
	// {"v":1,"role":"user","turn":0,"blocks":[{"kind":"text","text":"look"},{"kind":"image","url":"1.png"}]} <nil>
}

func ExampleLast() {
	h := []message.Message{message.User("hi"), message.Assistant("hello"), message.User("refund me")}
	for _, m := range message.Last(h, 2) {
		fmt.Println(m.Role, m.Blocks[0].Text)
	}
	// Output:
	// assistant hello
	// user refund me
}

// Four characters for each token are exact enough for a budget.
func ExampleFit() {
	tokens := func(m message.Message) (n int) {
		for _, b := range m.Blocks {
			n += (len(b.Text) + len(b.Raw) + 3) / 4
		}
		return n
	}
	h := []message.Message{
		message.User("a long story about a parcel"), message.Assistant("I see."), message.User("refund me"),
	}
	for _, m := range message.Fit(h, 5, tokens) {
		fmt.Println(m.Role, m.Blocks[0].Text)
	}
	// Output:
	// assistant I see.
	// user refund me
}
