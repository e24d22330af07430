package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// The desk's page has at most 20 KiB. It holds no script, style or handler that the policy would forbid, and nothing of
// another server.
func TestPage(t *testing.T) {
	size := 0
	err := fs.WalkDir(web, "web", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := web.ReadFile(path)
		size += len(content)
		if found := regexp.MustCompile(`https?://[^\s"')]+`).Find(content); found != nil {
			t.Errorf("%s names %s", path, found)
		}
		for what, pattern := range map[string]string{
			"a script": `<script[^>]*>[^<]`, "a style": `<style|\sstyle=`, "a handler": `\son[a-z]+=`,
		} {
			found := regexp.MustCompile(pattern).Find(content)
			if strings.HasSuffix(path, ".html") && found != nil {
				t.Errorf("the HTML holds %s: %s", what, found)
			}
		}
		return err
	})
	if err != nil || size > 20<<10 {
		t.Errorf("the page has %d bytes, %v", size, err)
	}
}

func TestHandler(t *testing.T) {
	h := Handler()
	ask := func(method, path string) *http.Response {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Result()
	}
	first := ask(http.MethodGet, "/desk/")
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-cache",
	} {
		if got := first.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	script := ask(http.MethodGet, "/page/office.js")
	if got := script.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/javascript") {
		t.Errorf("a script is %q", got)
	}
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{http.MethodGet, "/", http.StatusOK},
		{http.MethodGet, "/concierge/", http.StatusOK},
		{http.MethodGet, "/desk/case/", http.StatusOK},
		{http.MethodGet, "/desk/session/", http.StatusOK},
		{http.MethodHead, "/page/office.css", http.StatusOK},
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
		{http.MethodPost, "/desk/", http.StatusMethodNotAllowed},
		{http.MethodGet, "/page/", http.StatusNotFound},
		{http.MethodGet, "/page/page.go", http.StatusNotFound},
		{http.MethodGet, "/favicon.ico", http.StatusNotFound},
	} {
		if got := ask(tt.method, tt.path); got.StatusCode != tt.status {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, got.StatusCode, tt.status)
		}
	}
}
