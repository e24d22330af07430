package modelapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/retry"
)

// A Vendor is whose API a model asks.
type Vendor struct {
	Name  string
	Model string
	Key   string // where the key comes from, for people
}

// A refusal is a response that is no stream.
type refusal struct {
	status int
	header http.Header
	body   []byte
}

func (r *refusal) Error() string { return "status " + strconv.Itoa(r.status) }

// mostOfRefusal is how much is read of a response that is no stream.
const mostOfRefusal = 64 << 10

// Refused is a middleware of an SDK. It makes an error of a response that is no stream. So the errors of all SDKs are
// ours, and none holds the request, in which the key is.
func Refused(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(r)
	if err != nil {
		return res, err
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode < 300 && kind != "application/json" && kind != "text/html" {
		return res, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, mostOfRefusal))
	_ = res.Body.Close()
	if err != nil && len(body) == 0 {
		return nil, err
	}
	return nil, &refusal{res.StatusCode, res.Header, body}
}

// Failed returns the error of a model whose request or stream has ended with err.
func (v Vendor) Failed(err error, tools []agent.Tool) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return v.refused(r.status, r.header, r.body, tools)
	}
	return fmt.Errorf("%s: %s: %w", v.Name, v.Model, err)
}

// Told returns the error of a model whose vendor says one in the middle of a stream: an object with the member error,
// or the error itself.
func (v Vendor) Told(doc []byte, tools []agent.Tool) error { return v.refused(0, nil, doc, tools) }

// CutOff returns the error of a stream that has ended before its end.
func (v Vendor) CutOff() error {
	return fmt.Errorf("%s: %s: the reply has ended before its end: %w", v.Name, v.Model, io.ErrUnexpectedEOF)
}

// Nonsense returns the error of a stream that cannot be.
func (v Vendor) Nonsense(what string) error {
	return fmt.Errorf("%s: %s: the reply cannot be read: %s", v.Name, v.Model, what)
}

// Declined returns the error of a model that refuses to answer, in its own words.
func (v Vendor) Declined(words string) error {
	return retry.Permanent(fmt.Errorf("%s: %s: %w: %s", v.Name, v.Model, models.ErrRefused, line(words)))
}

// refused makes an error of what a vendor says. Status 0 is that of the vendor's word.
func (v Vendor) refused(status int, h http.Header, body []byte, tools []agent.Tool) error {
	f := parse(body)
	e := &models.Error{Vendor: v.Name, Model: v.Model, Status: status, Code: f.code, Message: f.message, Key: v.Key}
	switch {
	case status == 0:
		e.Status = statusOf(f)
	case status < 300:
		if e.Status = statusOf(f); !f.found {
			e.Message = "it answers with no stream: " + e.Message
		}
	}
	if name := toolOf(f, tools); name != "" {
		e.Message = fmt.Sprintf("tool %q: %s", name, e.Message)
	}
	e.Message = line(e.Message)
	err := agent.HTTPError(e, e.Status, h)
	switch {
	case errors.Is(err, agent.ErrTooLong):
		return err
	case f.tooLong() && e.Status != http.StatusTooManyRequests && e.Status < 500:
		return fmt.Errorf("%w: %w", agent.ErrTooLong, e)
	case usedUp[f.code]:
		return retry.Permanent(err)
	}
	return err
}

// usedUp are the words of an account that has no money: the status is that of too many requests.
var usedUp = map[string]bool{
	"insufficient_quota": true, "billing_not_active": true, "billing_hard_limit_reached": true,
}

// A fault is what a vendor says in the body of an error.
type fault struct {
	code, kind, message, param string
	found                      bool // there was an error in the body
}

// parse reads the forms that vendors use. What is none of them is the message.
func parse(body []byte) (f fault) {
	var doc struct {
		Error                json.RawMessage `json:"error"`
		Code                 any             `json:"code"`
		Type, Message, Param string
	}
	f.message = string(body)
	if json.Unmarshal(body, &doc) != nil {
		return f
	}
	if err := bytes.TrimSpace(doc.Error); len(err) > 0 && !bytes.Equal(err, []byte("null")) {
		var text string
		if json.Unmarshal(err, &text) == nil {
			return fault{message: text, found: true}
		}
		doc.Code, doc.Type, doc.Message, doc.Param = nil, "", "", ""
		_ = json.Unmarshal(err, &doc)
	}
	f.kind, f.param = doc.Type, doc.Param
	switch code := doc.Code.(type) {
	case string:
		f.code = code
	case float64:
		f.code = strconv.Itoa(int(code))
	}
	if f.code == "" {
		f.code = f.kind
	}
	if doc.Message != "" {
		f.message, f.found = doc.Message, true
	}
	return f
}

// longWords are in the sentences of vendors and of compatible servers about what was said being too long.
var longWords = []string{
	"context length", "context window", "context limit", "context size", "maximum context", "prompt is too long",
	"input is too long",
}

func (f fault) tooLong() bool {
	if f.code == "context_length_exceeded" || f.code == "string_above_max_length" {
		return true
	}
	text := strings.ToLower(f.message)
	for _, words := range longWords {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// statuses are those that the words of vendors have in a response of their own.
var statuses = map[string]int{
	"overloaded_error": 529, "api_error": 500, "server_error": 500, "timeout_error": 504,
	"rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429,
	"invalid_request_error": 400, "context_length_exceeded": 400, "invalid_prompt": 400, "billing_error": 402,
	"authentication_error": 401, "invalid_api_key": 401, "permission_error": 403, "not_found_error": 404,
	"model_not_found": 404, "request_too_large": 413,
}

// statusOf returns the status of what was said without one. An unknown word may be a fault of the server.
func statusOf(f fault) int {
	for _, word := range []string{f.code, f.kind} {
		if status := statuses[word]; status != 0 {
			return status
		}
		if n, err := strconv.Atoi(word); err == nil && n >= 400 && n < 600 {
			return n
		}
	}
	return http.StatusInternalServerError
}

// numbered matches the place of a tool, as vendors write it.
var numbered = regexp.MustCompile(`\btools[.\[/](\d+)`)

// toolOf returns the name of the tool that the vendor means by its number.
func toolOf(f fault, tools []agent.Tool) string {
	m := numbered.FindStringSubmatch(f.param + " " + f.message)
	if m == nil {
		return ""
	}
	n, err := strconv.Atoi(m[1])
	if err != nil || n >= len(tools) {
		return ""
	}
	return tools[n].Name
}

// line returns a text as a part of one line.
func line(text string) string {
	const most = 500
	if text = strings.Join(strings.Fields(text), " "); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.ToValidUTF8(text, "")
}
