package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
)

// A Wire is the format of an API.
type Wire struct {
	Path   string
	Key    string                               // the environment variable
	Parse  func(doc []byte) (Asked, error)      // what a request asks
	Frames func(s Said) []string                // a reply as the events of a stream; the last one ends it
	Fault  func(code, text string) string       // the body of an error
	Broken func(code, text string) (one string) // an error as an event of a stream
	Strays []string                             // events of which no client knows

	Most                 int  // tools in a request; 0 is any number
	Thinks, Marks, Fails bool // what the API has: thoughts, marks for the cache, a mark on results that failed
}

// A Said is what the model says.
type Said struct {
	agent.Reply
	Refusal         string
	Cached, Written int // of Usage.Input
}

// An Asked is a request.
type Asked struct {
	agent.Request
	Model  string
	Strict []string // tools
	Marks  int      // for the cache
	Body   string
}

// An Answer is what the server does.
type Answer struct {
	Status int // 0 is 200
	Header map[string]string
	Body   string   // if there are no Frames
	Frames []string // the stream
	End    string   // "", "cut" in the middle of the last frame, or "hang" after it
}

// Handler serves an API by a script.
func (w Wire) Handler(script func(Asked) Answer) http.Handler {
	return http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		doc, err := io.ReadAll(req.Body)
		asked, parsed := w.Parse(doc)
		if err != nil || parsed != nil || !strings.HasSuffix(req.URL.Path, w.Path) {
			fault := w.Fault("invalid_request_error", fmt.Sprint(err, parsed, req.URL.Path))
			http.Error(res, fault, http.StatusBadRequest)
			return
		}
		asked.Body = string(doc)
		answer := script(asked)
		kind := "text/event-stream; charset=utf-8"
		if answer.Frames == nil {
			kind = "application/json"
		}
		res.Header().Set("Content-Type", kind)
		for name, value := range answer.Header {
			res.Header().Set(name, value)
		}
		if answer.Status != 0 {
			res.WriteHeader(answer.Status)
		}
		_, _ = io.WriteString(res, answer.Body)
		for i, frame := range answer.Frames {
			if answer.End == "cut" && i == len(answer.Frames)-1 {
				_, _ = io.WriteString(res, frame[:len(frame)/2])
				_ = http.NewResponseController(res).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(res, frame)
			_ = http.NewResponseController(res).Flush()
		}
		if answer.End == "hang" {
			<-req.Context().Done()
		}
	})
}

// Serve serves a model by the API of a vendor.
func (w Wire) Serve(m agent.Model) http.Handler {
	return w.Handler(func(a Asked) Answer {
		reply, err := m.Reply(context.Background(), a.Request, func(string) {})
		if err != nil {
			return Answer{Status: http.StatusInternalServerError, Body: w.Fault("server_error", err.Error())}
		}
		return Answer{Frames: w.Frames(Said{Reply: reply})}
	})
}

// pieces cuts a text into three, as a stream has it.
func pieces(text string) []string {
	all := []rune(text)
	n := (len(all) + 2) / 3
	var cut []string
	for part := range slices.Chunk(all, max(n, 1)) {
		cut = append(cut, string(part))
	}
	return cut
}

func frame(event string, data any) string {
	doc, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	if event == "" {
		return fmt.Sprintf("data: %s\n\n", doc)
	}
	return fmt.Sprintf("event: %s\ndata: %s\n\n", event, doc)
}

type object = map[string]any

// add adds a block to what was said: to the newest message, if that is of the same role.
func add(said []message.Message, role string, b message.Block) []message.Message {
	if n := len(said); n > 0 && said[n-1].Role == role {
		said[n-1].Blocks = append(said[n-1].Blocks, b)
		return said
	}
	return append(said, message.Message{Role: role, Blocks: []message.Block{b}})
}
