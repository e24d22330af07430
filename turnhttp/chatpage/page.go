// Package chatpage is a page for a bot behind package turnhttp that keeps what was said, such as an agent:
//
//	mux.Handle("/", agent.Handler(a, turnhttp.Options[State]{Authorize: authorize}))
//	mux.Handle("GET /{$}", chatpage.Handler(nil))
//
// The page says things, and shows the words of the reply, the calls of tools and their results as they come. It shows
// what was said before. A reload, a connection that breaks and a crash of the server lose nothing: the page goes on
// with the turn that is in flight. It shows the calls that wait for an answer, and answers them. It stops a turn. A
// message may be sent while a turn is in flight: the agent's Steer says what becomes of it. "Try otherwise from here"
// goes to a new session with what was said up to there.
//
// Any number of tabs and people may have one session open. Of two answers the first one counts. The others learn who
// has answered.
//
// # Client tools
//
// A tool of the caller's side may be a function of the page: see Options.ClientTools. The page runs it when it sees the
// call, and sends the result, or what the function throws as a failure. It keeps the result until the server has it. So
// a reload sends the result again, and does not run the function again. For any other client tool the page asks the
// person.
//
// The address of the page names the session behind a #. Without one, the page begins a new session with a random name.
//
// # Who sees what
//
// The page asks for what the server lets its user do, as Options.Authorize of package turnhttp says. A person who
// talks needs ActionTurn and ActionFollow. Whoever has ActionRead sees the questions too, and ActionAnswer answers
// them. ActionClient sees and answers those of client tools only: a customer whose page runs them approves nothing.
// ActionResolve says what became of a call whose outcome was lost, ActionStop stops a turn, and ActionBranch branches.
// The page sends the cookies of its own server, and has no sign-in of its own.
//
// # What it is made of
//
// The page is one file of HTML, CSS and JavaScript as it stands in the repository. Nothing builds it. It loads nothing,
// and calls the routes of package turnhttp on its own server only: the Content-Security-Policy that Handler sets
// forbids everything else.
package chatpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/http"
	"strings"
	"time"
)

//go:embed page.html
var source string

// Options configure the page. The zero value, and nil, mean the defaults.
type Options struct {
	// Title stands above the conversation. "" means "Chat".
	Title string

	// API is the path below which the routes of turnhttp are, such as "/support". "" means the root of the server.
	API string

	// ClientTools is a JavaScript expression: an object with a function for each client tool that the page runs itself,
	// such as
	//
	//	{time_zone: () => Intl.DateTimeFormat().resolvedOptions().timeZone}
	//
	// A function is given the arguments of the call. It returns the result, or a promise of it: a text, or what JSON
	// has a place for. If it throws, the call has failed, and the model sees the message. The function runs under the
	// policy of the page. It runs again if the page is loaded again before the function has returned, and in each tab
	// that shows the session: the first answer counts. A person answers for the tools that are not here.
	ClientTools string
}

// Handler serves the page, at whichever path it is registered. It takes GET and HEAD. It panics if ClientTools holds
// "</script" or "<!--", which would end the script.
func Handler(o *Options) http.Handler {
	if o == nil {
		o = new(Options)
	}
	title := o.Title
	if title == "" {
		title = "Chat"
	}
	tools := o.script()
	page := []byte(strings.NewReplacer(
		"{{title}}", html.EscapeString(title), "{{api}}", html.EscapeString(strings.TrimSuffix(o.API, "/")),
		"{{tools}}", tools,
	).Replace(source))
	sum := sha256.Sum256(page)
	etag, policy := `"`+hex.EncodeToString(sum[:12])+`"`, policy(tools)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		h.Set("ETag", etag)
		http.ServeContent(w, r, "chat.html", time.Time{}, bytes.NewReader(page))
	})
}

// script returns the script that has the client tools of the program.
func (o *Options) script() string {
	lower := strings.ToLower(o.ClientTools)
	switch {
	case o.ClientTools == "":
		return ""
	case strings.Contains(lower, "</script"), strings.Contains(lower, "<!--"):
		panic("chatpage: Options.ClientTools holds </script or <!--")
	}
	return "<script>globalThis.clientTools = (" + o.ClientTools + "\n);</script>"
}

// policy lets the page run its own script and style, and the client tools, and call its own server. It allows no other
// script, no style of an element, and no HTML in strings.
func policy(tools string) string {
	scripts := sumOf(source, "<script type=\"module\">", "</script>")
	if tools != "" {
		scripts += " " + sumOf(tools, "<script>", "</script>")
	}
	return "default-src 'none'; script-src " + scripts + "; style-src " + sumOf(source, "<style>", "</style>") +
		"; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
}

// sumOf returns how a policy names the text between two tags of a page.
func sumOf(page, begin, end string) string {
	_, text, _ := strings.Cut(page, begin)
	text, _, _ = strings.Cut(text, end)
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
