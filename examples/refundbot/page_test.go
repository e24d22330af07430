package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/internal/test/browser"
)

// The pages, in a browser, with the program as its user starts it.
func TestPage(t *testing.T) {
	b := browser.Start(t)
	run := func(t *testing.T, p *process, tests map[string]func(*testing.T, *browser.Browser, *process)) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { test(t, b, p) })
		}
	}
	t.Run("processes", func(t *testing.T) {
		t.Parallel()
		run(t, startDemo(t, "-pace", "200ms"), map[string]func(*testing.T, *browser.Browser, *process){
			"kill": testKill, "stop and continue": testStop, "drain": testDrain, "deploy": testDeploy,
		})
	})
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		testExpired(t, b, startDemo(t, "-pace", "50ms", "-approval", "1s"))
	})
	t.Run("conversations", func(t *testing.T) {
		t.Parallel()
		run(t, startDemo(t, "-pace", "200ms"), map[string]func(*testing.T, *browser.Browser, *process){
			"send": testSend, "reload": testReload, "two desks": testTwoDesks, "customer": testCustomer,
			"doubt": testDoubt, "branch": testBranch, "keyboard": testKeyboard, "themes": testThemes, "axe": testAxe,
			"wrong": testWrong, "concierge": testConcierge,
		})
	})
}

// startDemo starts the program as go run does.
func startDemo(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"-addr", "127.0.0.1:0", "-data", t.TempDir()}, args...)
	return start(t, environment(stores.Config{}), args...)
}

// A tab is a page.
type tab struct {
	*browser.Tab
	t   *testing.T
	api client
	url string
}

// openTab opens a path of the program, as a new guest.
func openTab(t *testing.T, b *browser.Browser, p *process, path string) *tab {
	t.Helper()
	return &tab{b.Open(t, p.url+path), t, p.client(), p.url}
}

// openChat opens the page of a new customer.
func openChat(t *testing.T, b *browser.Browser, p *process) *tab {
	t.Helper()
	d := openTab(t, b, p, "/")
	d.WaitFor("the page to be ready", `document.getElementById("session").innerText`)
	return d
}

// openDesk opens a page for somebody of the desk.
func openDesk(t *testing.T, b *browser.Browser, p *process, name, path string) *tab {
	t.Helper()
	d := openTab(t, b, p, "/desk/")
	d.Eval(fmt.Sprintf(`fetch("/app/sign-in", {method: "POST", headers: {"Content-Type": "application/json"},
		body: JSON.stringify({name: %q, role: "desk", word: %q})})`, name, people.word), nil)
	if path != "/desk/" {
		d.Navigate(p.url + path)
	}
	return d
}

// at returns the address of a page for a session.
func at(page, session string) string { return page + "#" + url.QueryEscape(session) }

func id(name string) string { return `[data-testid="` + name + `"]` }

func there(name string) string { return fmt.Sprintf("document.querySelector(%q)", id(name)) }

// say sends a message.
func (d *tab) say(message string) {
	d.t.Helper()
	d.Click(id("input"))
	d.Type(message)
	d.Key("Enter")
}

const lastWords = `[...document.querySelectorAll("#log .bot p")].at(-1)?.innerText ?? ""`

// settled waits until so many messages are shown and the last is answered, and returns the answer.
func (d *tab) settled(messages int) (reply string) {
	d.t.Helper()
	d.WaitFor(fmt.Sprintf("the answer to %d messages", messages), fmt.Sprintf(`
		document.querySelectorAll("#log .user").length === %d && !%s && !document.querySelector("#log .call.open") &&
		document.querySelector("#log li:last-child.bot")`, messages, there("doing")))
	d.Eval(lastWords, &reply)
	return reply
}

// told waits until the newest words of the bot hold a text.
func (d *tab) told(text string) {
	d.t.Helper()
	d.WaitFor(text, fmt.Sprintf(`(%s).includes(%q)`, lastWords, text))
}

// session returns the name of the customer's session.
func (d *tab) session() string {
	d.t.Helper()
	var name string
	d.Eval(`fetch("/app/me").then((r) => r.json()).then((me) => me.name + "-" + decodeURIComponent(location.hash.slice(1)))`,
		&name)
	return name
}

// stored returns the turns of a session.
func (d *tab) stored(session string) standing {
	d.t.Helper()
	now, err := d.api.standing(d.t.Context(), url.PathEscape(session))
	if err != nil {
		d.t.Fatal(err)
	}
	return now
}

// wantPaid checks how often the provider has paid an order, whoever asked.
func (d *tab) wantPaid(order string, times int) {
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

// worker returns the worker that owns a session; "" if none does.
func (d *tab) worker(session string) string {
	d.t.Helper()
	now := d.stored(session)
	for _, w := range d.api.describe(d.t).Workers {
		if now.Run != nil && strings.HasPrefix(now.Owner.ID, w.Owner) {
			return w.Name
		}
	}
	return ""
}

// press presses a button of the desk for a worker in the middle of a refund, and returns how long it takes until the
// other goes on.
func press(office, chat *tab, button, order string) (worker string, took time.Duration) {
	office.t.Helper()
	office.WaitFor("both workers", `document.querySelectorAll(".worker.running").length === 2`)
	chat.api.provider(chat.t, provider.Timeout) // the payment does not end
	chat.say("Refund order " + order + ", please.")
	chat.WaitFor("the refund to be under way",
		`[...document.querySelectorAll("#log .call.open")].some((c) => c.innerText.startsWith("refund"))`)
	session := chat.session()
	ctx, cancel := context.WithTimeout(chat.t.Context(), time.Minute)
	defer cancel()
	awaitBeats(ctx, chat.t, chat.api, session)
	worker = chat.worker(session)
	office.Click(id("worker-"+button) + `[data-worker="` + worker + `"]`)
	began := time.Now()
	chat.api.provider(chat.t, provider.OK)
	for now := worker; now == worker || now == "" && chat.stored(session).Turn < 0; now = chat.worker(session) {
		if pause(ctx, 20*time.Millisecond) != nil {
			chat.t.Fatalf("after %s worker %s has the turn", button, worker)
		}
	}
	return worker, time.Since(began)
}

// refunded checks that the refund of the first turn was paid once, and that the page shows it once.
func (d *tab) refunded(order string) {
	d.t.Helper()
	reply := d.settled(1)
	if got := d.stored(d.session()).Turns; len(got) != 1 || got[0].Reply.Text != reply || got[0].Reply.Receipt == "" {
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
	office := openDesk(t, b, p, "ann", "/desk/")
	for i := range rounds() {
		chat, order := openChat(t, b, p), fmt.Sprintf("%s%02d", orders, i)
		worker, took := press(office, chat, button, order)
		t.Logf("%s of worker %s: the other goes on after %v", button, worker, took.Round(time.Millisecond))
		chat.refunded(order)
		if longest = max(longest, took); took > limit {
			slow++
		}
		chat.Close()
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
	office, chat := openDesk(t, b, p, "ann", "/desk/"), openChat(t, b, p)
	worker, took := press(office, chat, "stop", "B-301")
	t.Logf("the other goes on after %v", took)
	chat.refunded("B-301")
	office.Click(id("worker-continue") + `[data-worker="` + worker + `"]`)
	office.WaitFor("both workers", `document.querySelectorAll(".worker.running").length === 2`)
	chat.say("Thank you!")
	chat.settled(2)
	if got := chat.stored(chat.session()).Turns; len(got) != 2 {
		t.Errorf("%d turns are stored: %+v", len(got), got)
	}
	chat.wantPaid("B-301", 1)
}

// The other version of the bot goes on with a turn, and back.
func testDeploy(t *testing.T, b *browser.Browser, p *process) {
	office, chat := openDesk(t, b, p, "ann", "/desk/"), openChat(t, b, p)
	worker, _ := press(office, chat, "deploy", "B-401")
	chat.refunded("B-401")
	shown := `document.querySelector('.worker.running[data-key="` + worker + `"]')?.innerText.includes("bot v%d")`
	office.WaitFor("version 2", fmt.Sprintf(shown, 2))
	office.Click(id("worker-deploy") + `[data-worker="` + worker + `"]`)
	office.WaitFor("version 1", fmt.Sprintf(shown, 1))
	chat.say("Thank you!")
	chat.settled(2)
}

// listen notes what the page reads out, and each text that the last words have had.
const listen = `
	window.read = []; window.seen = [];
	new MutationObserver(() => read.push(document.getElementById("said").innerText)).observe(
		document.getElementById("said"), {childList: true, characterData: true, subtree: true});
	new MutationObserver(() => {
		const words = ` + lastWords + `;
		if (words && words !== seen.at(-1)) seen.push(words);
	}).observe(document.getElementById("log"), {childList: true, characterData: true, subtree: true});`

func testSend(t *testing.T, b *browser.Browser, p *process) {
	d := openChat(t, b, p)
	d.Eval(listen, nil)
	d.say("Refund order B-501, please.")
	reply := d.settled(1)
	if !strings.Contains(reply, "B-501") || !strings.Contains(reply, "paid") {
		t.Errorf("the reply is %q", reply)
	}
	d.WaitFor("the reply to be read out", "window.read.length > 0")
	var read, seen []string
	d.Eval("read", &read)
	d.Eval("seen", &seen)
	if len(read) != 1 || read[0] != reply {
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
	d.wantPaid("B-501", 1)
	office := openDesk(t, b, p, "ann", "/desk/")
	office.Click(id("session-name"))
	office.Type(d.session())
	office.Key("Enter")
	office.WaitFor("the turn log", there("phases")+`.innerText.includes("settled")`)
	office.Click(id("talk"))
	office.told("B-501")
	for _, d := range []*tab{d, office} {
		for _, what := range d.Requested() {
			_, to, _ := strings.Cut(what, " ")
			if !strings.HasPrefix(to, p.url+"/") && !strings.HasPrefix(to, "data:") {
				t.Errorf("the page asks another server: %s", what)
			}
		}
	}
}

// A page that is loaded again while words come shows the words that it had, and those that follow.
func testReload(t *testing.T, b *browser.Browser, p *process) {
	d := openChat(t, b, p)
	d.say("I want my money back for order A-1050, and I want it in as many words as you have.")
	d.WaitFor("words", fmt.Sprintf(`(%s).split(" ").length > 3`, lastWords))
	var before, after string
	d.Eval(lastWords, &before)
	d.Reload()
	d.WaitFor("words, or the reply", lastWords)
	d.Eval(lastWords, &after)
	reply := d.settled(1)
	before, after = strings.TrimSpace(before), strings.TrimSpace(after)
	if !strings.HasPrefix(reply, before) || !strings.HasPrefix(reply, after) {
		t.Errorf("before it was loaded again it shows %q, then %q, and then %q", before, after, reply)
	}
	if got := d.stored(d.session()).Turns; len(got) != 1 || got[0].Reply.Text != reply {
		t.Errorf("stored is %+v", got)
	}
}

// caseOf waits until the desk is asked about an order, and returns the page where it answers.
func (d *tab) caseOf(order string) (path string) {
	d.t.Helper()
	d.told("needs the approval of a colleague")
	return at("/desk/case/", d.session()+"/"+order)
}

// Two people of the desk approve at once. One of them is the first, and the order is paid once.
func testTwoDesks(t *testing.T, b *browser.Browser, p *process) {
	chat := openChat(t, b, p)
	chat.say("I want my money back for A-1042.")
	path := chat.caseOf("A-1042")
	desks := []*tab{openDesk(t, b, p, "ann", path), openDesk(t, b, p, "ben", path)}
	for _, d := range desks {
		d.WaitFor("the question", there("approve"))
	}
	for _, d := range desks {
		d.Eval(there("approve")+"?.click()", nil) // the other may have answered by now
	}
	for _, d := range desks {
		d.WaitFor("the question to go", "!"+there("approve"))
		d.told("R-")
	}
	chat.told("The refund of 250.00 for order A-1042 is paid.")
	chat.wantPaid("A-1042", 1)
}

// A customer sees that the desk is asked, and cannot answer. With the word the same browser is the desk. Another
// customer sees nothing of it.
func testCustomer(t *testing.T, b *browser.Browser, p *process) {
	d := openChat(t, b, p)
	d.say("I want my money back for A-1050.")
	path, session := d.caseOf("A-1050"), d.session()
	if !strings.HasPrefix(session, "guest.") {
		t.Errorf("the session is %q", session)
	}
	own := d.Text("#log")
	for _, page := range []string{path, at("/desk/session/", session)} {
		other := openChat(t, b, p)
		other.Navigate(p.url + page)
		other.WaitFor("the refusal", there("notice")+`.innerText.includes("You may not do this")`)
		if shown := other.Text("body"); strings.Contains(shown, "A-1050.") || strings.Contains(shown, "25000") {
			t.Errorf("another customer sees %q", shown)
		}
		other.Close()
	}
	hash := session[strings.LastIndexByte(session, '-')+1:]
	other := openTab(t, b, p, at("/", hash))
	other.say("Hello!")
	if reply := other.settled(1); strings.Contains(own, reply) {
		t.Errorf("another customer is told %q", reply)
	}
	d.Navigate(p.url + path)
	d.WaitFor("the refusal", there("notice")+`.innerText.includes("You may not do this")`)
	d.WaitFor("no buttons", "!"+there("approve"))
	d.Navigate(p.url + "/desk/")
	for _, word := range []string{"wrong", people.word} {
		d.WaitFor("the form", `!document.getElementById("sign").hidden`)
		d.Click(id("word"))
		d.Type(word)
		d.Key("Enter")
		if word == "wrong" {
			d.WaitFor("the refusal", there("notice")+`.innerText.includes("not the word")`)
			for _, found := range d.Axe() {
				t.Error(found)
			}
			d.WaitFor("the word to go", `document.getElementById("word").value === ""`)
		}
	}
	d.Click(id("case") + `[data-session="` + session + `"]`)
	d.Click(id("refuse"))
	d.told("refused")
	d.Navigate(p.url + "/desk/")
	d.Click(id("sign-out"))
	d.WaitFor("the customer of before", fmt.Sprintf(`%s.innerText === %q`, there("me"), session[:len(session)-len(hash)-1]+" · customer"))
	d.Navigate(p.url + at("/", hash))
	d.told("A colleague has looked at order A-1050, and does not refund it.")
}

// A person says of a payment whose outcome is not known that it did not happen, that it did, and that it shall not.
func testDoubt(t *testing.T, b *browser.Browser, p *process) {
	answers := []struct {
		button, order string
		paid          int
		reply         string
	}{
		{"not-landed", "B-601", 1, "paid"},
		{"landed", "B-602", 0, "R-by-hand"},
		{"skip", "B-603", 0, "A colleague takes care"},
	}
	var chats []*tab
	for _, tt := range answers {
		d := openChat(t, b, p)
		d.api.provider(d.t, provider.Fail)
		d.say("Refund order " + tt.order + ", please.")
		chats = append(chats, d)
	}
	var desks []*tab
	for _, chat := range chats {
		desk := openDesk(t, b, p, "ann", at("/desk/session/", chat.session()))
		desk.WaitFor("the question", there("doubt"))
		desks = append(desks, desk)
	}
	for _, found := range desks[0].Axe() {
		t.Error(found)
	}
	chats[0].api.provider(t, provider.OK)
	for i, tt := range answers {
		desk := desks[i]
		if i == len(answers)-1 {
			chats[i].Reload() // the message still waits for its answer
		}
		if tt.button == "landed" {
			desk.Click(id("value"))
			desk.Type(tt.reply)
		}
		desk.Click(id(tt.button))
		if reply := chats[i].settled(1); !strings.Contains(reply, tt.reply) || !strings.Contains(reply, tt.order) {
			t.Errorf("%s: the reply is %q", tt.button, reply)
		}
		desk.wantPaid(tt.order, tt.paid)
	}
}

// The desk tries a session otherwise, from one of its turns. The session of before stays as it is.
func testBranch(t *testing.T, b *browser.Browser, p *process) {
	chat := openChat(t, b, p)
	for i, message := range []string{"Where is my order B-702?", "Refund order B-701, please."} {
		chat.say(message)
		chat.settled(i + 1)
	}
	from := chat.session()
	d := openDesk(t, b, p, "ann", at("/desk/session/", from))
	d.settled(2)
	d.Eval(`document.querySelector('[data-testid="branch"]').click()`, nil)
	d.WaitFor("the other session", fmt.Sprintf("document.getElementById('session').innerText !== %q", from))
	d.settled(1)
	d.say("Yes please")
	if reply := d.settled(2); !strings.Contains(reply, "B-702 is paid") {
		t.Errorf("the reply is %q", reply)
	}
	if now := chat.stored(from).Turns; len(now) != 2 || !strings.Contains(now[0].Reply.Input, "B-701") {
		t.Errorf("the session of before has %+v", now)
	}
}

// A user without a mouse can do everything, and sees where the focus is.
func testKeyboard(t *testing.T, b *browser.Browser, p *process) {
	chat := openChat(t, b, p)
	chat.Eval("document.activeElement.blur()", nil)
	chat.TabTo("#skip")
	chat.Key("Enter")
	chat.WaitFor("the focus on the message", `document.activeElement.id === "input"`)
	chat.Type("I want my money back for A-1050.")
	chat.Key("Enter")
	path := chat.caseOf("A-1050")
	office := openDesk(t, b, p, "ann", "/desk/")
	office.WaitFor("the case", there("case"))
	office.TabTo(id("provider-mode"))
	for range 20 {
		office.Key("Tab")
		var focus struct {
			Name  string
			Shown bool
		}
		office.Eval(`(() => {
			const el = document.activeElement, style = getComputedStyle(el), box = el.getBoundingClientRect();
			return {name: el.id || el.dataset.testid || el.className || el.tagName, shown: el === document.body ||
				style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 && box.width > 0 && box.height > 0};
		})()`, &focus)
		if !focus.Shown {
			t.Errorf("nothing shows that %s has the focus", focus.Name)
		}
	}
	desk := openDesk(t, b, p, "ann", path)
	desk.WaitFor("the question", there("refuse"))
	desk.TabTo(id("refuse"))
	desk.Key("Space")
	chat.told("does not refund it")
	chat.wantPaid("A-1050", 0)
}

func testThemes(t *testing.T, b *browser.Browser, p *process) {
	for _, path := range []string{"/", "/desk/"} {
		d := openTab(t, b, p, path)
		paper := func() (color string) {
			d.Eval(`getComputedStyle(document.documentElement).backgroundColor`, &color)
			return color
		}
		d.Emulate(browser.Taste{})
		light := paper()
		d.Emulate(browser.Taste{Dark: true})
		if dark := paper(); light == dark {
			t.Errorf("both themes of %s have the colour %s", path, light)
		}
		d.Viewport(browser.Narrow)
		var wide int
		d.Eval("document.documentElement.scrollWidth", &wide)
		if wide > browser.Narrow.Width {
			t.Errorf("%s is %d pixels wide on a screen of %d", path, wide, browser.Narrow.Width)
		}
	}
}

// axe-core finds nothing on any page, theme and width.
func testAxe(t *testing.T, b *browser.Browser, p *process) {
	look := func(d *tab, state string) {
		for _, size := range []browser.Size{browser.Wide, browser.Narrow} {
			d.Viewport(size)
			for _, dark := range []bool{false, true} {
				d.Emulate(browser.Taste{Dark: dark, ReducedMotion: true})
				for _, found := range d.Axe() {
					t.Errorf("%s, %+v, dark %t: %v", state, size, dark, found)
				}
			}
		}
		d.Viewport(browser.Wide)
	}
	chat := openChat(t, b, p)
	look(chat, "empty")
	chat.say("I want my money back for A-1050.")
	path := chat.caseOf("A-1050")
	look(chat, "asked")
	office := openDesk(t, b, p, "ann", "/desk/")
	office.WaitFor("the case", there("case"))
	look(office, "desk")
	office.Navigate(p.url + path)
	office.WaitFor("the question", there("refuse"))
	look(office, "question")
	office.Click(id("refuse"))
	chat.told("does not refund it")
}

// A message that cannot be taken comes back to its writer.
func testWrong(t *testing.T, b *browser.Browser, p *process) {
	d := openTab(t, b, p, "/#"+strings.Repeat("x", 600))
	d.WaitFor("what is wrong", there("notice")+`.classList.contains("bad")`)
	d.say("Hello!")
	d.WaitFor("the message", `document.getElementById("input").value === "Hello!"`)
	d.WaitFor("why it came back", there("notice")+`.innerText.includes("512 bytes")`) // it is drawn later
	d.Click(id("new"))
	d.WaitFor("a new session", `location.hash.length < 100 && document.getElementById("session")?.innerText.length < 100`)
	d.say("Hello!")
	d.settled(1)
}

// Nobody approves in time, and the customer is told.
func testExpired(t *testing.T, b *browser.Browser, p *process) {
	d := openChat(t, b, p)
	d.say("I want my money back for A-1042.")
	d.told("Nobody has approved the refund of 250.00 for order A-1042 in time.")
	for _, found := range d.Axe() {
		t.Error(found)
	}
	d.wantPaid("A-1042", 0)
}

// The concierge is an agent before the agent. Its sessions are its own.
func testConcierge(t *testing.T, b *browser.Browser, p *process) {
	d := openTab(t, b, p, "/concierge/")
	d.say("Where is my order A-1013?")
	if reply := d.settled(1); !strings.Contains(reply, "A-1013, two books") {
		t.Errorf("the reply is %q", reply)
	}
	if got := d.stored(d.session()).Turns; len(got) != 0 {
		t.Errorf("the refund bot has the session too: %+v", got)
	}
	for _, found := range d.Axe() {
		t.Error(found)
	}
}
