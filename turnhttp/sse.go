package turnhttp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/httpjson"
)

const (
	// settleFirst is how long a response waits for its first event before it is 200. Until then it may still be another
	// status.
	settleFirst = 250 * time.Millisecond

	// commentEvery is how often a comment is sent while nothing happens.
	commentEvery = 15 * time.Second
)

// A sender sends server-sent events to one reader.
type sender struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	// gone is called when the reader takes nothing any more.
	gone context.CancelFunc

	mu    sync.Mutex // protects following fields; held while something is written
	begun bool       // the status is sent
	over  bool       // nothing is written any more
	quiet *time.Timer
}

// newSender returns the sender of a response. The caller calls close before its handler returns.
func newSender(w http.ResponseWriter, gone context.CancelFunc) *sender {
	e := &sender{w: w, rc: http.NewResponseController(w), gone: gone}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet = time.AfterFunc(settleFirst, e.comment)
	return e
}

// close ends the comments.
func (e *sender) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.quiet.Stop()
}

// comment keeps the connection open while nothing happens.
func (e *sender) comment() { e.send(": \n\n") }

// event sends an event. It has no id if number is 0. data is JSON in one line.
func (e *sender) event(number int64, kind string, data []byte) {
	var b strings.Builder
	if number > 0 {
		b.WriteString("id: ")
		b.WriteString(strconv.FormatInt(number, 10))
		b.WriteByte('\n')
	}
	b.WriteString("event: ")
	b.WriteString(kind)
	b.WriteString("\ndata: ")
	b.Write(bytes.TrimSuffix(data, []byte("\n")))
	b.WriteString("\n\n")
	e.send(b.String())
}

// begin sends the status, unless it is sent already.
func (e *sender) begin() { e.send("") }

func (e *sender) send(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	e.quiet.Reset(commentEvery)
	if !e.begun {
		e.begun = true
		streaming(e.w.Header())
		text = "retry: 1000\n\n" + text
	}
	_ = e.rc.SetWriteDeadline(time.Now().Add(httpjson.WritePatience))
	_, err := e.w.Write([]byte(text))
	if err == nil {
		err = e.rc.Flush()
	}
	if errors.Is(err, http.ErrNotSupported) { // behind a middleware all comes at the end
		err = nil
	}
	if err != nil {
		e.over = true
		e.quiet.Stop()
		e.gone()
	}
}

// streaming sets the headers of a response of events.
func streaming(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy must not collect events
	httpjson.Guard(h)
}

// settle reports whether the status is still to be chosen. Then nothing is sent any more.
func (e *sender) settle() (unsent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun {
		return false
	}
	e.over = true
	e.quiet.Stop()
	return true
}

// wantsEvents reports whether the client asks for server-sent events, and likes JSON no better.
func wantsEvents(r *http.Request) bool {
	var events, doc float64
	for _, line := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			kind, params, _ := strings.Cut(one, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "text/event-stream":
				events = max(events, quality(params))
			case "application/json":
				doc = max(doc, quality(params))
			}
		}
	}
	return events > 0 && events >= doc
}

// quality returns the q of the parameters of a type in Accept. It is 1 if there is none, or none that can be read.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}
