package agent_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A page tries another question after the first answer. What was said before is in both sessions, and what comes then
// in one of them.
func ExampleHandler_branch() {
	type none struct{}
	ctx := context.Background()
	a, err := agent.New(agent.Definition[none]{Name: "guide", Model: scripted.New(
		scripted.On("north", scripted.Say("It is cold.")), scripted.On("south", scripted.Say("It is warm.")),
		scripted.On("", scripted.Say("Where to?")),
	)}, agent.InMemory(), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"hello", "north"} {
		if _, err := a.Say(ctx, "trip", agent.Text(text), nil); err != nil {
			log.Fatal(err)
		}
	}
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{
		Authorize: turnhttp.Allow("ann", turnhttp.ActionBranch, turnhttp.ActionTurn),
	})
	for range 2 { // a repeat does nothing
		r := httptest.NewRequest("POST", "/sessions/trip/branch", strings.NewReader(`{"session": "trip-2", "turn": 0}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Location"))
	}
	o, err := a.Say(ctx, "trip-2", orchestrator.Input{RequestID: "1", Text: "south"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Session, o.Version, o.Text)
	// Output:
	// 201 ../trip-2
	// 201 ../trip-2
	// trip-2 2 It is warm.
}
