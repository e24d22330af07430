package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// A conn speaks the DevTools protocol: JSON documents, each followed by a zero byte.
type conn struct {
	w     *os.File
	event func(session, method string, params []byte)
	ended chan struct{} // closed when nothing more can be read

	mu      sync.Mutex // protects following fields and writes to w
	last    int
	waiting map[int]chan<- message
}

// A message is a call, a reply or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

var errEnded = errors.New("chromium has ended")

func newConn(w, r *os.File, event func(session, method string, params []byte)) *conn {
	c := &conn{w: w, event: event, ended: make(chan struct{}), waiting: make(map[int]chan<- message)}
	go c.read(r)
	return c
}

// close closes the pipe, and waits until Chromium has closed its end.
func (c *conn) close() error {
	err := c.w.Close()
	select {
	case <-c.ended:
		return err
	case <-time.After(patience):
		return errors.Join(err, errors.New("chromium runs on after its pipe was closed"))
	}
}

// read reads to the end of r. It hands on replies and events in the order in which they come.
func (c *conn) read(r *os.File) {
	defer close(c.ended)
	defer r.Close()
	for buf := bufio.NewReader(r); ; {
		doc, err := buf.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(doc[:len(doc)-1], &m) != nil {
			continue
		}
		if m.ID == 0 {
			c.event(m.Session, m.Method, m.Params)
			continue
		}
		c.mu.Lock()
		reply := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if reply != nil {
			reply <- m
		}
	}
}

// call calls a method, of a tab if session names one, and decodes its result unless result is nil.
func (c *conn) call(session, method string, params, result any) error {
	m := message{Session: session, Method: method}
	if params != nil {
		var err error
		if m.Params, err = json.Marshal(params); err != nil {
			return err
		}
	}
	replied, err := c.send(m)
	if err != nil {
		return err
	}
	select {
	case m = <-replied:
	case <-c.ended:
		return fmt.Errorf("%s: %w", method, errEnded)
	case <-time.After(patience):
		return fmt.Errorf("%s: no reply after %v", method, patience)
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

func (c *conn) send(m message) (<-chan message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	m.ID = c.last
	doc, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	replied := make(chan message, 1)
	c.waiting[m.ID] = replied
	if _, err := c.w.Write(append(doc, 0)); err != nil {
		delete(c.waiting, m.ID)
		return nil, err
	}
	return replied, nil
}
