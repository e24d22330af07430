// Package page serves the page of refundbot: a chat, and beside it the session as it is stored.
//
// The page is HTML, CSS and JavaScript as they stand in the directory web. Nothing builds them, and the page loads
// nothing from elsewhere. It uses the routes of package turnhttp and those of refundbot under /app.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed web
var web embed.FS

// policy lets the page load and call its own server only. It allows no script and no style in the HTML, and no HTML in
// strings.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// A file is a part of the page.
type file struct {
	name, etag string
	content    []byte
}

// Handler serves the page at / and its parts below /page/. Other paths are 404.
func Handler() http.Handler {
	files, err := load()
	if err != nil {
		panic(err) // the program was built without them
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // the ETag tells whether it has changed
		h.Set("ETag", f.etag)
		http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(f.content))
	})
}

// load returns the files by the paths at which they are served.
func load() (map[string]file, error) {
	files := make(map[string]file)
	names, err := fs.Glob(web, "web/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := web.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		f := file{path.Base(name), `"` + hex.EncodeToString(sum[:12]) + `"`, content}
		if f.name == "index.html" {
			files["/"] = f
			continue
		}
		files["/page/"+f.name] = f
	}
	return files, nil
}
