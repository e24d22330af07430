package turnhttp_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/turnhttp"
)

// Fifty clients send one key to two processes: one turn runs, and all get its reply. Half of them watch the events.
func TestKeys(t *testing.T) {
	w := newWorld()
	handlers := []http.Handler{
		turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()),
		turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()),
	}
	rounds := 3
	if soak() {
		rounds = 30
	}
	for round := range rounds {
		q := says(fmt.Sprintf("say round %d", round))
		q.key = fmt.Sprintf("k%d", round)
		var mu sync.Mutex
		replies := make(map[string]int)
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				q := q
				if i%4 < 2 {
					q.header = map[string]string{"Accept": "text/event-stream"}
				}
				res := q.to(t.Context(), handlers[i%2])
				doc := res.Body.Bytes()
				if i%4 < 2 {
					doc = nil
					if s := read(t, res.Body, func(ev event) { doc = []byte(ev.data) }); s.reply == nil {
						t.Errorf("a client saw %q", s.kinds)
						return
					}
				}
				turn := decode[turnOf](t, doc)
				mu.Lock()
				defer mu.Unlock()
				replies[fmt.Sprint(res.Code, turn.Turn, turn.Run, turn.Request, turn.Reply)]++
			})
		}
		group.Wait()
		if len(replies) != 1 || int(w.ran.Load()) != round+1 {
			t.Fatalf("the bot ran %d times, and the clients are told %v", w.ran.Load(), replies)
		}
		for reply := range replies {
			if want := fmt.Sprintf("round %d", round); reply[len(reply)-len(want):] != want {
				t.Errorf("the reply is %s", reply)
			}
		}
	}
	q := says("say something else")
	q.key = "k1"
	for _, h := range handlers {
		if res := q.to(t.Context(), h); res.Code != 422 || typeOf(res.Body.Bytes()) != "request-reused" {
			t.Errorf("another body is %d %s", res.Code, res.Body)
		}
	}
}

// A key may stand in quotes, as the IETF draft has it. It is the key without them.
func TestQuotedKeys(t *testing.T) {
	for header, key := range map[string]string{
		`abc`: "abc", `"abc"`: "abc", `"a\"b\\c"`: `a"b\c`, `"a b"`: "a b", `ab"c`: `ab"c`, `ü`: "ü", `'abc'`: `'abc'`,
		`a,b`: "a,b", `"a,b"`: "a,b",
		`"`: "", `""`: "", `"abc`: "", `"a"b"`: "", `"abc";a=1`: "", `"a","b"`: "", `"a\b"`: "", `"a\`: "", `"a\"`: "",
		`"ü"`: "", "\"a\tb\"": "", `"turnhttp/answer/0123"`: "",
	} {
		w := newWorld()
		h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
		q := says("say hi")
		q.key = header
		res := q.to(t.Context(), h)
		if key == "" {
			if res.Code != 400 || typeOf(res.Body.Bytes()) != "bad-request" {
				t.Errorf("%s: %d %s", header, res.Code, res.Body)
			}
			w.wantNothing(t)
			continue
		}
		if got := decode[turnOf](t, res.Body.Bytes()); res.Code != 200 || got.Request != key {
			t.Errorf("%s: %d, request %s, want %s", header, res.Code, got.Request, key)
		}
	}
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	for i, header := range []string{`k`, `"k"`} {
		q := says("say hi")
		q.key = header
		if got := decode[turnOf](t, q.to(t.Context(), h).Body.Bytes()); got.Replayed != (i == 1) {
			t.Errorf("%s: replayed %t", header, got.Replayed)
		}
	}
}
