package chatserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
)

// A Fault is how the server answers one request. The zero Fault answers as it should.
type Fault struct {
	// Wait is how long the server takes before it answers.
	Wait time.Duration

	// Status is an HTTP status in place of an answer. Code is the code in its error: "insufficient_quota", say.
	Status int
	Code   string

	// Cut ends the connection in the middle of the answer.
	Cut bool

	// Mute ends the answer in its middle, as if that were the end: a stream without finish_reason.
	Mute bool

	// NoJSON answers with what is no JSON, where JSON was asked for. In a stream a chunk is no JSON.
	NoJSON bool

	// Content is the content of an answer that is JSON. It replaces that of the scripted model.
	Content string

	// Refuse refuses to answer. Finish is the finish_reason; "" means "stop".
	Refuse bool
	Finish string
}

// A Server is an http.Handler. Its path is /v1/chat/completions. The zero value is ready.
type Server struct {
	// Key is the API key that requests must have. "" takes any.
	Key string

	// Model writes the answers. Its pauses are those between the chunks of a stream.
	Model model.Scripted

	mu     sync.Mutex // protects following fields
	asked  []Request
	faults []Fault
}

// A Request is one call of the server.
type Request struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Stream   bool      `json:"stream"`
	Format   struct {
		Type   string `json:"type"`
		Schema struct {
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Options struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// A Message is a message of a Request.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Fail makes the server answer the next requests with these faults, one each.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Asked returns the requests so far. Those that the server did not understand are not among them.
func (s *Server) Asked() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// note notes a request. It returns how to answer it.
func (s *Server) note(r Request) (f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	if len(s.faults) > 0 {
		f, s.faults = s.faults[0], s.faults[1:]
	}
	return f
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/v1/chat/completions":
		fail(w, http.StatusNotFound, "unknown_url")
		return
	case r.Method != http.MethodPost:
		fail(w, http.StatusMethodNotAllowed, "method_not_allowed")
		return
	case s.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.Key:
		fail(w, http.StatusUnauthorized, "invalid_api_key")
		return
	}
	req, err := read(w, r)
	if err != nil {
		fail(w, http.StatusBadRequest, "invalid_request")
		return
	}
	f := s.note(req)
	wait := time.NewTimer(f.Wait)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-r.Context().Done():
		return
	}
	a := &answer{server: s, w: w, request: req, fault: f}
	switch {
	case f.Status != 0:
		fail(w, f.Status, f.Code)
	case req.Stream:
		a.stream(r.Context())
	default:
		a.whole(r.Context())
	}
}

// mostBytes bounds a request.
const mostBytes = 8 << 20

// read reads a request, and checks what a real server would refuse.
func read(w http.ResponseWriter, r *http.Request) (req Request, err error) {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBytes)).Decode(&req); err != nil {
		return req, err
	}
	format := req.Format
	switch {
	case req.Model == "" || len(req.Messages) == 0:
		return req, errors.New("no model, or no messages")
	case req.Options.Usage && !req.Stream:
		return req, errors.New("stream_options without stream")
	case format.Type == "json_schema" && (format.Schema.Name == "" || !json.Valid(format.Schema.Schema)):
		return req, errors.New("no schema")
	}
	for _, m := range req.Messages {
		if m.Role != "system" && m.Role != "user" && m.Role != "assistant" {
			return req, errors.New("unknown role")
		}
	}
	return req, nil
}

// fail answers with an error of the API.
func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": http.StatusText(status), "type": "error", "param": nil, "code": code,
	}})
}
