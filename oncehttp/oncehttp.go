package oncehttp

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
)

// The errors of a Recorder. The package comment says what each means.
var (
	ErrNoTurn = errors.New("oncehttp: request belongs to no turn: its context needs With or Unrecorded")
	ErrOther  = errors.New("oncehttp: another reply is recorded for this request")
)

// Options are the options of a Recorder. The zero value records each reply that can be recorded.
type Options struct {
	// Keep reports whether a reply shall be recorded. A reply that is of no use should not be: after a crash the
	// function would get it again. Keep may be called concurrently.
	Keep func(Reply) bool

	// KeepOnRetry is that of orchestrator.OnceOptions: a function that is tried again because the bot has failed gets
	// the recorded replies again.
	KeepOnRetry bool
}

// A Reply is the recorded form of a response.
type Reply struct {
	Status int

	// Type and Encoding are the headers Content-Type and Content-Encoding.
	Type, Encoding string

	// Header has what else is recorded of the headers: see the package comment. It must not be changed.
	Header http.Header

	// Body is the whole body. It must not be changed.
	Body []byte
}

// A Recorder records replies. It may be used by several clients and goroutines at once.
type Recorder struct{ options Options }

// New returns a Recorder.
func New(o *Options) *Recorder {
	if o == nil {
		o = new(Options)
	}
	return &Recorder{*o}
}

// Middleware answers a request with the recorded reply. If none is recorded, it calls next, and records the reply. It
// has the type of a middleware of openai-go. It marks errors as NotSent does.
func (r *Recorder) Middleware(
	req *http.Request, next func(*http.Request) (*http.Response, error),
) (*http.Response, error) {
	next = proving{next}.RoundTrip
	s, ok := scopeIn(req.Context())
	switch {
	case !ok:
		_ = closeBody(req)
		return nil, ErrNoTurn
	case s == nil:
		return next(req)
	}
	if err := s.failure(); err != nil {
		_ = closeBody(req)
		return nil, err
	}
	req, sum, err := fingerprint(req)
	if err != nil {
		return nil, err
	}
	c := &call{recorder: r, scope: s, sum: sum, number: s.take(sum), req: req, next: next, head: make(chan head, 1)}
	go c.run()
	h := <-c.head
	return h.res, h.err
}

// Transport returns a RoundTripper that does what Middleware does. base sends the requests; nil means
// http.DefaultTransport.
func (r *Recorder) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{r, base}
}

type transport struct {
	recorder *Recorder
	base     http.RoundTripper
}

// RoundTrip makes a transport an http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.recorder.Middleware(req, t.base.RoundTrip)
}

// fingerprint reads the body of a request. It returns the request with the body anew, and what tells its content from
// that of others.
func fingerprint(req *http.Request) (again *http.Request, sum string, err error) {
	var body []byte
	if req.Body != nil {
		if body, err = io.ReadAll(req.Body); err != nil {
			_ = closeBody(req)
			return nil, "", err
		}
		if err := closeBody(req); err != nil {
			return nil, "", err
		}
	}
	again = req.Clone(req.Context())
	if req.Body != nil && req.Body != http.NoBody {
		again.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		again.Body, _ = again.GetBody()
		again.ContentLength = int64(len(body))
	}
	url := *req.URL
	url.User, url.Fragment = nil, ""
	h := sha256.New()
	for _, part := range [][]byte{[]byte(req.Method), []byte(url.String()), body} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		_, _ = h.Write(part)
	}
	return again, hex.EncodeToString(h.Sum(nil)[:16]), nil
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
}
