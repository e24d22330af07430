package browser

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Tab is a page in a browser. Its methods end the test if they fail. They are for the goroutine of the test.
type Tab struct {
	tb      testing.TB
	browser *Browser
	context string // storage and cookies
	target  string
	session string

	mu       sync.Mutex // protects following fields
	problems []string
	requests map[string]string // URLs under way, by id
}

// Open opens url in a tab, with storage and cookies of its own. The tab is closed when the test tb has ended.
func (b *Browser) Open(tb testing.TB, url string) *Tab {
	tb.Helper()
	var made struct {
		Context string `json:"browserContextId"`
	}
	if err := b.conn.call("", "Target.createBrowserContext", nil, &made); err != nil {
		tb.Fatal("browser:", err)
	}
	tb.Cleanup(func() {
		err := b.conn.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": made.Context}, nil)
		if err != nil {
			tb.Error("browser:", err)
		}
	})
	return b.open(tb, made.Context, url)
}

// Beside opens url in another tab, which shares storage and cookies with t.
func (t *Tab) Beside(url string) *Tab {
	t.tb.Helper()
	return t.browser.open(t.tb, t.context, url)
}

func (b *Browser) open(tb testing.TB, context, url string) *Tab {
	tb.Helper()
	t := &Tab{tb: tb, browser: b, context: context, requests: make(map[string]string)}
	var target struct {
		ID string `json:"targetId"`
	}
	var attached struct {
		Session string `json:"sessionId"`
	}
	blank := map[string]any{"url": "about:blank", "browserContextId": context}
	err := b.conn.call("", "Target.createTarget", blank, &target)
	if err == nil {
		t.target = target.ID
		flat := map[string]any{"targetId": target.ID, "flatten": true}
		err = b.conn.call("", "Target.attachToTarget", flat, &attached)
	}
	if err != nil {
		tb.Fatal("browser:", err)
	}
	t.session = attached.Session
	b.mu.Lock()
	b.tabs[t.session] = t
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		t.call(domain+".enable", nil, nil)
	}
	// Only one tab is in front. The others shall behave as if they were, too.
	t.call("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true}, nil)
	t.Viewport(Wide)
	t.Navigate(url)
	return t
}

func (t *Tab) call(method string, params, result any) {
	t.tb.Helper()
	if err := t.browser.conn.call(t.session, method, params, result); err != nil {
		t.tb.Fatal("browser:", err)
	}
}

// Navigate loads url and waits until the page is loaded.
func (t *Tab) Navigate(url string) {
	t.tb.Helper()
	var loaded struct {
		Loader string `json:"loaderId"`
		Error  string `json:"errorText"`
	}
	t.call("Page.navigate", map[string]any{"url": url}, &loaded)
	if loaded.Error != "" {
		t.tb.Fatalf("browser: %s: %s", url, loaded.Error)
	}
	t.WaitFor("the page to load", `document.readyState === "complete" && location.href !== "about:blank"`)
}

// Reload loads the page again, as its user does.
func (t *Tab) Reload() {
	t.tb.Helper()
	t.Eval("window.beforeReload = true", nil)
	t.call("Page.reload", nil, nil)
	t.WaitFor("the page to load again", `!window.beforeReload && document.readyState === "complete"`)
}

// Close closes the tab.
func (t *Tab) Close() {
	t.tb.Helper()
	if err := t.browser.conn.call("", "Target.closeTarget", map[string]any{"targetId": t.target}, nil); err != nil {
		t.tb.Fatal("browser:", err)
	}
}

// Eval evaluates JavaScript, waits for the promise that it returns, and decodes the value into result unless that is
// nil.
func (t *Tab) Eval(expression string, result any) {
	t.tb.Helper()
	if err := t.eval(expression, result); err != nil {
		t.tb.Fatalf("browser: %s: %v", expression, err)
	}
}

// Text returns the text that the first element of a selector shows.
func (t *Tab) Text(selector string) (text string) {
	t.tb.Helper()
	t.WaitFor(selector, query(selector))
	t.Eval(query(selector)+".innerText", &text)
	return text
}

func (t *Tab) eval(expression string, result any) error {
	var reply struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Thrown *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	params := map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}
	if err := t.browser.conn.call(t.session, "Runtime.evaluate", params, &reply); err != nil {
		return err
	}
	if reply.Thrown != nil {
		return fmt.Errorf("%s %s", reply.Thrown.Text, reply.Thrown.Exception.Description)
	}
	if result == nil {
		return nil
	}
	if reply.Result.Value == nil {
		return fmt.Errorf("no value")
	}
	return json.Unmarshal(reply.Result.Value, result)
}

// WaitFor waits until a JavaScript expression is true. It goes on through a reload. what says what is awaited.
func (t *Tab) WaitFor(what, expression string) {
	t.tb.Helper()
	t.WaitWithin(patience, what, expression)
}

// WaitWithin is WaitFor with a deadline. It returns how long it waited.
func (t *Tab) WaitWithin(limit time.Duration, what, expression string) time.Duration {
	t.tb.Helper()
	began := time.Now()
	for {
		left := limit - time.Since(began)
		met := false
		// The page asks itself, so that what is true for a moment only is seen as well.
		err := t.eval(fmt.Sprintf(`new Promise(tell => {
			const end = performance.now() + %d;
			const ask = () => {
				let met = false;
				try { met = !!(%s) } catch {}
				if (met || performance.now() > end) tell(met); else setTimeout(ask, 10);
			};
			ask();
		})`, min(max(left, 0), patience/2).Milliseconds(), expression), &met)
		if met {
			return time.Since(began)
		}
		if time.Since(began) >= limit {
			t.tb.Fatalf("browser: waited %v for %s in vain: %s (%v)\n%s", limit, what, expression, err, t.page())
		}
	}
}

// page returns what the page shows and its problems, for the message of a test that fails.
func (t *Tab) page() string {
	var text string
	if err := t.eval("document.body.innerText", &text); err != nil {
		text = err.Error()
	}
	return fmt.Sprintf("The page shows:\n%s\nProblems: %q", text, t.Problems())
}

// Problems returns the errors of the console, the exceptions, and the requests that failed or were answered by 400 or
// more, since the tab was opened or Forget was called.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.problems)
}

// Forget forgets the problems so far.
func (t *Tab) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.problems = nil
}

// Screenshot returns the visible part of the page as PNG.
func (t *Tab) Screenshot() []byte {
	t.tb.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	t.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		t.tb.Fatal("browser:", err)
	}
	return png
}
