package chatpage_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/chatpage"
)

// A page for those who talk, and one for the desk, which also answers. Here the path says who asks. A real program
// looks who has signed in.
func Example() {
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "shop",
		Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
			return agent.Reply{Message: message.Assistant("Good morning.")}, nil
		}),
	}, agent.InMemory(), nil)
	if err != nil {
		log.Fatal(err)
	}
	as := func(who turnhttp.Actor, actions ...turnhttp.Action) http.Handler {
		may := turnhttp.Allow(who, actions...)
		return agent.Handler(a, turnhttp.Options[agent.State[struct{}]]{Authorize: may})
	}
	talk := []turnhttp.Action{turnhttp.ActionTurn, turnhttp.ActionFollow, turnhttp.ActionStop}
	desk := append(talk, turnhttp.ActionRead, turnhttp.ActionAnswer)

	mux := http.NewServeMux()
	mux.Handle("/sessions/", as("customer", talk...))
	mux.Handle("GET /{$}", chatpage.Handler(&chatpage.Options{Title: "Shop"}))
	mux.Handle("/desk/", http.StripPrefix("/desk", as("desk", desk...)))
	mux.Handle("GET /desk/{$}", chatpage.Handler(&chatpage.Options{Title: "Desk of the shop", API: "/desk"}))

	for _, path := range []string{"/", "/desk/", "/sessions/s/questions", "/desk/sessions/s/questions"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// / 200 text/html; charset=utf-8
	// /desk/ 200 text/html; charset=utf-8
	// /sessions/s/questions 403 application/problem+json
	// /desk/sessions/s/questions 200 application/json
}
