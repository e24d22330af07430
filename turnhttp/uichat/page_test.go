package uichat_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/browser"
	"github.com/holdfast-go/holdfast/internal/test/npm"
)

// page holds the program and the page of docs/http.md.
const page = "testdata/page"

// The document has the files of the page word for word.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "index.html", "page.jsx"} {
		file, err := os.ReadFile(filepath.Join(page, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(doc), "\n"+string(file)+"```\n") {
			t.Errorf("docs/http.md has not the %s of %s", name, page)
		}
	}
}

// A program is the one of the document, in two processes on one database.
type program struct {
	t         *testing.T
	dir, path string
	cmds      []*exec.Cmd
	addrs     []string
	at        atomic.Int32 // the process that the page talks with
}

// build builds the program, and bundles the page.
func build(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, dir: t.TempDir()}
	p.path = filepath.Join(p.dir, "chat")
	index, err := os.ReadFile(filepath.Join(page, "index.html"))
	if err == nil {
		err = os.Mkdir(filepath.Join(p.dir, "public"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, "public", "index.html"), index, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	bundle := npm.Node(t, "testdata/bundle.mjs", page+"/page.jsx", filepath.Join(p.dir, "public", "page.js"))
	for _, cmd := range []*exec.Cmd{bundle, exec.CommandContext(t.Context(), "go", "build", "-o", p.path, "./"+page)} {
		if out, err := cmd.Output(); err != nil {
			t.Fatalf("%s: %v: %s", cmd.Path, err, out)
		}
	}
	return p
}

// start starts a process of the program, and waits until it is ready.
func (p *program) start() {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(p.t.Context(), p.path, addr)
	cmd.Dir, cmd.Stderr = p.dir, os.Stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Wait() })
	p.cmds, p.addrs = append(p.cmds, cmd), append(p.addrs, addr)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
	}
	p.t.Fatal("the program is not ready")
}

// ServeHTTP passes a request on, as a proxy does that speaks HTTP/1.0 to the program: an answer whose process dies ends
// like any other.
func (p *program) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", p.addrs[p.at.Load()], ""
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	for buf := make([]byte, 4096); ; {
		n, err := res.Body.Read(buf)
		if _, bad := w.Write(buf[:n]); err != nil || bad != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// The page of the document, in Chromium: it talks, approves, edits, stops, and goes on after a reload and after the
// server was killed, also behind a proxy that hides it.
func TestPage(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_CLIENTS") == "" {
		t.Skip("HOLDFAST_TEST_CLIENTS is not set: make clients sets it")
	}
	p := build(t)
	p.start()
	p.start()
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	tab := browser.Start(t).Open(t, front.URL+"/#s")
	const slowly = "I can refund A1042, if you agree. I say it slowly, so that you can stop me, edit what you said, " +
		"load the page again, or kill the server and start it again."
	say := func(text string) {
		t.Helper()
		tab.Click("input")
		tab.Type(text)
		tab.Click("#send")
	}
	// shows waits until the page shows the texts of its messages, and has nothing to do.
	shows := func(what string, texts ...string) {
		t.Helper()
		tab.WaitWithin(time.Minute, what, fmt.Sprintf(`document.querySelector("#status")?.textContent === "ready" &&
			[...document.querySelectorAll("p.user, p.assistant")]
				.map((m) => [...m.querySelectorAll(".text")].map((p) => p.textContent).join("")).join("|") === %q`,
			strings.Join(texts, "|")))
	}
	speaks := func(times int) {
		t.Helper()
		tab.WaitFor("it speaks", fmt.Sprintf(`[...document.querySelectorAll(".assistant")].length === %d &&
			[...document.querySelectorAll(".assistant")].at(-1).textContent.includes("I say it")`, times))
	}

	say("refund A1042")
	tab.Click(".yes")
	shows("an approval", "refund A1042", "It is refunded.")
	tab.Reload()
	shows("a reload", "refund A1042", "It is refunded.")

	say("hello")
	speaks(2)
	tab.Reload()
	shows("a reload in the middle", "refund A1042", "It is refunded.", "hello", slowly)

	if problems := tab.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	tab.Eval(`window.prompt = () => "hallo", 0`, new(int))
	tab.Click("p.user:nth-of-type(3) .edit")
	speaks(2)
	if err := p.cmds[0].Process.Kill(); err != nil { // kill -9
		t.Fatal(err)
	}
	p.at.Store(1)
	shows("a kill in the middle of an edit", "refund A1042", "It is refunded.", "hallo", slowly)
	tab.Forget()

	tab.Click("p.assistant:nth-of-type(4) .again")
	speaks(2)
	tab.Click("#stop")
	tab.WaitFor("a stop", `document.querySelector("#status").textContent === "ready" &&
		!document.body.textContent.includes("start it again")`)
	if problems := tab.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	res, err := http.Get(front.URL + "/api/chat/s/messages")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if doc, err := io.ReadAll(res.Body); err != nil || strings.Count(string(doc), `"text":"hallo"`) != 1 ||
		strings.Contains(string(doc), `"text":"hello"`) {
		t.Errorf("%v: %s", err, doc)
	}
}
