package model

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// A request is a call of the chat-completions protocol, as far as OpenAI needs it.
type request struct {
	Model    string      `json:"model"`
	Messages []statement `json:"messages"`
	Format   *format     `json:"response_format,omitempty"`
	Stream   bool        `json:"stream,omitempty"`
	Options  *streaming  `json:"stream_options,omitempty"`
}

type statement struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A format asks for JSON that fits a schema.
type format struct {
	Type   string `json:"type"`
	Schema schema `json:"json_schema"`
}

type schema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

type streaming struct {
	Usage bool `json:"include_usage"`
}

// A completion is a reply, or a chunk of a stream.
type completion struct {
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   tokens   `json:"usage"`
	Error   *problem `json:"error"`
}

// A choice has a Message in a reply, and a Delta in a chunk.
type choice struct {
	Index   int     `json:"index"`
	Message passage `json:"message"`
	Delta   passage `json:"delta"`
	Finish  string  `json:"finish_reason"`
}

type passage struct {
	Content string `json:"content"`
	Refusal string `json:"refusal"`
}

type tokens struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// A problem is the error of a server. Its code may be a number or null.
type problem struct {
	Code any `json:"code"`
}

// A StatusError is an answer of the API that is no reply. It does not repeat the message of the server, which may have
// parts of the key or of the conversation.
type StatusError struct {
	Status int
	Code   string // of the API, such as "insufficient_quota"; "" if there is none
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("model: the API answers with status %d, code %q", e.Status, e.Code)
}

// mostBytes bounds a reply, and a line of a stream.
const mostBytes = 8 << 20

// post sends a request. The caller closes the body, and reads it to its end before: then it is recorded.
func (m *OpenAI) post(ctx context.Context, r request) (io.ReadCloser, error) {
	doc, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(doc))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+m.options.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res.Body, nil
	}
	defer res.Body.Close()
	var c completion
	_ = json.NewDecoder(io.LimitReader(res.Body, mostBytes)).Decode(&c) // a proxy may answer with HTML
	failed := &StatusError{Status: res.StatusCode}
	if c.Error != nil {
		failed.Code, _ = c.Error.Code.(string)
	}
	return nil, failed
}

// ask asks for a reply in one piece.
func (m *OpenAI) ask(ctx context.Context, r request) (c completion, err error) {
	body, err := m.post(ctx, r)
	if err != nil {
		return c, err
	}
	doc, err := io.ReadAll(http.MaxBytesReader(nil, body, mostBytes))
	if err = cmp.Or(err, body.Close()); err != nil {
		return c, err
	}
	return c, parse(doc, &c)
}

func parse(doc []byte, c *completion) error {
	if json.Unmarshal(doc, c) != nil {
		return fmt.Errorf("%w: it is not of the protocol", ErrReply)
	}
	return nil
}

// chunks reads a stream to its end, and calls add with each chunk. It goes on after [DONE]: the end of the body says
// whether the reply is recorded.
func chunks(stream io.Reader, add func(completion)) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, mostBytes)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || string(data) == "[DONE]" {
			continue
		}
		var c completion
		if err := parse(data, &c); err != nil {
			return err
		}
		if c.Error != nil {
			return fmt.Errorf("%w: an error ends it", ErrReply)
		}
		add(c)
	}
	return lines.Err()
}
