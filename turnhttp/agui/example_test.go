package agui_test

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
	"github.com/holdfast-go/holdfast/turnhttp/agui"
)

// An HttpAgent of AG-UI talks to a bot. It sends the same run again, which runs nothing twice.
func ExampleHandler() {
	type State struct{ Count int }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "echo",
		Intents: orchestrator.Intents[State]{"say": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Count++
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	h := agui.Handler(bot, turnhttp.Options[State]{
		Authorize: turnhttp.Anyone,
		Reply: func(res *orchestrator.Result[State]) any {
			return fmt.Sprintf("message %d", res.State.Count)
		},
	}, nil)

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/agent", strings.NewReader(
			`{"threadId": "s-1", "runId": "r-1", "messages": [{"id": "m-1", "role": "user", "content": "hello"}]}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		for line := range strings.Lines(w.Body.String()) {
			if _, delta, ok := strings.Cut(line, `"delta":`); ok {
				fmt.Println(strings.SplitN(delta, ",", 2)[0])
			}
		}
	}
	// Output:
	// "message 1"
	// "message 1"
}
