package browser_test

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/browser"
)

const document = `<!doctype html><html lang="en"><title>A page</title><main><h1>A page</h1>
<label for="name">Name</label> <input id="name"> <button id="greet">Greet</button>
<button id="later" disabled>Later</button> <button id="shy">Shy</button> <p id="said"></p></main>
<script>
	const said = document.getElementById("said"), name = document.getElementById("name");
	document.getElementById("greet").onclick = () => { said.textContent = "Hello " + name.value };
	name.onkeydown = ev => { if (ev.key === "Enter") said.textContent = "Entered " + name.value };
	const later = document.getElementById("later");
	later.onclick = () => { said.textContent = "Later" };
	const shy = document.getElementById("shy");
	shy.onmousemove = () => { shy.style.marginLeft = "300px"; shy.onmousemove = null };
	shy.onclick = () => { said.textContent += " once" };
	setTimeout(() => { later.disabled = false }, 50);
</script>`

func serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, document) })
	mux.HandleFunc("GET /favicon.ico", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestBrowser(t *testing.T) {
	began := time.Now()
	b := browser.Start(t)
	t.Logf("started in %v", time.Since(began))
	url := serve(t)
	t.Run("mouse and keyboard", func(t *testing.T) {
		tab := b.Open(t, url)
		tab.Click("#name")
		tab.Type("Ann")
		tab.Click("#greet")
		if got := tab.Text("#said"); got != "Hello Ann" {
			t.Errorf("it says %q", got)
		}
		tab.Click("#later") // which cannot be clicked at first
		tab.WaitFor("the later button", `said.textContent === "Later"`)
		tab.Click("#name")
		tab.Key("Enter")
		tab.WaitFor("Enter", `said.textContent === "Entered Ann"`)
		tab.TabTo("#greet")
		tab.Key("Shift+Tab")
		tab.TabTo("#greet")
		tab.Key("Space")
		tab.WaitFor("Space", `said.textContent === "Hello Ann"`)
		tab.Click("#shy") // which moves away once
		if got := tab.Text("#said"); got != "Hello Ann once" {
			t.Errorf("it says %q", got)
		}
		if got := tab.Problems(); len(got) > 0 {
			t.Errorf("problems %q", got)
		}
	})
	t.Run("tabs", func(t *testing.T) {
		one := b.Open(t, url)
		beside, other := one.Beside(url), b.Open(t, url)
		one.Eval(`localStorage.setItem("key", "value")`, nil)
		for tab, want := range map[*browser.Tab]string{beside: `"value"`, other: `null`} {
			tab.WaitFor("what is stored", fmt.Sprintf(`localStorage.getItem("key") === %s`, want))
		}
		beside.Close()
	})
	t.Run("problems", func(t *testing.T) {
		tab := b.Open(t, url)
		tab.Eval(`console.error("said by the page"); setTimeout(() => { throw new Error("thrown") })`, nil)
		tab.Eval(`fetch("/missing").then(() => 1)`, nil)
		tab.Eval(`fetch("http://127.0.0.1:1/").catch(() => 1)`, nil)
		tab.WaitFor("the exception", "true")
		for _, want := range []string{
			"said by the page", "thrown", "GET " + url + "/missing: status 404", "127.0.0.1:1",
		} {
			if !slices.ContainsFunc(tab.Problems(), func(s string) bool { return strings.Contains(s, want) }) {
				t.Errorf("no problem has %q: %q", want, tab.Problems())
			}
		}
		if !slices.Contains(tab.Requested(), "GET "+url+"/missing") {
			t.Errorf("requested %q", tab.Requested())
		}
	})
	t.Run("appearance", func(t *testing.T) { testAppearance(t, b, url) })
	t.Run("axe", func(t *testing.T) {
		tab := b.Open(t, url)
		if got := tab.Axe(); len(got) > 0 {
			t.Errorf("findings %v", got)
		}
		tab.Eval(`document.querySelector("label").remove()`, nil)
		if got := fmt.Sprint(tab.Axe()); !strings.Contains(got, "label (critical)") || !strings.Contains(got, "#name") {
			t.Errorf("an input without a label: %s", got)
		}
	})
}

func testAppearance(t *testing.T, b *browser.Browser, url string) {
	tab := b.Open(t, url)
	for _, size := range []browser.Size{browser.Wide, browser.Narrow} {
		tab.Viewport(size)
		img, err := png.Decode(bytes.NewReader(tab.Screenshot()))
		if err != nil {
			t.Fatal(err)
		}
		if got := img.Bounds().Size(); got.X != size.Width || got.Y != size.Height {
			t.Errorf("the picture is %v, want %v", got, size)
		}
	}
	tab.Emulate(browser.Taste{Dark: true, ReducedMotion: true})
	tab.WaitFor("reduced motion", `matchMedia("(prefers-reduced-motion: reduce)").matches`)
	tab.Emulate(browser.Taste{})
	tab.Eval("window.mark = 1", nil)
	tab.Reload()
	tab.WaitFor("a page without the mark", "!window.mark")
}
