package uichat_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// A page with useChat of the AI SDK talks to a bot.
func Example() {
	type State struct{ Reply string }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "echo",
		Intents: orchestrator.Intents[State]{"say": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Reply = "You said: " + t.Input.Text
			t.Emit("You said: ")
			t.Emit(t.Input.Text)
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	reply := func(res *orchestrator.Result[State]) turnhttp.Reply {
		return turnhttp.Reply{Text: res.State.Reply}
	}
	chat := func(w http.ResponseWriter, r *http.Request) {
		in := orchestrator.Input{Text: r.FormValue("text")} // a page sends JSON: see docs/http.md
		turn := bot.Stream(context.WithoutCancel(r.Context()), "s-1", in, nil)
		if err := uichat.Write(w, r, turnhttp.ShowTurn("s-1", turn, reply)); err != nil {
			log.Print(turnhttp.Status(err))
		}
	}

	w := httptest.NewRecorder()
	chat(w, httptest.NewRequest(http.MethodPost, "/chat?text=hello", http.NoBody))
	for line := range strings.Lines(w.Body.String()) {
		if _, delta, ok := strings.Cut(line, `"delta":`); ok {
			fmt.Print(delta)
		}
	}
	// Output:
	// "You said: "}
	// "hello"}
}
