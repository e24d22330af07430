package oncehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// errTooLarge says that a body has more bytes than are recorded.
var errTooLarge = errors.New("oncehttp: reply is too large")

// errClosed says that the reader has closed a body before its end.
var errClosed = errors.New("oncehttp: reply was closed before its end")

// patience is how long Close waits for the end of a body that was not read to its end. An SDK closes a stream after the
// last event, which comes right before the end.
const patience = time.Second

// A tape is a body that is passed on as it comes, and kept until it is recorded. The reader gets the end when the call
// has ended. A body that is not to be recorded is read by the reader itself.
type tape struct {
	from io.ReadCloser

	// cancel ends the request.
	cancel context.CancelFunc

	// done is closed when the call has ended.
	done chan struct{}

	mu   sync.Mutex // protects following fields
	news sync.Cond  // something has changed
	kept []byte
	read int // of kept

	// passed says that the reader reads from the body itself, after what is kept.
	passed bool
	closed bool
	ended  error // what the reader gets in the end; nil: the call has not ended
}

func newTape(from io.ReadCloser, cancel context.CancelFunc) *tape {
	t := &tape{from: from, cancel: cancel, done: make(chan struct{})}
	t.news.L = &t.mu
	return t
}

// passOn leaves the rest of the body to the reader.
func (t *tape) passOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed = true
	t.news.Broadcast()
}

// fill reads the body to its end, and returns it. If the body is larger than limit, its rest is left to the reader, and
// fill returns errTooLarge.
func (t *tape) fill(limit int) ([]byte, error) {
	chunk := make([]byte, 32<<10)
	for {
		n, err := t.from.Read(chunk)
		size := t.add(chunk[:n])
		switch {
		case size > limit:
			t.passOn()
			return nil, errTooLarge
		case err == io.EOF:
			_ = t.from.Close()
			return t.kept, nil
		case err != nil:
			_ = t.from.Close()
			return nil, t.why(err)
		}
	}
}

func (t *tape) add(chunk []byte) (size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, chunk...)
	t.news.Broadcast()
	return len(t.kept)
}

// why returns why the body ended early.
func (t *tape) why(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	return err
}

// end says what the reader gets in the end. It is called once.
func (t *tape) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = err
	if !t.passed {
		t.cancel() // otherwise Close does
	}
	close(t.done)
	t.news.Broadcast()
}

// Read waits for the next bytes.
func (t *tape) Read(p []byte) (int, error) {
	n, err, done := t.next(p)
	if done {
		return n, err
	}
	return t.from.Read(p)
}

// next returns what is kept, or the end. done is false if the body is to be read.
func (t *tape) next(p []byte) (n int, err error, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		switch {
		case t.closed:
			return 0, http.ErrBodyReadAfterClose, true
		case t.read < len(t.kept):
			n = copy(p, t.kept[t.read:])
			t.read += n
			return n, nil, true
		case t.passed:
			t.kept, t.read = nil, 0
			return 0, nil, false
		case t.ended != nil:
			return 0, t.ended, true
		}
		t.news.Wait()
	}
}

// Close waits for the end of the call. If the body does not come to its end in time, Close ends the request, and
// nothing is recorded. If the reply could not be recorded, Close returns the error: a reader may know the last event of
// a stream, and not look for its end.
func (t *tape) Close() error {
	t.mu.Lock()
	over := t.ended != nil || t.passed
	t.mu.Unlock()
	if !over {
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-t.done:
		case <-late.C:
		}
	}
	t.mu.Lock()
	t.closed = true
	t.news.Broadcast()
	t.mu.Unlock()
	t.cancel()
	<-t.done
	return t.close()
}

// close closes the body, if the reader was to read it.
func (t *tape) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.passed:
		return t.from.Close()
	case t.ended == io.EOF, t.ended == errClosed: //nolint:errorlint // these very errors
		return nil
	}
	return t.ended
}
