package chatpage

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The page names no other server, and holds nothing that its policy forbids.
func TestSource(t *testing.T) {
	t.Logf("the page has %d bytes", len(source))
	if most := 40 << 10; len(source) > most {
		t.Errorf("the page has %d bytes, want at most %d", len(source), most)
	}
	for what, pattern := range map[string]string{
		"another server": `https?://`, "a style of an element": `\sstyle=`, "a handler in HTML": `<[^>]*\son[a-z]+=`,
		"HTML in a string": `innerHTML|outerHTML|insertAdjacent|document\.write`,
		"a second script":  `(?s)<script.*<script`, "a mark in the script": `(?s)<script.*\{\{`,
	} {
		if found := regexp.MustCompile(pattern).FindString(source); found != "" {
			t.Errorf("the page has %s: %.80s", what, found)
		}
	}
}

func TestHandler(t *testing.T) {
	h := Handler(&Options{Title: `Ann's <desk>`, API: `/"desk"/`})
	ask := func(method, etag string) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), method, "/any/path", nil)
		r.Header.Set("If-None-Match", etag)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if body := w.Body.String(); method == http.MethodGet && etag == "" && (strings.Contains(body, "{{") ||
			!strings.Contains(body, "<title>Ann&#39;s &lt;desk&gt;</title>") ||
			!strings.Contains(body, `data-api="/&#34;desk&#34;"`)) {
			t.Errorf("the page begins with %.400s", body)
		}
		return w.Result()
	}
	first := ask(http.MethodGet, "")
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy(""), "Cache-Control": "no-cache",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		method, etag string
		status       int
	}{
		{http.MethodGet, "", 200},
		{http.MethodHead, "", 200},
		{http.MethodGet, first.Header.Get("ETag"), 304},
		{http.MethodPost, "", 405},
	} {
		if got := ask(c.method, c.etag); got.StatusCode != c.status {
			t.Errorf("%s with %q: status %d, want %d", c.method, c.etag, got.StatusCode, c.status)
		}
	}
}

// The client tools of a program are a script that the policy names. What would end the script is refused.
func TestClientTools(t *testing.T) {
	tools := "{zone: () => 1 } // the last"
	w := httptest.NewRecorder()
	Handler(&Options{ClientTools: tools}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	script := (&Options{ClientTools: tools}).script()
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(w.Body.String(), script) ||
		!strings.Contains(policy, sumOf(script, "<script>", "</script>")) || strings.Count(policy, "'sha256-") != 3 {
		t.Errorf("the policy is %s", policy)
	}
	for _, bad := range []string{"{a: () => '</SCRIPT>'}", "{a: () => '<!--'}"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken", bad)
				}
			}()
			Handler(&Options{ClientTools: bad})
		}()
	}
}
