package oncehttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A stream is passed on as it comes: the model says its second word when the first was read. It is recorded as a whole,
// and comes again with its type.
func TestStream(t *testing.T) {
	heard := make(chan struct{})
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		w.(http.Flusher).Flush()
		<-heard
		_, _ = io.WriteString(w, "data: two\n\n")
	})
	attempt := 0
	res, err := resumed(t, single(func(ctx context.Context, t *Turn) error {
		res, err := m.open(oncehttp.With(ctx, t, "model"), m.recorded(nil), "go")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		first := make([]byte, len("data: one\n\n"))
		if _, err := io.ReadFull(res.Body, first); err != nil {
			return err
		}
		if attempt++; attempt == 1 {
			close(heard)
		}
		rest, err := io.ReadAll(res.Body)
		t.State.Said = []string{res.Status, res.Header.Get("Content-Type"), string(first) + string(rest)}
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, "reply", strings.Join(res.State.Said, " "), "200 OK text/event-stream data: one\n\ndata: two\n\n")
	m.wantAsked(t, "go")
}

// SDKs close a stream after its last event, and do not read its end. It is recorded all the same.
func TestStreamClosedAtLastEvent(t *testing.T) {
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
		w.(http.Flusher).Flush()
	})
	_, all, err := once(t, func(ctx context.Context, t *Turn) error {
		res, err := m.open(oncehttp.With(ctx, t, "model"), m.recorded(nil), "go")
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(res.Body, make([]byte, len("data: [DONE]\n\n"))); err != nil {
			return err
		}
		return res.Body.Close()
	})
	if err != nil || len(all) != 1 {
		t.Errorf("%v, %+v", err, all)
	}
}

// A reader that closes a stream in its middle ends the request, and nothing is recorded.
func TestStreamClosedEarly(t *testing.T) {
	left := make(chan struct{})
	m := newModel(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		_, _ = io.WriteString(w, "data: one\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(left)
	})
	_, all, err := once(t, func(ctx context.Context, t *Turn) error {
		res, err := m.open(oncehttp.With(ctx, t, "model"), m.recorded(nil), "go")
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		if _, err := res.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			return err
		}
		return res.Body.Close()
	})
	<-left
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %+v", err, all)
	}
}

// A stream that is cut off is an error after what has come, and is not recorded.
func TestStreamCut(t *testing.T) {
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, "data: one\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	var said string
	_, all, err := once(t, func(ctx context.Context, t *Turn) (err error) {
		said, err = m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "go")
		return err
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) || said != "data: one\n\n" || len(all) > 0 {
		t.Errorf("%q, %v, %+v", said, err, all)
	}
}

// The end of the turn's context ends a stream.
func TestStreamOfTurnThatEnds(t *testing.T) {
	m := newModel(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	l := new(ledger.Memory)
	bot := start(t, single(func(ctx context.Context, t *Turn) error {
		res, err := m.open(oncehttp.With(ctx, t, "model"), m.recorded(nil), "go")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		cancel()
		_, err = io.ReadAll(res.Body)
		return err
	}), l, io.Discard)
	_, err := bot.Execute(ctx, "s", orchestrator.Input{}, nil)
	if !errors.Is(err, context.Canceled) || len(effects(t, l)) > 0 {
		t.Errorf("%v, %+v", err, effects(t, l))
	}
}

// Any bytes come again as they were.
func TestBodies(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "JSON": `{"a":1.0, "b":"<&>"}`, "emoji": "héllo 🎈\u2028",
		"no UTF-8": "\xff\xfe\x00", "U+0000": "a\x00b",
		"escapes, almost too large": strings.Repeat("<", ledger.MaxDocument/3-100),
		"quotes, almost too large":  strings.Repeat(`"`, ledger.MaxDocument/2-100),
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
				w.Header().Set("Content-Encoding", "none")
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, body)
			})
			res, err := resumed(t, single(func(ctx context.Context, t *Turn) error {
				t.State.Said = nil
				res, err := m.open(oncehttp.With(ctx, t, "model"), m.recorded(nil), "go")
				if err != nil {
					return err
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if string(got) == body {
					t.State.Said = []string{res.Status, res.Header.Get("Content-Encoding")}
				}
				return err
			}))
			if err != nil {
				t.Fatal(err)
			}
			mustEqual(t, "reply", strings.Join(res.State.Said, " "), "201 Created none")
			m.wantAsked(t, "go")
		})
	}
}

// What is larger than a ledger takes is passed on whole, not recorded, and logged. What it was does not come into the
// log.
func TestTooLarge(t *testing.T) {
	for name, body := range map[string]string{
		"body":      strings.Repeat("large ", ledger.MaxDocument),
		"as HTML":   strings.Repeat("<", ledger.MaxDocument/3+100),
		"as JSON":   strings.Repeat(`"`, ledger.MaxDocument/2+1),
		"as base64": strings.Repeat("\x00", ledger.MaxDocument/4*3+1),
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, body) })
			var logs logbook
			l := new(ledger.Memory)
			bot := start(t, single(func(ctx context.Context, t *Turn) error {
				ctx = oncehttp.With(ctx, t, "model")
				for range 2 {
					said, err := m.ask(ctx, m.recorded(nil), "go")
					if err != nil || said != body {
						return errors.Join(err, errors.New("another body"))
					}
				}
				return nil
			}), l, &logs)
			if _, err := bot.Execute(t.Context(), "s", orchestrator.Input{}, nil); err != nil {
				t.Fatal(err)
			}
			mustEqual(t, "effects", len(effects(t, l)), 0)
			const line = `msg="model call not recorded: its reply is larger than a ledger takes"`
			mustEqual(t, "lines in the log", strings.Count(logs.String(), line), 2)
			if !strings.Contains(logs.String(), "session=s") || strings.Contains(logs.String(), "large large") {
				t.Errorf("logged: %.500s", logs.String())
			}
		})
	}
}

// A reader may stop reading a large body, and close it.
func TestTooLargeClosed(t *testing.T) {
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		for range 100 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				return
			}
		}
	})
	_, _, err := once(t, func(ctx context.Context, t *Turn) error {
		res, err := m.open(oncehttp.With(ctx, t, "model"), m.recorded(nil), "go")
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, res.Body, 2<<20); err != nil {
			return err
		}
		return res.Body.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

// A recording ledger is the ledger of another owner, which is faster, or fails.
type recordingLedger struct {
	ledger.Ledger
	record func(e ledger.Effect) (ledger.Effect, error)
}

func (l recordingLedger) Record(_ context.Context, e ledger.Effect) (ledger.Effect, error) {
	return l.record(e)
}

// A reply that another owner has recorded meanwhile wins. The reader of ours gets an error in place of the end.
func TestAnotherReply(t *testing.T) {
	m := newModel(t, echo)
	l := new(ledger.Memory)
	faster := recordingLedger{l, func(e ledger.Effect) (ledger.Effect, error) {
		other := e
		other.Result = []byte(`{"status":200,"text":"another reply"}`)
		return l.Record(t.Context(), other)
	}}
	var errs []error
	res, err := start(t, single(func(ctx context.Context, t *Turn) error {
		ctx = oncehttp.With(ctx, t, "model")
		_, err := m.ask(ctx, m.recorded(nil), "one")
		errs = append(errs, err)
		return nil
	}), faster, io.Discard).Execute(t.Context(), "s", orchestrator.Input{}, nil)
	if err != nil || res == nil || len(errs) != 1 || !errors.Is(errs[0], oncehttp.ErrOther) {
		t.Errorf("%v, %v", err, errs)
	}
}

// A Content-Type that is no UTF-8 does not keep the reply from its reader.
func TestHeaderOfBytes(t *testing.T) {
	m := newModel(t, func(w http.ResponseWriter, _ *http.Request, question string) {
		w.Header().Set("Content-Encoding", "caf\xe9")
		w.Header().Set("Content-Type", "text/plain; title=\xe9\xe9")
		_, _ = io.WriteString(w, "reply to "+question)
	})
	_, effects, err := once(t, func(ctx context.Context, t *Turn) error {
		got, err := m.ask(oncehttp.With(ctx, t, "model"), m.recorded(nil), "one")
		if err == nil && got != "reply to one" {
			err = errors.New(got)
		}
		return err
	})
	if err != nil || len(effects) != 1 {
		t.Errorf("%v, with %d effects", err, len(effects))
	}
}

// If the ledger fails, so does the end of the body, and Close for a reader that does not look for the end. Nothing is
// asked after that.
func TestLedgerFails(t *testing.T) {
	m := newModel(t, echo)
	failing := recordingLedger{new(ledger.Memory), func(ledger.Effect) (ledger.Effect, error) {
		return ledger.Effect{}, ledger.ErrSchema
	}}
	for name, read := range map[string]func(io.ReadCloser) error{
		"read":  func(b io.ReadCloser) error { _, err := io.ReadAll(b); return errors.Join(err, b.Close()) },
		"close": func(b io.ReadCloser) error { return b.Close() },
	} {
		var got, again error
		bot := start(t, single(func(ctx context.Context, t *Turn) error {
			ctx = oncehttp.With(ctx, t, "model")
			res, err := m.open(ctx, m.recorded(nil), "one")
			if err != nil {
				return err
			}
			got = read(res.Body)
			_, again = m.ask(ctx, m.recorded(nil), "two")
			return got
		}), failing, io.Discard)
		_, err := bot.Execute(t.Context(), "s", orchestrator.Input{}, nil)
		if !errors.Is(got, ledger.ErrSchema) || !errors.Is(again, ledger.ErrSchema) ||
			!errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Errorf("%s: %v, then %v, and the turn %v", name, got, again, err)
		}
	}
	m.wantAsked(t, "one", "one")
}

// A client below that panics, or ends its goroutine, ends the call.
func TestClientBelow(t *testing.T) {
	for name, below := range map[string]func(*http.Request) (*http.Response, error){
		"panic": func(*http.Request) (*http.Response, error) { panic("a mistake") },
		"error": func(*http.Request) (*http.Response, error) { return nil, io.ErrNoProgress },
	} {
		_, _, err := once(t, func(ctx context.Context, t *Turn) error {
			ctx, cancel := context.WithTimeout(oncehttp.With(ctx, t, "model"), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://model.invalid", nil)
			if err != nil {
				return err
			}
			res, err := oncehttp.New(nil).Middleware(req, below)
			if res != nil {
				_ = res.Body.Close()
			}
			return err
		})
		_, panicked := errors.AsType[*orchestrator.PanicError](err)
		if panicked != (name == "panic") || errors.Is(err, io.ErrNoProgress) != (name == "error") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
