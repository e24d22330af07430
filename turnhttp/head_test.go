package turnhttp_test

import (
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/turnhttp"
)

// HEAD is as GET, without the body.
func TestHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
		client := served(t, h)
		says("ask q1 100").to(t.Context(), h)
		time.Sleep(time.Second)
		for _, path := range []string{
			"/openapi.json", "/sessions/s", "/sessions/s?limit=x", "/sessions/s/questions", "/sessions/s/effects",
			"/sessions/s/messages", "/sessions/s/messages?limit=x", "/sessions/s/turns/k", "/sessions/s/turns/x",
			"/sessions/s/events", "/sessions/s/events?after=1", "/sessions/s/events?after=99", "/sessions/t/events",
			"/sessions/s/events?after=x", "/sessions/s/nothing",
		} {
			get, size := fetched(t, client, "GET", path)
			head, none := fetched(t, client, "HEAD", path)
			if head.StatusCode != get.StatusCode || none != 0 {
				t.Errorf("HEAD %s is %d with %d bytes, GET is %d", path, head.StatusCode, none, get.StatusCode)
			}
			for _, name := range []string{
				"Content-Type", "Cache-Control", "X-Content-Type-Options", "X-Accel-Buffering",
			} {
				if a, b := head.Header.Get(name), get.Header.Get(name); a != b {
					t.Errorf("HEAD %s has %s %q, GET %q", path, name, a, b)
				}
			}
			if n := head.Header.Get("Content-Length"); n != "" && n != strconv.Itoa(size) {
				t.Errorf("HEAD %s has a length of %s, GET %d bytes", path, n, size)
			}
		}
		for _, path := range []string{"/sessions/s/turns", "/sessions/s/resume"} {
			head, _ := fetched(t, client, "HEAD", path)
			if head.StatusCode != 405 || head.Header.Get("Allow") != "POST" {
				t.Errorf("HEAD %s is %d, and allows %q", path, head.StatusCode, head.Header.Get("Allow"))
			}
		}
	})
}

func fetched(t *testing.T, client *http.Client, method, path string) (*http.Response, int) {
	t.Helper()
	res, err := client.Do(request{method: method, path: path}.make(t.Context(), "http://x"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, len(body)
}

// HEAD of the events of a turn that says nothing is over soon, and leaves no reader.
func TestHeadOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		o := w.options()
		o.MaxReaders = 1
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), o)
		client := served(t, h)
		turn := make(chan int)
		go func() {
			turn <- with("turn", func(q *request) { q.body = `{"message":"slow one"}` }).to(t.Context(), h).Code
		}()
		time.Sleep(time.Second)
		began := time.Now()
		for _, path := range []string{"/sessions/s/events", "/sessions/s/events?after=3"} { // after 3 nothing comes yet
			head, _ := fetched(t, client, "HEAD", path)
			if took := time.Since(began); head.StatusCode != 200 || took > time.Second {
				t.Errorf("HEAD %s is %d after %v", path, head.StatusCode, took)
			}
		}
		close(w.hold)
		if code := <-turn; code != 200 {
			t.Errorf("the turn is %d", code)
		}
		if get, _ := fetched(t, client, "GET", "/sessions/s/events"); get.StatusCode != 200 {
			t.Errorf("the reader after them is %d", get.StatusCode)
		}
	})
}
