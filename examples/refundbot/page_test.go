package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/setting"
	"github.com/holdfast-go/holdfast/internal/test/browser"
)

// The page, in a browser, with the program as its user starts it.
func TestPage(t *testing.T) {
	b := browser.Start(t)
	t.Run("processes", func(t *testing.T) {
		t.Parallel()
		p := startDemo(t, "-pace", "200ms")
		for _, tt := range []struct {
			name string
			test func(*testing.T, *browser.Browser, *process)
		}{
			{"kill", testKill},
			{"stop and continue", testStop},
			{"drain", testDrain},
			{"deploy", testDeploy},
		} {
			t.Run(tt.name, func(t *testing.T) { tt.test(t, b, p) })
		}
	})
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		testExpired(t, b, startDemo(t, "-pace", "50ms", "-approval", "1s"))
	})
	t.Run("conversations", func(t *testing.T) {
		t.Parallel()
		p := startDemo(t, "-pace", "200ms")
		for _, tt := range []struct {
			name string
			test func(*testing.T, *browser.Browser, *process)
		}{
			{"send", testSend},
			{"reload", testReload},
			{"two tabs", testTwoTabs},
			{"customer", testCustomer},
			{"doubt", testDoubt},
			{"fork", testFork},
			{"keyboard", testKeyboard},
			{"themes", testThemes},
			{"axe", testAxe},
			{"wrong", testWrong},
			{"concierge", testConcierge},
			{"failed attempt", testFailedAttempt},
			{"late read", testLateRead},
			{"late first read", testLateFirstRead},
		} {
			t.Run(tt.name, func(t *testing.T) { tt.test(t, b, p) })
		}
	})
}

// startDemo starts the program as go run does.
func startDemo(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"-addr", "127.0.0.1:0", "-data", t.TempDir()}, args...)
	return start(t, environment(setting.Config{}), args...)
}

// A desk is the page.
type desk struct {
	*browser.Tab
	t   *testing.T
	api client
}

// openDesk opens the page for somebody of the desk.
func openDesk(t *testing.T, b *browser.Browser, p *process) *desk {
	t.Helper()
	d := openAs(t, b, p, "ann", p.url+"/")
	d.WaitFor("the page to be ready", `!document.getElementById("welcome").hidden`)
	return d
}

// openAs opens an address of the page for somebody of the desk by that name.
func openAs(t *testing.T, b *browser.Browser, p *process, name, url string) *desk {
	t.Helper()
	d := &desk{b.Open(t, p.url+"/page/icon.svg"), t, p.client()}
	d.Eval(fmt.Sprintf(`fetch("/app/sign-in", {method: "POST", headers: {"Content-Type": "application/json"},
		body: JSON.stringify({name: %q, role: "desk", word: %q})})`, name, people.word), nil)
	d.Navigate(url)
	return d
}

func id(name string) string { return `[data-testid="` + name + `"]` }

// say sends a message.
func (d *desk) say(message string) {
	d.t.Helper()
	d.Click(id("chat-input"))
	d.Type(message)
	d.Key("Enter")
}

// settled waits until so many turns are shown as stored, and returns the last reply.
func (d *desk) settled(turns int) (reply string) {
	d.t.Helper()
	d.WaitFor(fmt.Sprintf("%d turns", turns), fmt.Sprintf(
		`document.querySelectorAll(".stored").length === %d && !document.querySelector(".live")`, turns))
	d.Eval(`[...document.querySelectorAll(".bot p")].at(-2).innerText`, &reply)
	return reply
}

// session returns the session that the page shows.
func (d *desk) session() (name string) {
	d.t.Helper()
	d.Eval("decodeURIComponent(location.hash.slice(1))", &name)
	return name
}

// stored returns the turns of the session.
func (d *desk) stored() []turn {
	d.t.Helper()
	now, err := d.api.standing(d.t.Context(), d.session())
	if err != nil {
		d.t.Fatal(err)
	}
	return now.Turns
}

// wantPaid checks how often the provider has paid an order, whoever asked.
func (d *desk) wantPaid(order string, times int) {
	d.t.Helper()
	var all struct{ Payments []provider.Payment }
	d.api.must(d.t, http.StatusOK, http.MethodGet, "/app/payments", "", nil, &all)
	paid := 0
	for _, p := range all.Payments {
		if p.Order == order {
			paid++
		}
	}
	if paid != times {
		d.t.Errorf("order %s was paid %d times, want %d", order, paid, times)
	}
}

func (d *desk) provider(mode provider.Mode) {
	d.t.Helper()
	d.api.must(d.t, http.StatusOK, http.MethodPost, "/app/provider", "", map[string]provider.Mode{"mode": mode}, nil)
}

// working is JavaScript for the name of the worker that is at work on the session.
const working = `[...document.querySelectorAll(".worker")].find(w => w.querySelector(".owns"))?.dataset.key`

// both waits until both workers serve.
func (d *desk) both() {
	d.t.Helper()
	d.WaitFor("both workers", `document.querySelectorAll(".worker.running").length === 2`)
}

// refunding waits until the refund is under way, and returns the name of the worker. The worker has beaten by then: one
// that dies before its first beat is not missed until its lease has expired.
func (d *desk) refunding() (worker string) {
	d.t.Helper()
	d.WaitFor("the refund to be under way",
		`[...document.querySelectorAll(".steps .running")].some(s => s.innerText.startsWith("refund")) &&
		document.querySelector('[data-testid="owner"]').innerText.includes("· beating") && `+working)
	d.Eval(working, &worker)
	return worker
}

// press presses a button of a worker in the middle of a refund, and returns how long it takes until the page shows that
// the other goes on.
func (d *desk) press(button, order string) (worker string, took time.Duration) {
	d.t.Helper()
	d.both()
	d.provider(provider.Slow)
	d.say("Refund order " + order + ", please.")
	worker = d.refunding()
	d.Click(id("worker-"+button) + `[data-worker="` + worker + `"]`)
	d.provider(provider.OK)
	took = d.WaitWithin(30*time.Second, "the other worker to go on", fmt.Sprintf(
		`(%s) && (%s) !== %q || document.querySelector(".stored")`, working, working, worker))
	return worker, took
}

// refunded checks that the refund of the first turn was paid once, and that the page shows it once.
func (d *desk) refunded(order string) {
	d.t.Helper()
	reply := d.settled(1)
	if got := d.stored(); len(got) != 1 || got[0].Reply.Text != reply || got[0].Reply.Receipt == "" {
		d.t.Errorf("the page shows %q, and stored is %+v", reply, got)
	}
	d.wantPaid(order, 1)
}

// rounds is how often a takeover is tried.
func rounds() int {
	if os.Getenv("HOLDFAST_SOAK") != "" {
		return 20
	}
	return 1
}

// late tells of a time that was missed. It fails the test in a soak only: the machine of a test may be busy.
func late(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HOLDFAST_SOAK") == "" {
		t.Logf(format, args...)
		return
	}
	t.Errorf(format, args...)
}

// showTakeovers presses a button again and again. Each time the other worker has to go on within limit.
func showTakeovers(t *testing.T, b *browser.Browser, p *process, button, orders string, limit time.Duration) {
	slow, longest := 0, time.Duration(0)
	for i := range rounds() {
		d := openDesk(t, b, p)
		order := fmt.Sprintf("%s%02d", orders, i)
		worker, took := d.press(button, order)
		t.Logf("%s of worker %s: the other goes on after %v", button, worker, took.Round(time.Millisecond))
		d.refunded(order)
		if longest = max(longest, took); took > limit {
			slow++
		}
		d.Close()
	}
	if slow > 0 {
		late(t, "%d of %d takeovers took longer than %v: up to %v", slow, rounds(), limit, longest)
	}
}

func testKill(t *testing.T, b *browser.Browser, p *process) {
	showTakeovers(t, b, p, "kill", "B-1", 8*time.Second)
}

func testDrain(t *testing.T, b *browser.Browser, p *process) {
	showTakeovers(t, b, p, "drain", "B-2", 2*time.Second)
}

// A worker that is stopped and goes on later changes nothing any more.
func testStop(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	worker, took := d.press("stop", "B-301")
	t.Logf("the other goes on after %v", took)
	d.refunded("B-301")
	d.Click(id("worker-continue") + `[data-worker="` + worker + `"]`)
	d.both()
	d.say("Thank you!")
	d.settled(2)
	if got := d.stored(); len(got) != 2 {
		t.Errorf("%d turns are stored: %+v", len(got), got)
	}
	d.wantPaid("B-301", 1)
}

// The other version of the bot goes on with a turn, and back.
func testDeploy(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	worker, _ := d.press("deploy", "B-401")
	d.refunded("B-401")
	d.both()
	d.WaitFor("version 2", `document.querySelector('.worker[data-key="`+worker+`"]').innerText.includes("bot v2")`)
	d.Click(id("worker-deploy") + `[data-worker="` + worker + `"]`)
	d.WaitFor("version 1", `document.querySelector('.worker.running[data-key="`+worker+`"]').innerText.includes("bot v1")`)
	d.say("Thank you!")
	d.settled(2)
}

// listen notes what the page reads out, and each text that the reply has had.
const listen = `
	window.read = []; window.seen = [];
	new MutationObserver(() => read.push(document.getElementById("said").innerText)).observe(
		document.getElementById("said"), {childList: true, characterData: true, subtree: true});
	new MutationObserver(() => {
		const words = document.querySelector(".words:not(.thinking)")?.innerText;
		if (words && words !== seen.at(-1)) seen.push(words);
	}).observe(document.getElementById("log"), {childList: true, characterData: true, subtree: true});`

func testSend(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	d.Eval(listen, nil)
	d.say("Refund order B-501, please.")
	reply := d.settled(1)
	if !strings.Contains(reply, "B-501") || !strings.Contains(reply, "paid") {
		t.Errorf("the reply is %q", reply)
	}
	var read, seen []string
	d.Eval("read", &read)
	d.Eval("seen", &seen)
	if len(read) != 1 || read[0] != "Reply: "+reply {
		t.Errorf("it reads out %q, want the reply, once and whole", read)
	}
	if len(seen) < 2 {
		t.Errorf("the reply has had the texts %q", seen)
	}
	for _, words := range seen {
		if !strings.HasPrefix(reply, strings.TrimSpace(words)) {
			t.Errorf("%q came before %q", words, reply)
		}
	}
	for name, want := range map[string]string{
		"timeline": "classify", "phases": "settled", "effects": "B-501", "owner": "No process", "run": "Nothing is in flight",
	} {
		d.WaitFor(name, fmt.Sprintf(`document.querySelector(%q).innerText.includes(%q)`, id(name), want))
	}
	d.wantPaid("B-501", 1)
	if got := d.Problems(); len(got) > 0 {
		t.Errorf("problems %q", got)
	}
	for _, what := range d.Requested() {
		if _, url, _ := strings.Cut(what, " "); !strings.HasPrefix(url, p.url+"/") {
			t.Errorf("the page asks another server: %s", what)
		}
	}
}

// A page that is loaded again while words come shows the words that it had, and those that follow.
func testReload(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	d.say("I want my money back for order A-1050, and I want it in as many words as you have.")
	d.WaitFor("words", `document.querySelector(".words:not(.thinking)").innerText.split(" ").length > 3`)
	var before, after string
	d.Eval(`document.querySelector(".words").innerText`, &before)
	d.Reload()
	d.WaitFor("words, or the reply", `document.querySelector(".words:not(.thinking), .stored")`)
	d.Eval(`document.querySelector(".words:not(.thinking), .bot p").innerText`, &after)
	reply := d.settled(1)
	before, after = strings.TrimSpace(before), strings.TrimSpace(after)
	if !strings.HasPrefix(after, before) || !strings.HasPrefix(reply, after) {
		t.Errorf("before it was loaded again it shows %q, then %q, and then %q", before, after, reply)
	}
	if got := d.stored(); len(got) != 1 || got[0].Reply.Text != reply {
		t.Errorf("stored is %+v", got)
	}
	var pending bool
	if d.Eval(`"holdfast:" + location.hash.slice(1) in sessionStorage`, &pending); pending {
		t.Error("the key is kept although it is answered")
	}
}

// Two people of the desk approve at once. One of them is the first, and the order is paid once.
func testTwoTabs(t *testing.T, b *browser.Browser, p *process) {
	one := openDesk(t, b, p)
	one.say("I want my money back for A-1042.")
	one.settled(1)
	var at string
	one.Eval("location.href", &at)
	two := openAs(t, b, p, "ben", at)
	const yes = `document.querySelector('[data-testid="approval-yes"]')`
	for _, d := range []*desk{one, two} {
		d.WaitFor("the question", yes)
	}
	for _, d := range []*desk{one, two} {
		d.Eval(yes+"?.click()", nil) // the other may have answered by now
	}
	for _, d := range []*desk{one, two} {
		if reply := d.settled(2); !strings.Contains(reply, "250.00") || !strings.Contains(reply, "paid") {
			t.Errorf("the reply is %q", reply)
		}
		d.WaitFor("the question to go", "!"+yes)
	}
	one.wantPaid("A-1042", 1)
}

// The page signs in as a customer, who sees what waits for the desk, and cannot answer. With the word the same page is
// the desk, and goes back. Another customer sees nothing of it.
func testCustomer(t *testing.T, b *browser.Browser, p *process) {
	d := &desk{b.Open(t, p.url+"/"), t, p.client()}
	d.WaitFor("the page to be ready", `!document.getElementById("welcome").hidden`)
	name := d.Text(id("me"))
	if !strings.HasPrefix(name, "guest.") || !strings.HasSuffix(name, " · customer") ||
		!strings.HasPrefix(d.session(), strings.TrimSuffix(name, " · customer")+"-") {
		t.Errorf("%q has the session %q", name, d.session())
	}
	d.say("I want my money back for A-1050.")
	d.settled(1)
	const asked = `document.querySelector('[data-testid="approval"]')`
	d.WaitFor("the question", asked+".innerText.includes('A colleague at the desk has to approve')")
	d.WaitFor("no buttons", `!document.querySelector('[data-testid="approval-yes"], [data-testid="fork"]')`)
	for _, found := range d.Axe() {
		t.Error(found)
	}
	for _, word := range []string{"wrong", people.word} {
		if word == "wrong" {
			d.Click(id("sign"))
		}
		d.Click(id("word"))
		d.Eval(`document.getElementById("word").value = ""`, nil)
		d.Type(word)
		d.Key("Enter")
		if word == "wrong" {
			d.WaitFor("the refusal", `document.getElementById("notice").innerText.includes("not the word")`)
			for _, found := range d.Axe() {
				t.Error(found)
			}
		}
	}
	d.Click(id("approval-no"))
	d.settled(2)
	d.WaitFor("the answer", `document.querySelector(".event").innerText.includes("has refused")`)
	d.Click(id("sign"))
	d.WaitFor("the customer of before", fmt.Sprintf(`document.querySelector(%q).innerText === %q &&
		document.querySelectorAll(".stored").length === 2 && !document.querySelector(%q)`, id("me"), name, id("fork")))

	var at string
	d.Eval("location.href", &at)
	other := &desk{b.Open(t, at), t, p.client()}
	other.WaitFor("the refusal", `document.getElementById("notice").innerText.includes("not yours")`)
	if shown := other.Text("body"); strings.Contains(shown, "A-1050.") {
		t.Errorf("another customer sees %q", shown)
	}
	other.Click(id("new-session"))
	other.say("Hello!")
	other.settled(1)
}

// A person says of a payment whose outcome is not known that it did not happen, that it did, and that it shall not.
func testDoubt(t *testing.T, b *browser.Browser, p *process) {
	answers := []struct {
		button, order string
		paid          int
		reply         string
	}{
		{"effect-not-landed", "B-601", 1, "paid"},
		{"effect-landed", "B-602", 0, "R-by-hand"},
		{"effect-skip", "B-603", 0, ""},
	}
	var desks []*desk
	for _, tt := range answers {
		d := openDesk(t, b, p)
		d.provider(provider.Fail)
		d.say("Refund order " + tt.order + ", please.")
		desks = append(desks, d)
	}
	for _, d := range desks {
		d.WaitFor("the question", `document.querySelector('[data-testid="effect-landed"]')`)
	}
	for i, tt := range answers {
		d := desks[i]
		d.provider(provider.OK)
		if tt.button == "effect-landed" {
			d.Click(".live button") // it leads to the field
			d.WaitFor("the field",
				fmt.Sprintf("document.activeElement === document.querySelector(%q)", id("effect-receipt")))
			d.Type(tt.reply)
		}
		if tt.button == "effect-skip" {
			d.Reload() // the message still waits for its answer
		}
		d.Click(id(tt.button))
		if reply := d.settled(1); !strings.Contains(reply, tt.reply) || !strings.Contains(reply, tt.order) {
			t.Errorf("%s: the reply is %q", tt.button, reply)
		}
		d.wantPaid(tt.order, tt.paid)
	}
}

func testFork(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	for i, message := range []string{"Hello!", "Refund order B-701, please."} {
		d.say(message)
		d.settled(i + 1)
	}
	from := d.session()
	d.Click(id("timeline") + ` li:last-child ` + id("fork"))
	d.WaitFor("the other session", fmt.Sprintf("document.getElementById('session').innerText !== %q", from))
	d.settled(1)
	d.say("Where is my order B-702?")
	d.settled(2)
	now, err := d.api.standing(t.Context(), from)
	if err != nil || len(now.Turns) != 2 || !strings.Contains(now.Turns[0].Reply.Input, "B-701") {
		t.Errorf("the session of before has %+v, %v", now.Turns, err)
	}
	d.Eval("history.back()", nil)
	d.WaitFor("the session of before", fmt.Sprintf("document.getElementById('session').innerText === %q", from))
	d.settled(2)
	d.Click(id("new-session"))
	d.WaitFor("an empty session", `!document.getElementById("welcome").hidden && !document.querySelector(".stored")`)
}

// A user without a mouse can do everything, and sees where the focus is.
func testKeyboard(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	d.Eval("document.activeElement.blur()", nil)
	d.TabTo("#skip")
	d.Key("Enter")
	d.WaitFor("the focus on the message", `document.activeElement.id === "input"`)
	d.Type("I want my money back for A-1050.")
	d.Key("Enter")
	d.settled(1)
	d.WaitFor("the question", fmt.Sprintf("document.querySelector(%q)", id("approval-no")))
	d.TabTo(id("approval-no"))
	d.Key("Space")
	d.settled(2)
	d.wantPaid("A-1050", 0)
	d.TabTo(id("theme"))
	d.Key("Enter")
	d.WaitFor("the dark theme", `document.documentElement.dataset.theme === "dark"`)
	from := d.session()
	d.TabTo(id("fork"))
	d.Key("Enter")
	d.WaitFor("the fork", fmt.Sprintf("document.getElementById('session').innerText !== %q", from))
	d.Eval("document.activeElement.blur()", nil)
	for range 40 {
		d.Key("Tab")
		var focus struct {
			Name  string
			Shown bool
		}
		d.Eval(`(() => {
			const el = document.activeElement, style = getComputedStyle(el), box = el.getBoundingClientRect();
			return {name: el.id || el.dataset.testid || el.className || el.tagName, shown: el === document.body ||
				style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 && box.width > 0 && box.height > 0};
		})()`, &focus)
		if !focus.Shown {
			t.Errorf("nothing shows that %s has the focus", focus.Name)
		}
	}
}

func testThemes(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	paper := func() (color string) {
		d.Eval(`getComputedStyle(document.documentElement).backgroundColor`, &color)
		return color
	}
	d.Emulate(browser.Taste{})
	light := paper()
	d.Emulate(browser.Taste{Dark: true})
	dark := paper()
	if light == dark {
		t.Errorf("both themes have the colour %s", light)
	}
	d.Click(id("theme"))
	d.Reload()
	if got := paper(); got != light {
		t.Errorf("the user chose the light theme in a dark system: the colour is %s, want %s", got, light)
	}
	d.Click(id("theme"))
	d.Emulate(browser.Taste{})
	if got := paper(); got != dark {
		t.Errorf("the user chose the dark theme in a light system: the colour is %s, want %s", got, dark)
	}
	d.Viewport(browser.Narrow)
	d.Click(`[data-view="record"]`)
	d.WaitFor("the session alone", fmt.Sprintf(
		`document.querySelector(%q).offsetParent === null && document.querySelector(%q).offsetParent`, id("chat-log"), id("owner")))
	var wide int
	d.Eval("document.documentElement.scrollWidth", &wide)
	if wide > browser.Narrow.Width {
		t.Errorf("the page is %d pixels wide on a screen of %d", wide, browser.Narrow.Width)
	}
}

// axe-core finds nothing in any state, theme and width.
func testAxe(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	look := func(state string) {
		for _, tt := range []struct {
			size browser.Size
			view string // of a narrow page
			dark bool
		}{
			{browser.Wide, "chat", false},
			{browser.Wide, "chat", true},
			{browser.Narrow, "chat", true},
			{browser.Narrow, "record", false},
		} {
			d.Viewport(tt.size)
			d.Eval(fmt.Sprintf(`document.body.dataset.shown = %q`, tt.view), nil)
			d.Emulate(browser.Taste{Dark: tt.dark, ReducedMotion: true})
			for _, found := range d.Axe() {
				t.Errorf("%s, %+v: %v", state, tt, found)
			}
		}
		d.Viewport(browser.Wide)
	}
	look("empty")
	d.provider(provider.Fail)
	d.say("Refund order B-801, please.")
	d.WaitFor("the question", `document.querySelector('[data-testid="effect-landed"]')`)
	look("in doubt")
	d.provider(provider.OK)
	d.Click(id("effect-not-landed"))
	d.settled(1)
	d.say("I want my money back for A-1050.")
	d.settled(2)
	d.WaitFor("the question", fmt.Sprintf("document.querySelector(%q)", id("approval-no")))
	look("asked")
}

// A message that cannot be taken comes back to its writer.
func testWrong(t *testing.T, b *browser.Browser, p *process) {
	d := &desk{b.Open(t, p.url+"/#"+strings.Repeat("x", 600)), t, p.client()}
	d.WaitFor("what is wrong", `document.getElementById("notice").classList.contains("bad")`)
	d.say("Hello!")
	d.WaitFor("the message", `document.getElementById("input").value === "Hello!"`)
	if got := d.Text("#notice"); !strings.Contains(got, "512 bytes") {
		t.Errorf("it says %q", got)
	}
	d.Click(id("new-session"))
	d.Key("Enter")
	d.settled(1)
}

// A question that was not answered in time is shown as such, and cannot be answered.
func testExpired(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	d.say("I want my money back for A-1042.")
	d.settled(1)
	d.WaitFor("the end of the question", fmt.Sprintf("document.querySelector(%q) && !document.querySelector(%q)",
		id("approval-expired"), id("approval-yes")))
	for _, found := range d.Axe() {
		t.Error(found)
	}
	d.say("Any news?")
	reply := d.settled(2)
	if !strings.Contains(reply, "Nobody has approved the refund of 250.00 for order A-1042 in time.") {
		t.Errorf("the reply is %q", reply)
	}
	d.WaitFor("the question to go", fmt.Sprintf("!document.querySelector(%q)", id("approval-expired")))
}

// holdReads makes the page wait for the answers to its reads of the session that have no turn, until it is released.
// The answers to later reads wait until the page has been drawn. It notes whether the page loses a turn that it has
// shown.
const holdReads = `(() => {
	const ask = window.fetch;
	const frame = () => new Promise(requestAnimationFrame);
	const released = new Promise((done) => { window.release = done; });
	const drawn = released.then(frame).then(frame).then(frame);
	window.fetch = async (path, options) => {
		const res = await ask(path, options);
		if (!String(path).includes("?limit=")) return res;
		if ((await res.clone().json()).turns.length === 0) {
			window.held = true;
			await released;
		} else if (window.held) {
			await drawn;
			window.over = true;
		}
		return res;
	};
	window.lost = false;
	let most = 0;
	new MutationObserver(() => {
		const now = document.querySelectorAll(".stored").length;
		if (now < most) window.lost = true;
		most = Math.max(most, now);
	}).observe(document.getElementById("log"), { childList: true, subtree: true });
})()`

// A read that began before a turn was stored is answered after the reply. The page does not lose the turn.
func testLateRead(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	d.Eval(holdReads, nil)
	d.say("Hello!")
	d.settled(1)
	d.WaitFor("a read to be held", "window.held === true")
	d.Eval("window.release()", nil)
	d.WaitFor("a read to come after it", "window.over === true")
	lost := true
	if d.Eval("window.lost", &lost); lost {
		t.Error("the turn was gone for a moment")
	}
}

// A page that is loaded again has read nothing yet when the reply comes. It shows the turn all the same.
func testLateFirstRead(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	var shown string
	d.Eval(`(async () => {
		const { Session } = await import("/page/session.js");
		const s = new Session("late first read", () => {}, () => {});
		s.refresh = () => {}; // it takes long
		s.pending = { key: "key", message: "Hello!" };
		s.settle({ turn: 0, run: "r", request: "key", reply: { text: "Hello." } });
		return s.doc?.turns.map((t) => t.reply.text).join() ?? "nothing";
	})()`, &shown)
	if shown != "Hello." {
		t.Errorf("it shows %q", shown)
	}
}

// The concierge is a bot before the bot. Its sessions are its own.
func testConcierge(t *testing.T, b *browser.Browser, p *process) {
	d := &desk{b.Open(t, p.url+"/?bot=concierge"), t, p.client()}
	d.WaitFor("the page to be ready", `!document.getElementById("welcome").hidden`)
	d.say("Where is my order A-1013?")
	if reply := d.settled(1); !strings.Contains(reply, "A-1013, two books") {
		t.Errorf("the reply is %q", reply)
	}
	if got := d.stored(); len(got) != 0 {
		t.Errorf("the refund bot has the session too: %+v", got)
	}
	for _, found := range d.Axe() {
		t.Error(found)
	}
	d.Eval(`(() => { const s = document.getElementById("bot"); s.value = "refunds"; s.dispatchEvent(new Event("change")); })()`, nil)
	d.WaitFor("the refund bot", `location.search === "" && document.getElementById("bot")?.value === "refunds" &&
		!document.getElementById("welcome").hidden`)
}

// An attempt that has failed is told of, also while the next one runs.
func testFailedAttempt(t *testing.T, b *browser.Browser, p *process) {
	d := openDesk(t, b, p)
	var got []string
	d.Eval(`(async () => {
		const { hear } = await import("/page/live.js");
		let live = null;
		return [
			{ kind: "intent.started", attempt: 1 }, { kind: "intent.ended", attempt: 1, failed: true },
			{ kind: "intent.started", attempt: 2 }, { kind: "intent.ended", attempt: 2 },
		].map((ev, i) => {
			live = hear(live, { run: "r", seq: i + 1, at: String(i), intent: "order", iteration: 1, ...ev });
			return live.steps.map((s) => [s.state, s.attempt, s.failed ?? 0].join(" ")).join();
		});
	})()`, &got)
	if want := []string{"running 1 0", "failed 1 0", "running 2 1", "ended 2 1"}; !slices.Equal(got, want) {
		t.Errorf("the steps are %q, want %q", got, want)
	}
}
