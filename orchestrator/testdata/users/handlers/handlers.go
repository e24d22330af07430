// Package handlers serves a bot over HTTP: turns, streams of events, resumes, and the kept turns.
package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast/orchestrator"
)

type State struct {
	Reply  string
	Secret string
}

type server struct {
	bot *orchestrator.Orchestrator[State]
}

func (s *server) execute(w http.ResponseWriter, r *http.Request) {
	in := orchestrator.Input{RequestID: r.Header.Get("Idempotency-Key")}
	if err := json.NewDecoder(r.Body).Decode(&struct{ Text *string }{&in.Text}); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	res, err := s.bot.Execute(r.Context(), r.PathValue("id"), in, nil)
	if err != nil {
		fail(w, err)
		return
	}
	fmt.Fprintln(w, res.State.Reply)
}

func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	st := s.bot.Stream(r.Context(), r.PathValue("id"), orchestrator.Input{Text: r.FormValue("text")}, nil)
	for ev := range st.Events() {
		data, _ := json.Marshal(ev)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", ev.Kind, data)
		rc.Flush()
	}
	res, err := st.Result()
	if err != nil {
		p := orchestrator.Public(err)
		fmt.Fprintf(w, "event: error\ndata: %d %s\n\n", p.Status, p.Text)
		return
	}
	fmt.Fprintf(w, "event: reply\ndata: %q\n\n", res.State.Reply)
}

func (s *server) resume(w http.ResponseWriter, r *http.Request) {
	res, err := s.bot.Resume(r.Context(), r.PathValue("id"), &orchestrator.CallOptions{
		OnEvent: func(ev orchestrator.Event) { fmt.Fprint(w, ev.Delta) },
	})
	switch {
	case errors.Is(err, orchestrator.ErrNothingToResume):
		w.WriteHeader(http.StatusNoContent)
	case err != nil:
		fail(w, err)
	default:
		fmt.Fprintln(w, res.State.Reply)
	}
}

func (s *server) show(w http.ResponseWriter, r *http.Request) {
	for res, err := range s.bot.Turns(r.Context(), r.PathValue("id")) {
		if err != nil {
			fail(w, err)
			return
		}
		fmt.Fprintln(w, res.Turn, res.Input.Text, res.State.Reply)
	}
}

// fail tells a client how a call has ended. The text of err stays inside.
func fail(w http.ResponseWriter, err error) {
	p := orchestrator.Public(err)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(p.RetryAfter.Seconds())))
	}
	http.Error(w, p.Text, p.Status)
}

var _ = []any{(*server).execute, (*server).stream, (*server).resume, (*server).show}
