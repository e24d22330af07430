package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
)

// A fork begins with the conversation of the session that it comes from. A deleted session is gone with its
// conversation. The phases of the turn log are shown.
func TestSessions(t *testing.T) {
	everywhere(t, func(t *testing.T, c stores.Config, pays refundtest.Provider) {
		client := service(t, c, pays).client()
		client.say(t, "ada", "1", "Where is my order A-1013?")
		client.say(t, "ada", "2", "No, leave it")

		const fork = "/sessions/ada/branch"
		client.must(t, http.StatusCreated, http.MethodPost, fork, "", map[string]any{"turn": 0, "session": "eve"}, nil)
		client.must(t, http.StatusNotFound, http.MethodPost, fork, "", map[string]any{"turn": 7, "session": "eva"}, nil)
		client.must(t, http.StatusBadRequest, http.MethodPost, fork, "", "eva", nil)
		if said := client.say(t, "eve", "1", "Yes please"); said.Turn != 1 ||
			!strings.Contains(said.Reply.Text, "A-1013 is paid") {
			t.Errorf("the fork says %+v", said)
		}
		if said := client.say(t, "ada", "3", "Yes please"); strings.Contains(said.Reply.Text, "paid") {
			t.Errorf("the session says %+v", said)
		}
		pays.WantPaid(t, "A-1013")

		var log struct{ Phases []phaseDoc }
		client.must(t, http.StatusOK, http.MethodGet, "/app/sessions/eve/phases", "", nil, &log)
		var phases []string
		for _, p := range log.Phases {
			phases = append(phases, p.Phase)
		}
		want := "started llm-complete tool-received tool-received llm-complete tool-dispatched tool-received " +
			"llm-complete settled"
		if got := strings.Join(phases, " "); got != want {
			t.Errorf("phases %s, want %s", got, want)
		}

		client.say(t, "eve", "2", "I want a refund for A-1042")
		client.must(t, http.StatusNoContent, http.MethodDelete, "/sessions/eve", "", nil, nil)
		if path, _ := client.question(t, "eve"); path != "" {
			t.Errorf("%s is still asked", path)
		}
		if now, err := client.standing(t.Context(), "eve"); err != nil || now.Turn != -1 {
			t.Errorf("%+v, %v", now, err)
		}
		if said := client.say(t, "eve", "4", "Yes please"); said.Turn != 0 ||
			strings.Contains(said.Reply.Text, "paid") {
			t.Errorf("the new session says %+v", said)
		}
	})
}

// The concierge is a bot in front of the bot.
func TestConciergeRoutes(t *testing.T) {
	everywhere(t, func(t *testing.T, c stores.Config, pays refundtest.Provider) {
		client := service(t, c, pays).client()
		for i, turn := range [][2]string{
			{"Where is my order A-1013?", "Shall I?"}, {"Yes please", "is paid"}, {"Hello", "Hello"},
		} {
			var said conciergeTurn
			client.must(t, http.StatusOK, http.MethodPost, "/concierge/sessions/ada/turns", turn[0],
				map[string]string{"message": turn[0]}, &said)
			if said.Turn != i || !strings.Contains(said.Reply.Text, turn[1]) {
				t.Errorf("to %q: %+v, want %q", turn[0], said, turn[1])
			}
		}
		pays.WantPaid(t, "A-1013")
	})
}

type conciergeTurn struct {
	Turn  int
	Reply struct{ Text string }
}

// In doubt: the customer is told that a person has to look, and the person answers.
func TestDoubtOverHTTP(t *testing.T) {
	everywhere(t, func(t *testing.T, c stores.Config, pays refundtest.Provider) {
		client := service(t, c, pays).client()
		pays.SetMode("fail")
		var problem struct {
			Title   string
			Effects []string
		}
		client.must(t, http.StatusAccepted, http.MethodPost, "/sessions/ada/turns", "1",
			map[string]string{"message": "I want a refund for A-1007"}, &problem)
		var all struct {
			Effects []struct{ ID, State, Key string }
		}
		client.must(t, http.StatusOK, http.MethodGet, "/sessions/ada/effects", "", nil, &all)
		if len(all.Effects) != 1 || len(problem.Effects) != 1 || all.Effects[0].ID != problem.Effects[0] ||
			all.Effects[0].Key != "A-1007" || all.Effects[0].State != "unknown" {
			t.Fatalf("%+v, %+v", problem, all)
		}
		pays.SetMode("ok")
		path := "/sessions/ada/effects/" + problem.Effects[0]
		client.must(t, http.StatusOK, http.MethodPost, path, "", map[string]any{"outcome": "not-landed"}, nil)
		client.must(t, http.StatusConflict, http.MethodPost, path, "", map[string]any{"outcome": "skip"}, nil)
		said, err := client.insist(t.Context(), "ada", "1", "I want a refund for A-1007")
		if err != nil || said.Reply.Receipt == "" {
			t.Errorf("%+v, %v", said, err)
		}
		pays.WantPaid(t, "A-1007")
	})
}
