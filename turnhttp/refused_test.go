package turnhttp_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A client that is refused before its body has arrived hears so, and does not keep its connection for ever.
func TestSlowRefused(t *testing.T) {
	for name, head := range map[string]string{
		"denied":    "POST /sessions/s/turns HTTP/1.1\r\nAuthorization: other\r\n",
		"no route":  "POST /nothing HTTP/1.1\r\n",
		"no method": "PUT /sessions/s/turns HTTP/1.1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				conn := connect(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := io.WriteString(conn, head+"Host: x\r\nContent-Length: 10\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.StatusCode < 403 || res.StatusCode > 405 {
					t.Error(res.Status)
				}
			})
		})
	}
}

// A body whose rest does not arrive is 408, and leaves nothing, although Options.Input needs no more of the body. Input
// may also close the body.
func TestRestOfBody(t *testing.T) {
	for name, c := range map[string]struct {
		closes bool
		rest   string
		want   int
	}{
		"missing": {want: 408}, "there": {rest: "      ", want: 200}, "closed": {closes: true, rest: "      ", want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				o := w.options()
				o.Input = func(r *http.Request) (in orchestrator.Input, err error) {
					err = json.NewDecoder(io.LimitReader(r.Body, 7)).Decode(&in.Text)
					if c.closes {
						_ = r.Body.Close()
					}
					return in, err
				}
				conn := connect(t, turnhttp.Handler(w.bot(t, w.definition(), nil), o))
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				const head = "POST /sessions/s/turns HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n" +
					"Content-Length: 13\r\n\r\n"
				if _, err := io.WriteString(conn, head+`"say a"`+c.rest); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.StatusCode != c.want {
					t.Errorf("it is %d, not %d", res.StatusCode, c.want)
				}
				if c.want == 408 {
					w.wantNothing(t)
				}
			})
		})
	}
}

// A client takes events or JSON, whichever it likes better.
func TestAcceptQuality(t *testing.T) {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	for accept, want := range map[string]string{
		"text/event-stream":                          "text/event-stream",
		"application/json, text/event-stream":        "text/event-stream",
		"text/event-stream;q=0, application/json":    "application/json",
		"text/event-stream; q=0.000, */*":            "application/json",
		"application/json, text/event-stream; q=0.5": "application/json",
		"application/json;q=0.5, text/event-stream":  "text/event-stream",
	} {
		got := request{
			method: "POST", path: "/sessions/s/turns", key: accept, body: `{"message": "say a"}`,
			header: map[string]string{"Accept": accept},
		}.to(t.Context(), h)
		if kind := got.Header().Get("Content-Type"); kind != want {
			t.Errorf("%q: %s", accept, kind)
		}
	}
}

// A request id that Options.Input takes from a client cannot be that of an answer either.
func TestForgedRequest(t *testing.T) {
	w := newWorld()
	o := w.options()
	o.OptionalKey = true
	o.Input = func(r *http.Request) (orchestrator.Input, error) {
		return orchestrator.Input{Text: "say a", RequestID: r.URL.Query().Get("id")}, nil
	}
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
	got := request{method: "POST", path: "/sessions/s/turns?id=turnhttp/answer/0123"}.to(t.Context(), h)
	if got.Code != http.StatusBadRequest {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	w.wantNothing(t)
}
