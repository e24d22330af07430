// Package page serves the pages of refundbot: those to talk by package chatpage, and the desk's.
package page

import (
	"embed"
	"io/fs"
	"net/http"

	"github.com/holdfast-go/holdfast/turnhttp/chatpage"
)

//go:embed web
var web embed.FS

// policy lets the desk's page load and call its own server only. It allows no script and no style in the HTML, and no
// HTML in strings.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Handler serves the pages. Customers talk at / and at /concierge/. The desk is at /desk/, and shows what waits for it
// at /desk/case/, and any session at /desk/session/. The parts of its page are below /page/.
func Handler() http.Handler {
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // the folder is embedded
	}
	parts := private(http.StripPrefix("/page/", http.FileServerFS(files)))
	mux := http.NewServeMux()
	mux.Handle("/{$}", chatpage.Handler(&chatpage.Options{Title: "Refunds", API: "/mine"}))
	mux.Handle("/concierge/{$}", chatpage.Handler(&chatpage.Options{Title: "Concierge", API: "/mine/concierge"}))
	mux.Handle("/desk/case/{$}", chatpage.Handler(&chatpage.Options{Title: "A refund", API: "/desk"}))
	mux.Handle("/desk/session/{$}", chatpage.Handler(&chatpage.Options{Title: "A session"}))
	mux.Handle("GET /desk/{$}", private(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "office.html")
	})))
	mux.Handle("GET /page/{name}", parts)
	return mux
}

// private sets the headers of the desk's page.
func private(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-cache",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}
