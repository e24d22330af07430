package turnhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A webhook does not wait for the turn. It is told where it may look for the reply. The watch runs the turn, here by
// one pass.
func ExampleHandler_later() {
	type State struct{ Text string }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "orders",
		Intents: orchestrator.Intents[State]{"note": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Text = "noted: " + t.Input.Text
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Inbox: new(inbox.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	h := turnhttp.Handler(bot, turnhttp.Options[State]{
		Authorize: turnhttp.Anyone,
		Reply:     func(res *orchestrator.Result[State]) any { return res.State.Text },
	})
	r := httptest.NewRequest("POST", "/sessions/s1/turns", strings.NewReader(`{"message": "order 7 is paid"}`))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": "event-1", "Prefer": "respond-async",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Preference-Applied"), w.Header().Get("Location"))
	look := func() {
		_, doc := send(h, http.MethodGet, "/sessions/s1/turns/event-1", "", "")
		var input struct {
			Status string
			Turn   struct{ Reply string }
		}
		if err := json.Unmarshal([]byte(doc), &input); err != nil {
			log.Fatal(err)
		}
		fmt.Println(strings.TrimSpace(input.Status + " " + input.Turn.Reply))
	}
	look()
	if _, err := bootdrain.DrainInterrupted(context.Background(), bot, nil); err != nil {
		log.Fatal(err)
	}
	look()
	// Output:
	// 202 respond-async turns/event-1
	// waiting
	// settled noted: order 7 is paid
}
