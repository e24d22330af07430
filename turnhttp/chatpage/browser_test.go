package chatpage_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/browser"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/chatpage"
)

type order struct {
	Number string `json:"number"`
}

// A shop is an agent whose model does what the user says.
type shop struct {
	url    string
	gate   chan struct{} // the model, saying "slow", waits for an element between its words, and so does the tool wait
	asked  atomic.Int64  // calls of the model
	refund atomic.Int64
}

// reply calls the tool that the user names, and repeats its result; "slow" only when it may. "slow" says two words, and
// "fail" fails.
func (s *shop) reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	s.asked.Add(1)
	say := func(blocks ...message.Block) (agent.Reply, error) {
		return agent.Reply{Message: message.Message{Blocks: blocks}}, nil
	}
	newest := r.Said[len(r.Said)-1]
	verb, rest, _ := strings.Cut(newest.Blocks[0].Text, " ")
	wait := func() error {
		select {
		case <-s.gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case newest.Role != message.RoleUser:
		result := newest.Blocks[len(newest.Blocks)-1].Text
		if token("It says: "); result == "slow" {
			if err := wait(); err != nil {
				return agent.Reply{}, err
			}
		}
		return say(message.Text("It says: " + result))
	case verb == "fail":
		return agent.Reply{}, retry.Permanent(errors.New("no model today"))
	case verb == "slow":
		token("one ")
		if err := wait(); err != nil {
			return agent.Reply{}, err
		}
		token("two")
		return say(message.Text("one two"))
	case verb == "say":
		return say(message.Text(rest))
	}
	return say(message.ToolCall("", "find", []byte(`{"number":"`+rest+`"}`)),
		message.ToolCall("", verb, []byte(`{"number":"`+rest+`"}`)))
}

// clientTools are those of the page of Eve. Each counts how often it runs.
const clientTools = `(() => {
	const ran = () => { localStorage.ran = 1 + Number(localStorage.ran ?? 0); };
	return {
		where: ({number}) => { ran(); return {number, at: "Paris"}; },
		denied: () => { ran(); throw new Error("the user said no"); },
		slow_photo: () => { ran(); return new Promise((done) => { window.finish = done; }); }, // until the test says so
	};
})()`

// open starts the shop. Below /ann/ and /bob/ are two people of the desk; Bob may not branch. Below /eve/ is a customer
// whose page runs client tools.
func open(t *testing.T, stores agent.Stores, steer ...agent.Steering) *shop {
	t.Helper()
	s := &shop{gate: make(chan struct{})}
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "shop", Model: agent.ModelFunc(s.reply), Steer: append(steer, agent.Queue)[0],
		Tools: []agent.Tool{
			agent.Read("wait", "", func(ctx context.Context, o order) (string, error) {
				select {
				case <-s.gate:
				case <-ctx.Done():
				}
				return o.Number + " has come", nil
			}),
			agent.ClientTool[order]("where", ""), agent.ClientTool[order]("denied", ""),
			agent.ClientTool[order]("slow_photo", ""),
			agent.Read("find", "", func(_ context.Context, o order) (string, error) {
				return o.Number + " is lost", nil
			}),
			agent.ClientTool[order]("photo", ""),
			agent.Read("seat", "", func(ctx context.Context, _ order) (string, error) {
				c := agent.From(ctx)
				switch {
				case c.Answer == nil:
					return "", agent.Ask(agent.Question{Text: "Which seat?"})
				case c.Answer.Failed:
					return "", errors.New("no seat: " + c.Answer.Result)
				}
				return "seat " + c.Answer.Result, nil
			}),
			agent.Effect[order, string]{
				Name: "charge", Run: func(context.Context, string, order) (string, error) {
					return "", errors.New("the reply of the bank was lost")
				},
			}.Tool(),
			agent.Effect[order, string]{
				Name: "refund", Class: ledger.Idempotent, Approve: func(order) bool { return true },
				Run: func(_ context.Context, _ string, o order) (string, error) {
					s.refund.Add(1)
					return "paid " + o.Number, nil
				},
			}.Tool(),
		},
	}, stores, nil)
	if err != nil {
		t.Fatal(err)
	}
	as := func(who turnhttp.Actor) http.Handler {
		actions := []turnhttp.Action{turnhttp.ActionTurn, turnhttp.ActionFollow, turnhttp.ActionStop}
		switch who {
		case "eve":
			actions = append(actions, turnhttp.ActionClient)
		case "ann":
			actions = append(actions, turnhttp.ActionBranch)
			fallthrough
		case "bob":
			actions = append(actions, turnhttp.ActionRead, turnhttp.ActionAnswer, turnhttp.ActionResolve)
		}
		may := turnhttp.Allow(who, actions...)
		return agent.Handler(a, turnhttp.Options[agent.State[struct{}]]{Authorize: may})
	}
	mux := http.NewServeMux()
	mux.Handle("/sessions/", as("customer"))
	mux.Handle("GET /{$}", chatpage.Handler(nil))
	for who, tools := range map[string]string{"ann": "", "bob": "", "eve": clientTools} {
		o := &chatpage.Options{Title: "Desk", API: "/" + who, ClientTools: tools}
		mux.Handle("/"+who+"/", http.StripPrefix("/"+who, as(turnhttp.Actor(who))))
		mux.Handle("GET /"+who+"/{$}", chatpage.Handler(o))
	}
	server := httptest.NewServer(mux)
	s.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A page is a tab with the page, and the session s.
type page struct {
	*browser.Tab
	t *testing.T
}

func (s *shop) page(t *testing.T, b *browser.Browser, who string) page {
	t.Helper()
	path := "/"
	if who != "" {
		path = "/" + who + "/"
	}
	return page{b.Open(t, s.url+path+"#s"), t}
}

// beside opens the same page in another tab of the same browser.
func (p page) beside() page {
	p.t.Helper()
	var url string
	p.Eval("location.href", &url)
	return page{p.Tab.Beside(url), p.t}
}

// hold makes the requests of a page that a pattern matches wait for release.
func (p page) hold(pattern string) {
	p.t.Helper()
	p.Eval(`(() => { const real = fetch, held = new Promise((go) => { window.release = go; });
		window.fetch = (url, o) => `+pattern+`.test(o?.method + " " + url) ? held.then(() => real(url, o)) : real(url, o); })()`, nil)
}

func id(name string) string { return `[data-testid="` + name + `"]` }

func (p page) say(words string) {
	p.t.Helper()
	p.WaitFor("the last message to be answered", `!document.querySelector('[data-key^="p "]')`)
	p.steer(words)
}

// steer says something while a turn is in flight.
func (p page) steer(words string) {
	p.t.Helper()
	p.Click(id("input"))
	p.Type(words)
	p.Key("Enter")
}

// shows waits until an element shows a text.
func (p page) shows(name, text string) {
	p.t.Helper()
	p.WaitFor(name+" with "+text, fmt.Sprintf(`document.querySelector('%s').innerText.includes(%q)`, id(name), text))
}

// clean checks that axe-core finds nothing, in the light and in the dark, and that nothing went wrong but what is
// expected: a customer may not see questions.
func (p page) clean(expected ...string) {
	p.t.Helper()
	for _, dark := range []bool{false, true} {
		p.Emulate(browser.Taste{Dark: dark})
		for _, found := range p.Axe() {
			p.t.Errorf("dark %t: %v", dark, found)
		}
	}
	for _, problem := range p.Problems() {
		if !slices.ContainsFunc(append(expected, "/sessions/s/questions: status 403"), func(part string) bool {
			return strings.Contains(problem, part)
		}) {
			p.t.Error(problem)
		}
	}
}

func TestPage(t *testing.T) {
	b := browser.Start(t)
	for name, test := range map[string]func(*testing.T, *browser.Browser){
		"approve": testApprove, "refuse": testRefuse, "client tool": testClientTool, "question of a tool": testQuestion, "two desks": testTwoDesks,
		"reload": testReload, "stop": testStop, "errors": testErrors, "earlier": testEarlier, "keyboard": testKeyboard,
		"no stream": testNoStream, "doubt": testDoubt, "new conversation": testNew, "two tabs": testTwoTabs,
		"client tools of the page": testServe, "client tool over a reload": testServeReload,
		"client tool in two tabs": testServeTwice, "late stop": testLateStop, "branch": testBranch, "steer": testSteer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// The customer sees the calls and their results, and no question. The desk sees the question, and approves.
func testApprove(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	customer, desk := s.page(t, b, ""), s.page(t, b, "ann")
	customer.say("refund A1")
	customer.shows("log", `{ "number": "A1" }`)
	customer.shows("log", "→ A1 is lost")
	customer.shows("doing", "A call waits")
	customer.clean()
	desk.shows("ask", "May shop do this: refund?")
	desk.shows("ask", `"A1"`)
	desk.clean()
	if got := customer.Text(id("log")); strings.Contains(got, "paid") || s.refund.Load() != 0 {
		t.Errorf("before the answer it shows %q", got)
	}
	desk.Click(id("approve"))
	for _, p := range []page{customer, desk} {
		p.shows("log", "→ paid A1")
		p.shows("log", "It says: paid A1")
		p.shows("said", "It says: paid A1")
		p.WaitFor("no question", `!document.querySelector(".ask")`)
		p.clean()
	}
	if s.refund.Load() != 1 {
		t.Errorf("%d refunds", s.refund.Load())
	}
}

// The note of who refuses goes to the model.
func testRefuse(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	desk := s.page(t, b, "ann")
	desk.say("refund A1")
	desk.Click(id("note"))
	desk.Type("not before Monday")
	desk.Click(id("refuse"))
	desk.shows("log", "→ not executed: refused. not before Monday")
	desk.WaitFor("a call that has failed", `document.querySelector(".call.failed")`)
	desk.clean()
	if s.refund.Load() != 0 {
		t.Errorf("%d refunds", s.refund.Load())
	}
}

// A tool of the caller's side has the result that a person types.
func testClientTool(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	desk := s.page(t, b, "ann")
	for _, button := range []string{"result", "could-not"} {
		desk.say("photo A1")
		desk.shows("ask", "Do this for shop: photo")
		desk.Click(id("note"))
		desk.Type("a wet parcel, " + button)
		desk.Click(id(button))
		desk.shows("log", "It says: a wet parcel, "+button)
		desk.WaitFor("no question", `!document.querySelector(".ask")`)
	}
	desk.WaitFor("one call that has failed", `document.querySelectorAll(".call.failed").length === 1`)
	desk.clean()
}

// A tool that asks something gets what a person types, or that they decline.
func testQuestion(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	desk := s.page(t, b, "ann")
	for button, want := range map[string]string{"result": "It says: seat 12A", "could-not": "It says: no seat: 12A"} {
		desk.say("seat A1")
		desk.shows("ask", "seat of shop asks")
		desk.shows("ask", "Which seat?")
		desk.Click(id("note"))
		desk.Type("12A")
		desk.Click(id(button))
		desk.shows("log", want)
		desk.WaitFor("no question", `!document.querySelector(".ask")`)
	}
	desk.clean()
}

// The second answer is refused, in words.
func testTwoDesks(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	ann, bob := s.page(t, b, "ann"), s.page(t, b, "bob")
	ann.say("refund A1")
	bob.shows("ask", "refund")
	// Bob's page does not learn what Ann does.
	bob.Eval(`(() => { const real = fetch; window.fetch = (url, o) =>
		o?.method === "POST" ? real(url, o) : new Promise(() => {}) })()`, nil)
	ann.Click(id("approve"))
	ann.shows("log", "It says: paid A1")
	bob.Click(id("refuse"))
	bob.shows("notice", "Another answer was first.")
	if s.refund.Load() != 1 {
		t.Errorf("%d refunds", s.refund.Load())
	}
}

// Ann approves in one tab, and refuses in the other one at the same moment. One answer counts, and the other tab says
// so without alarm. All who look on learn who has answered.
func testTwoTabs(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	ann, bob := s.page(t, b, "ann"), s.page(t, b, "bob")
	ann.say("refund A1")
	tabs := []page{ann, ann.beside()}
	bob.shows("ask", "refund")
	for i, button := range []string{"approve", "refuse"} {
		tabs[i].shows("ask", "refund")
		tabs[i].hold(`/^POST/`)
		tabs[i].Click(id(button))
	}
	for _, tab := range tabs {
		tab.Eval("release()", nil)
	}
	bob.shows("answered", "ann has answered: refund.")
	bob.clean()
	var lost, paid int
	for _, tab := range tabs {
		tab.WaitFor("the result", `/→ (paid|not executed)/.test(log.innerText) && !document.querySelector(".ask")`)
		var shows struct{ Lost, Paid bool }
		tab.Eval(`({Lost: notice.innerText !== "", Paid: /→ paid/.test(log.innerText)})`, &shows)
		if shows.Lost {
			lost++
			tab.shows("notice", "Another answer was first.")
			tab.shows("answered", "ann has answered: refund.")
			tab.WaitFor("no alarm", `!document.querySelector(".bad, dialog")`)
		}
		if shows.Paid {
			paid++
		}
		tab.clean("/questions/", "status 409")
		if !shows.Lost {
			tab.WaitFor("no word of its own answer", `!document.querySelector("[data-testid=answered]")`)
		}
	}
	if lost != 1 || paid != 2*int(s.refund.Load()) {
		t.Errorf("%d tabs have lost, %d show the payment, and %d were paid", lost, paid, s.refund.Load())
	}
	tabs[0].Reload()
	tabs[0].shows("log", "It says: ")
	tabs[0].WaitFor("nothing to answer", `!document.querySelector(".ask")`)
}

// ran waits until client tools have run so many times.
func (p page) ran(times int) {
	p.t.Helper()
	p.WaitFor(fmt.Sprint(times, " runs of client tools"), fmt.Sprintf(`Number(localStorage.ran) === %d`, times))
}

// The page of a customer runs client tools that its program has given, and nothing else waits for the customer.
func testServe(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "eve")
	p.say("where A1")
	p.shows("log", `It says: {"number":"A1","at":"Paris"}`)
	p.say("denied A1")
	p.shows("log", "It says: the user said no")
	p.WaitFor("one call that has failed", `document.querySelectorAll(".call.failed").length === 1`)
	p.say("slow_photo A1")
	p.shows("ask", "This page does it.")
	p.clean()
	p.TabTo(id("could-not"))
	p.Key("Enter")
	p.WaitFor("another call that has failed", `document.querySelectorAll(".call.failed").length === 2`)
	p.say("photo A1")
	p.shows("ask", "Do this for shop: photo") // the page has no such tool
	p.Click(id("note"))
	p.Type("a wet parcel")
	p.Click(id("result"))
	p.shows("log", "It says: a wet parcel")
	p.say("refund A1")
	p.shows("doing", "A call waits: somebody else has to answer.")
	p.ran(3)
	p.clean()
}

// A page that is loaded again runs a tool again that had not come to its end. A result that was not sent yet is sent,
// and the tool does not run again, nor does it once the answer was taken.
func testServeReload(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "eve")
	p.say("slow_photo A1")
	p.ran(1)
	p.Reload()
	p.ran(2)
	p.hold(`/^POST .*questions/`)
	p.Eval(`finish("a wet parcel")`, nil)
	p.WaitFor("the result to be kept", `Object.values(sessionStorage).some((v) => v.includes("a wet parcel"))`)
	p.Reload()
	p.shows("log", "It says: a wet parcel")
	p.WaitFor("nothing to be kept", `sessionStorage.length === 0`)
	p.ran(2)

	p.say("slow_photo A2")
	p.ran(3)
	p.Eval(`finish("slow")`, nil)
	p.shows("log", "→ slow") // the turn of the answer is in flight, and the question is still asked
	p.Eval(`sessionStorage.clear()`, nil)
	p.Reload()
	p.shows("log", "→ slow")
	p.WaitFor("nothing to be kept", `sessionStorage.length === 0`)
	s.gate <- struct{}{}
	p.shows("log", "It says: slow")
	p.Reload()
	p.say("say more")
	p.shows("log", "more")
	p.ran(3)
	p.WaitFor("no question", `!document.querySelector(".ask")`)
	p.clean()
}

// Two tabs run the tool. The first answer counts, and the other tab shows it.
func testServeTwice(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "eve")
	p.say("slow_photo A1")
	p.ran(1)
	other := p.beside()
	p.ran(2)
	p.Eval(`finish("first")`, nil)
	for _, tab := range []page{p, other} {
		tab.shows("log", "It says: first")
	}
	other.Eval(`finish("second")`, nil)
	other.WaitFor("the late result to be sent", `sessionStorage.length === 0`)
	for _, tab := range []page{p, other} {
		tab.WaitFor("no question and no word of it", `!document.querySelector(".ask") && notice.innerText === ""`)
		tab.clean("status 409")
		if shown := tab.Text(id("log")); strings.Contains(shown, "second") {
			t.Errorf("it shows %q", shown)
		}
	}
}

// A page that is loaded again in the middle of a turn goes on with it.
func testReload(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "")
	other := s.page(t, b, "bob") // who only looks on
	p.say("slow")
	p.shows("log", "one ")
	p.Reload()
	p.shows("log", "slow")
	p.shows("log", "one ")
	other.shows("log", "one ")
	s.gate <- struct{}{}
	for _, each := range []page{p, other} {
		each.shows("log", "one two")
		each.WaitFor("each message once", `log.querySelectorAll("li").length === 2`)
		each.clean()
	}
	if s.asked.Load() != 1 {
		t.Errorf("the model was asked %d times", s.asked.Load())
	}
}

// A turn that is stopped keeps what was said.
func testStop(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "")
	p.say("slow")
	p.shows("log", "one ")
	other := s.page(t, b, "bob")
	other.shows("log", "one ")
	p.Click(id("stop"))
	for _, each := range []page{p, other} {
		each.shows("notice", "Stopped.")
		each.shows("log", "one")
	}
	p.Reload()
	p.shows("notice", "Stopped.")
	p.clean()
	p.say("say more")
	p.shows("log", "more")
	p.WaitFor("no word of the turn before", `notice.innerText === ""`)
}

// A stop that comes when the turn has ended stops nothing, and says so.
func testLateStop(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "")
	p.say("slow")
	p.shows("log", "one ")
	p.hold(`/stop$/`)
	p.Click(id("stop"))
	s.gate <- struct{}{}
	p.shows("log", "one two")
	p.WaitFor("the button to be gone", `document.querySelector("#stop").hidden && document.activeElement === input`)
	p.Eval("release()", nil)
	p.shows("notice", "The turn was over already.")
	p.say("say more")
	p.shows("log", "more")
	p.Reload()
	p.WaitFor("the whole conversation", `log.children.length === 4 && notice.innerText === ""`)
	p.clean()
}

// A branch has what was said up to there, and nothing waits in it. It goes its own way.
func testBranch(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p, bob := s.page(t, b, "ann"), s.page(t, b, "bob")
	for _, words := range []string{"say one", "say two"} {
		p.say(words)
	}
	p.say("refund A1")
	p.shows("ask", "refund")
	here := `session.innerText === "s" && log.querySelectorAll(".again").length === 3`
	p.WaitFor("a button for each turn", here)
	p.clean()
	p.TabTo(id("branch")) // of the first turn
	p.Key("Enter")
	p.WaitFor("another session with the first turn", `session.innerText.length > 10 && log.children.length === 2`)
	p.say("say other")
	p.shows("log", "other")
	p.WaitFor("a button for each turn", `log.querySelectorAll(".again").length === 2`)
	p.Click(".again") // a branch of the branch
	p.WaitFor("a third session with the first turn", `session.innerText.length > 10 && log.children.length === 2`)
	p.shows("log", "one")
	p.Eval(`history.go(-2)`, nil)
	p.WaitFor("the first session, as it was", here)
	p.shows("ask", "refund")
	p.Click("li:last-child > .again")
	p.WaitFor("another session", `session.innerText.length > 10 && log.children.length > 0`)
	p.shows("log", "→ not executed")
	p.WaitFor("nothing to answer", `!document.querySelector(".ask")`)
	p.clean()
	if s.refund.Load() != 0 {
		t.Errorf("%d refunds", s.refund.Load())
	}
	bob.Click(".again")
	bob.shows("notice", "You may not do this.")
	bob.WaitFor("no more buttons", `!document.querySelector(".again")`)
}

// A message may be sent while a turn is in flight, also over a reload. What becomes of it is the agent's matter.
func testSteer(t *testing.T, b *browser.Browser) {
	for how, replies := range map[agent.Steering]int64{agent.IntoTurn: 2, agent.Queue: 3} {
		s := open(t, agent.InMemory(), how)
		p := s.page(t, b, "")
		p.say("wait A1")
		p.shows("log", "wait runs")
		p.steer("say more")
		p.WaitFor("the message at the end", `log.lastChild.dataset.testid === "doing" &&
			log.lastChild.previousSibling === log.querySelectorAll(".user")[1]`)
		p.clean()
		p.Reload()
		p.shows("log", "wait runs")
		p.shows("log", "say more")
		s.gate <- struct{}{}
		p.shows("log", "→ A1 has come")
		p.shows("said", "more")
		p.WaitFor("each message once",
			`log.querySelectorAll(".user").length === 2 && !document.querySelector('[data-key^="p "]')`)
		p.clean()
		if got := s.asked.Load(); got != replies {
			t.Errorf("%q: the model was asked %d times, want %d", how, got, replies)
		}
	}
}

// Errors are told in words, and a message that was not taken can be sent again.
func testErrors(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "")
	p.say("fail")
	p.shows("notice", "could not answer")
	p.WaitFor("the message to be back", `input.value === "fail"`)
	p.Eval(`input.value = ""`, nil)
	p.say("photo A1")
	p.shows("doing", "A call waits")
	p.say("say hi")
	p.shows("notice", "calls wait for an answer")
	p.clean("status 502", "status 422")
}

// A long conversation is shown from its end.
func testEarlier(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "")
	p.say("say 0")
	p.shows("log", "0")
	p.Eval(`(async () => {
		for (let i = 1; i < 60; i++) {
			await fetch("/sessions/s/turns", {method: "POST", body: JSON.stringify({message: "say " + i}),
				headers: {"Content-Type": "application/json", "Idempotency-Key": "k" + i}});
		}
	})()`, nil)
	p.Reload()
	p.WaitFor("the newest", `log.querySelectorAll("li").length === 50`)
	p.Click(id("earlier"))
	p.WaitFor("more", `log.querySelectorAll("li").length === 100`)
	p.Click(id("earlier"))
	p.WaitFor("all", `log.querySelectorAll("li").length === 120 && earlier.hidden`)
	p.say("say last")
	p.WaitFor("all and two more", `log.querySelectorAll("li").length === 122`)
	p.clean()
}

// Everything works with the keyboard.
func testKeyboard(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "ann")
	p.TabTo("#skip")
	p.Key("Enter")
	p.WaitFor("the message to have the focus", `document.activeElement === input`)
	p.Type("refund A1")
	p.Key("Enter")
	p.WaitFor("the question", `document.querySelector(".ask")`)
	p.TabTo(id("note"))
	p.Type("no")
	p.TabTo(id("refuse"))
	p.Key("Space")
	p.shows("log", "refused. no")
	p.WaitFor("the message to have the focus", `document.activeElement === input`)
	p.Type("slow")
	p.Key("Enter")
	p.WaitFor("a turn to stop", `!document.querySelector("#stop").hidden`)
	p.TabTo(id("stop"))
	p.Key("Enter")
	p.shows("notice", "Stopped.")
	p.clean()
}

// Without a stream store the page shows the turn that it has begun, and finds it after a reload.
func testNoStream(t *testing.T, b *browser.Browser) {
	stores := agent.InMemory()
	stores.Stream = nil
	s := open(t, stores)
	p := s.page(t, b, "")
	p.say("slow")
	p.shows("log", "one ")
	p.Reload()
	p.shows("log", "slow")
	s.gate <- struct{}{}
	p.shows("log", "one two")
	p.clean("/events: status 404")
}

// The desk says what became of a call whose outcome nobody knows, and the turn goes on.
func testDoubt(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	for button, want := range map[string]string{"landed": "→ receipt 7", "skip": "→ not executed: a person"} {
		desk := s.page(t, b, "ann")
		desk.say("charge " + button)
		desk.shows("notice", "A person has to answer")
		desk.shows("doubt", "Did this happen: charge?")
		desk.clean("/turns: status 202")
		desk.Click(id("value"))
		desk.Type("receipt 7")
		desk.Click(id(button))
		desk.shows("log", want)
		desk.WaitFor("no doubt", `!document.querySelector(".ask")`)
		desk.Close()
	}
}

// A new conversation has a session of its own, and the address leads back.
func testNew(t *testing.T, b *browser.Browser) {
	s := open(t, agent.InMemory())
	p := s.page(t, b, "")
	p.say("say hi")
	p.shows("log", "hi")
	p.Click(id("new"))
	p.WaitFor("another session", `session.innerText.length > 10 && log.children.length === 0`)
	p.Eval(`history.back()`, nil)
	p.WaitFor("the first session", `session.innerText === "s" && log.children.length === 2`)
}
