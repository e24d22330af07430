package page

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The page has at most 100 KiB. It holds no script, style or handler that the policy would forbid, and nothing of
// another server.
func TestPage(t *testing.T) {
	files, err := load()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	foreign := regexp.MustCompile(`https?://[^\s"')]+`)
	for path, f := range files {
		size += len(f.content)
		for _, url := range foreign.FindAllString(string(f.content), -1) {
			if url != "http://www.w3.org/2000/svg" { // the name of the format
				t.Errorf("%s names %s", path, url)
			}
		}
	}
	t.Logf("the page has %d bytes in %d files", size, len(files))
	if most := 100 << 10; size > most {
		t.Errorf("the page has %d bytes, want at most %d", size, most)
	}
	html := string(files["/"].content)
	for what, pattern := range map[string]string{
		"a script": `<script[^>]*>[^<]`, "a style": `<style|\sstyle=`, "a handler": `\son[a-z]+=`,
	} {
		if found := regexp.MustCompile(pattern).FindString(html); found != "" {
			t.Errorf("the HTML holds %s: %s", what, found)
		}
	}
	for _, found := range regexp.MustCompile(`(?:href|src)="(/[^"]*)"`).FindAllStringSubmatch(html, -1) {
		if _, ok := files[found[1]]; !ok {
			t.Errorf("there is no %s", found[1])
		}
	}
}

func TestHandler(t *testing.T) {
	h := Handler()
	ask := func(method, path, etag string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	first := ask(http.MethodGet, "/", "")
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-cache",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	script := ask(http.MethodGet, "/page/main.js", "")
	if got := script.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/javascript") {
		t.Errorf("a script is %q", got)
	}
	for _, tt := range []struct {
		method, path, etag string
		status             int
	}{
		{http.MethodGet, "/", "", http.StatusOK},
		{http.MethodHead, "/page/page.css", "", http.StatusOK},
		{http.MethodGet, "/", first.Header.Get("ETag"), http.StatusNotModified},
		{http.MethodPost, "/", "", http.StatusMethodNotAllowed},
		{http.MethodGet, "/page/", "", http.StatusNotFound},
		{http.MethodGet, "/page/../page.go", "", http.StatusNotFound},
		{http.MethodGet, "/favicon.ico", "", http.StatusNotFound},
	} {
		if got := ask(tt.method, tt.path, tt.etag); got.StatusCode != tt.status {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, got.StatusCode, tt.status)
		}
	}
}
