package chatserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/message"
)

// An answer is the answer to one request.
type answer struct {
	server  *Server
	w       http.ResponseWriter
	request Request
	fault   Fault
}

// An object is JSON.
type object map[string]any

// say lets the scripted model answer.
func (a *answer) say(ctx context.Context, emit func(string)) (string, model.Usage, error) {
	system, history, text := conversation(a.request.Messages)
	m := &a.server.Model
	switch {
	case a.request.Format.Type == "json_schema":
		in, used, err := m.Classify(ctx, history, text)
		if err != nil {
			return "", used, err
		}
		doc, err := json.Marshal(in)
		return string(doc), used, err
	case strings.HasPrefix(system, "You summarize"):
		summary, used, err := m.Summarize(ctx, history)
		if err == nil && emit != nil {
			emit(summary)
		}
		return summary, used, err
	}
	return m.Compose(ctx, prompt(system, history, text), emit)
}

// whole answers in one piece.
func (a *answer) whole(ctx context.Context) {
	content, used, err := a.say(ctx, nil)
	if err != nil {
		fail(a.w, http.StatusInternalServerError, "server_error")
		return
	}
	switch {
	case a.fault.NoJSON:
		content = "Certainly! Here is the JSON: {"
	case a.fault.Content != "":
		content = a.fault.Content
	}
	said := object{"role": "assistant", "content": content, "refusal": nil}
	if a.fault.Refuse {
		said["content"], said["refusal"] = nil, "I cannot help with that."
	}
	doc := object{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": a.request.Model,
		"choices": []object{{"index": 0, "message": said, "finish_reason": a.finish()}}, "usage": usage(used),
	}
	if a.fault.Mute {
		doc["choices"] = []object{}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		fail(a.w, http.StatusInternalServerError, "server_error")
		return
	}
	a.w.Header().Set("Content-Type", "application/json")
	if a.fault.Cut {
		_, _ = a.w.Write(text[:len(text)/2])
		a.cut()
	}
	_, _ = a.w.Write(text)
}

// stream answers in chunks.
func (a *answer) stream(ctx context.Context) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	first := true
	_, used, err := a.say(ctx, func(piece string) {
		if a.fault.Refuse {
			return
		}
		a.chunk(object{"content": piece}, nil)
		if first {
			a.failEarly()
		}
		first = false
	})
	switch {
	case err != nil: // the reader has gone
		a.cut()
	case a.fault.Mute:
		return
	case a.fault.Refuse:
		a.chunk(object{"refusal": "I cannot help with that."}, nil)
	}
	a.chunk(object{}, a.finish())
	if a.request.Options.Usage {
		a.event(object{"choices": []object{}, "usage": usage(used)})
	}
	a.write("data: [DONE]\n\n")
}

// failEarly fails after the first chunk, if the fault says so.
func (a *answer) failEarly() {
	switch {
	case a.fault.Cut:
		a.cut()
	case a.fault.NoJSON:
		a.write("data: {\"choices\": oops\n\n")
	}
}

// cut ends the connection.
func (a *answer) cut() {
	_ = http.NewResponseController(a.w).Flush()
	panic(http.ErrAbortHandler)
}

func (a *answer) finish() string {
	if a.fault.Finish != "" {
		return a.fault.Finish
	}
	return "stop"
}

// chunk writes a chunk with one choice.
func (a *answer) chunk(delta object, finish any) {
	a.event(object{"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}, "usage": nil})
}

// event writes a chunk.
func (a *answer) event(chunk object) {
	chunk["id"], chunk["object"], chunk["created"] = "chatcmpl-1", "chat.completion.chunk", 0
	chunk["model"] = a.request.Model
	doc, err := json.Marshal(chunk)
	if err != nil {
		a.cut()
	}
	a.write(fmt.Sprintf("data: %s\n\n", doc))
}

func (a *answer) write(text string) {
	_, _ = io.WriteString(a.w, text)
	_ = http.NewResponseController(a.w).Flush()
}

func usage(u model.Usage) object {
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
	}
}

// conversation takes a request apart: the instruction, the conversation, and the last message.
func conversation(all []Message) (system string, history []message.Message, text string) {
	if all[0].Role == message.RoleSystem {
		system, all = all[0].Content, all[1:]
	}
	if n := len(all); n > 0 {
		text, all = all[n-1].Content, all[:n-1]
	}
	for _, m := range all {
		history = append(history, message.Message{Role: m.Role, Blocks: []message.Block{message.Text(m.Content)}})
	}
	return system, history, text
}

// prompt reads the Prompt in an instruction for Compose.
func prompt(system string, history []message.Message, text string) model.Prompt {
	p := model.Prompt{History: history, Text: text}
	lists := make(map[string][]string)
	title := ""
	for line := range strings.Lines(system) {
		line = strings.TrimSuffix(line, "\n")
		if item, ok := strings.CutPrefix(line, "- "); ok {
			lists[title] = append(lists[title], item)
		} else {
			title = line
		}
	}
	p.Facts, p.Recalled = lists["Facts:"], lists["What we know of the customer:"]
	if about := lists["The message is about:"]; len(about) > 0 {
		p.Category = about[0]
		if len(about) > 1 {
			p.Order = about[1]
		}
	}
	if feedback := lists["Your last draft must not be sent:"]; len(feedback) > 0 {
		p.Feedback = feedback[0]
	}
	return p
}
