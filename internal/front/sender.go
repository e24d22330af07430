package front

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
	// SettleFirst is how long a response waits for its first event before it is 200. Until then it may still be another
	// status.
	SettleFirst = 250 * time.Millisecond

	// commentEvery is how often a comment is sent while nothing happens.
	commentEvery = 15 * time.Second
)

// A Sender sends server-sent events to one reader.
type Sender struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	// gone is called when the reader takes nothing any more.
	gone context.CancelFunc

	mu    sync.Mutex // protects following fields; held while something is written
	begun bool       // the status is sent
	told  bool       // so is how soon a reader comes back
	over  bool       // nothing is written any more
	quiet *time.Timer
}

// NewSender returns the sender of a response. The caller calls Close before its handler returns.
func NewSender(w http.ResponseWriter, gone context.CancelFunc) *Sender {
	e := &Sender{w: w, rc: http.NewResponseController(w), gone: gone}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet = time.AfterFunc(SettleFirst, e.comment)
	return e
}

// Close ends the comments.
func (e *Sender) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.quiet.Stop()
}

// comment keeps the connection open while nothing happens.
func (e *Sender) comment() { e.send(": \n\n", false) }

// Event sends an event. It has no id if number is 0. data is JSON in one line.
func (e *Sender) Event(number int64, kind string, data []byte) {
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
	e.Send(b.String())
}

// Begin sends the status, unless it is sent already.
func (e *Sender) Begin() { e.send("", false) }

// Send sends an event, after the status. The first one says how soon a reader comes back: some readers take a block
// that says nothing else for an event.
func (e *Sender) Send(text string) { e.send(text, true) }

func (e *Sender) send(text string, event bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	e.quiet.Reset(commentEvery)
	if !e.begun {
		e.begun = true
		Streaming(e.w.Header())
	}
	if event && !e.told {
		e.told = true
		text = "retry: 1000\n" + text
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

// Streaming sets the headers of a response of events.
func Streaming(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy must not collect events
	httpjson.Guard(h)
	h.Set("Cache-Control", "no-store, no-transform") // nor pack them: what packs collects
}

// Settle reports whether the status is still to be chosen. Then nothing is sent any more.
func (e *Sender) Settle() (unsent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun {
		return false
	}
	e.over = true
	e.quiet.Stop()
	return true
}

// Data sends one document of a protocol that has no names of events.
func (e *Sender) Data(doc any) {
	e.Send("data: " + string(httpjson.Marshal(doc)) + "\n")
}
