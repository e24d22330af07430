package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/browser"
	"github.com/holdfast-go/holdfast/sqlite"
)

// asProgram makes the test binary be the program.
const asProgram = "AGENT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A program is the example in a folder of its own. It may be killed and started again.
type program struct {
	t         *testing.T
	dir, addr string
	cmd       *exec.Cmd

	mu   sync.Mutex // protects following fields
	said bytes.Buffer
	more chan struct{} // closed when it says more
}

func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, dir: t.TempDir(), addr: freeAddr(t), more: make(chan struct{})}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the program says\n%s", &p.said)
		}
	})
	p.start()
	return p
}

// freeAddr returns an address that nothing listens on. Its port is below those that clients get: none takes it while
// the program is down.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 30000+rand.IntN(2000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// Write keeps what the program says.
func (p *program) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return p.said.Write(line)
}

// heard waits until the program has said something so many times, in all of its lives.
func (p *program) heard(what string, times int) {
	p.t.Helper()
	late := time.After(time.Minute)
	for {
		p.mu.Lock()
		n, more := strings.Count(p.said.String(), what), p.more
		p.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-more:
		case <-late:
			p.t.Fatalf("it has said %q %d times, want %d", what, n, times)
		}
	}
}

func (p *program) start() {
	p.t.Helper()
	p.cmd = exec.Command(os.Args[0], p.addr)
	p.cmd.Dir, p.cmd.Stderr = p.dir, p
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.until("/readyz", `ok`)
}

// until waits until a path has a text that a pattern matches.
func (p *program) until(path, pattern string) {
	p.t.Helper()
	var last string
	want := regexp.MustCompile(pattern)
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + p.addr + path)
		if err != nil {
			continue // it does not listen yet
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if last = string(body); err == nil && res.StatusCode == http.StatusOK && want.MatchString(last) {
			return
		}
	}
	p.t.Fatalf("%s has no %s: %s", path, pattern, last)
}

// pays waits until the program is in the middle of a payment, and has told that it is alive: another process misses it
// sooner then.
func (p *program) pays() {
	p.t.Helper()
	p.heard(paid, 1)
	p.until("/desk/sessions/1", `"beats":[1-9]`)
}

// kill ends the program as kill -9 does.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// payments returns how often the bank has paid.
func (p *program) payments() (n int) {
	p.t.Helper()
	db, err := sqlite.Open(filepath.Join(p.dir, "agent.db"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM payments").Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// paid is what the program says when the bank has paid, and before it says so.
const paid = "the bank has paid"

// Killed in the middle of a payment and started again, the program goes on by itself, and has paid once. The client
// that repeats its request gets the reply.
func TestKill(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	say := func() (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+p.addr+"/sessions/1/turns",
			strings.NewReader(`{"message":"Please refund A1042."}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k1")
		return http.DefaultClient.Do(r)
	}
	cut := make(chan error, 1)
	go func() {
		res, err := say()
		if err == nil {
			_ = res.Body.Close()
			err = fmt.Errorf("the client is told %d", res.StatusCode)
		}
		cut <- err
	}()
	p.pays()
	p.kill()
	t.Log("the client of the killed program:", <-cut)
	p.start()
	p.heard(paid, 2)
	res, err := say()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var turn struct{ Reply struct{ Text string } }
	err = json.NewDecoder(res.Body).Decode(&turn)
	if err != nil || turn.Reply.Text != "The bank says: refunded A1042." {
		t.Errorf("%d %+v: %v", res.StatusCode, turn, err)
	}
	if n := p.payments(); n != 1 {
		t.Errorf("the bank has paid %d times", n)
	}
}

// The page goes on by itself when its server is killed and started again. The desk agrees on its own page.
func TestPage(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	p := newProgram(t)
	p.heard("answers", 1)
	customer := b.Open(t, "http://"+p.addr+"/#1")
	shows := func(tab *browser.Tab, text string) {
		t.Helper()
		tab.WaitWithin(time.Minute, text, fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
	}
	say := func(words string) {
		t.Helper()
		customer.Click("#input")
		customer.Type(words)
		customer.Key("Enter")
	}
	say("Please refund A1042.")
	shows(customer, "→ paid, and lost")
	shows(customer, "refund runs")
	p.pays()
	p.kill()
	shows(customer, "The server does not answer.")
	p.start()
	shows(customer, "The bank says: refunded A1042.")
	shows(customer, "→ refunded A1042")
	p.heard(paid, 2)

	say("Then cancel B7.")
	shows(customer, "A call waits: somebody else has to answer.")
	desk := b.Open(t, "http://"+p.addr+"/desk/#1")
	desk.Click(`[data-testid="approve"]`)
	for _, tab := range []*browser.Tab{customer, desk} {
		shows(tab, "It is cancelled.")
		for _, dark := range []bool{false, true} {
			tab.Emulate(browser.Taste{Dark: dark})
			for _, found := range tab.Axe() {
				t.Error(found)
			}
		}
	}
	customer.WaitFor("each message once", `document.querySelectorAll("#log > .user").length === 2`)
	if n := p.payments(); n != 1 {
		t.Errorf("the bank has paid %d times", n)
	}
}

// The browser answers a client tool. Of two tabs of the desk one answers, and the other says so. A turn is stopped. A
// branch has what was said before, and not what waits.
func TestTogether(t *testing.T) {
	t.Parallel()
	b := browser.Start(t)
	p := newProgram(t)
	p.heard("answers", 1)
	customer, desk := b.Open(t, "http://"+p.addr+"/#1"), b.Open(t, "http://"+p.addr+"/desk/#1")
	tabs := []*browser.Tab{customer, desk, desk.Beside("http://" + p.addr + "/desk/#1")}
	shows := func(text string, tabs ...*browser.Tab) {
		t.Helper()
		for _, tab := range tabs {
			tab.WaitWithin(time.Minute, text, fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
		}
	}
	say := func(words string) {
		t.Helper()
		customer.Click("#input")
		customer.Type(words)
		customer.Key("Enter")
	}
	var zone string
	customer.Eval("Intl.DateTimeFormat().resolvedOptions().timeZone", &zone)
	say("When does A1042 come?")
	shows("At 9 in the morning in "+zone+".", tabs...)

	say("Then cancel it.")
	shows("May shop do this: cancel?", tabs[1:]...)
	desk.Click(`[data-testid="approve"]`)
	shows("It is cancelled.", tabs...)
	shows("desk has answered: cancel.", tabs[2])

	say("Please refund B7.")
	p.heard(paid, 1)
	customer.Click("#stop")
	shows("→ refunded B7", tabs...)
	shows("Stopped.", tabs...)
	customer.Reload()
	shows("Stopped.", customer)

	say("And cancel C9.")
	shows("May shop do this: cancel?", tabs[1:]...)
	customer.Click(".call.open > .again")
	customer.WaitFor("a branch", `document.querySelector("#session").innerText.length > 10`)
	shows("→ not executed", customer)
	branch := b.Open(t, "http://"+p.addr+"/desk/")
	var name string
	customer.Eval("location.hash", &name)
	branch.Navigate("http://" + p.addr + "/desk/" + name)
	shows("→ not executed", branch)
	branch.WaitFor("nothing to answer", `!document.querySelector(".ask")`)
	shows("May shop do this: cancel?", tabs[1:]...)
	for _, tab := range append(tabs, branch) {
		for _, dark := range []bool{false, true} {
			tab.Emulate(browser.Taste{Dark: dark})
			for _, found := range tab.Axe() {
				t.Error(found)
			}
		}
	}
}
