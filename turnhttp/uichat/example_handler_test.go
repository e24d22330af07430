package uichat_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// A page with useChat talks to an agent. docs/http.md has the page.
func ExampleHandler() {
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "chat", Model: scripted.New(scripted.On("", scripted.Say("Good day."))),
	}, agent.InMemory(), nil)
	if err != nil {
		log.Fatal(err)
	}
	may := turnhttp.Allow("you", turnhttp.ActionTurn, turnhttp.ActionFollow)
	chat := uichat.Handler(a.Bot(), a.Options(turnhttp.Options[agent.State[struct{}]]{Authorize: may}), nil)
	http.Handle("/api/chat", chat)
	http.Handle("/api/chat/", chat)

	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/api/chat", strings.NewReader(`{
		"id": "s-1", "trigger": "submit-message",
		"messages": [{"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}]}`))
	r.Header.Set("Content-Type", "application/json")
	http.DefaultServeMux.ServeHTTP(w, r)
	for line := range strings.Lines(w.Body.String()) {
		if _, delta, ok := strings.Cut(line, `"delta":`); ok {
			fmt.Print(delta)
		}
	}
	// Output:
	// "Good "}
	// "day."}
}
