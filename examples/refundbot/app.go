package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/page"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/setting"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnlog"
)

// An app has the routes of the program beside those of its bots.
type app struct {
	stores   *setting.Stores
	payments *provider.Client
	model    string
	version  int // of the bot
	people   *signer
}

// A forker starts a session from a turn of another.
type forker interface {
	Fork(ctx context.Context, from string, turn int, to string) error
}

// handler returns all routes. Pages of other origins may not send requests that change something.
func (a *app) handler(bots forker, sessions, concierge http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/sessions/", sessions)
	mux.Handle("GET /openapi.json", sessions)
	mux.HandleFunc("DELETE /sessions/{id}", a.forget(sessions))
	mux.Handle("/concierge/", http.StripPrefix("/concierge", concierge))
	mux.HandleFunc("GET /app/config", a.config)
	mux.HandleFunc("GET /app/payments", payments(a.payments, a.people))
	mux.HandleFunc("GET /app/sessions/{id}/phases", a.phases)
	mux.HandleFunc("POST /app/sessions/{id}/fork", a.fork(bots))
	a.people.routes(mux)
	mux.Handle("/", page.Handler())
	return http.NewCrossOriginProtection().Handler(mux)
}

// message reads the input of a turn. It takes no data: an approval comes from a question only.
func message(r *http.Request) (in orchestrator.Input, err error) {
	var body struct {
		Message string `json:"message"`
	}
	err = turnhttp.ReadJSON(r, &body)
	return orchestrator.Input{Text: body.Message}, err
}

// A configDoc says what the program is.
type configDoc struct {
	Demo    bool        `json:"demo"`
	Stores  string      `json:"stores"`
	Model   string      `json:"model"`
	Workers []workerDoc `json:"workers"`
}

type workerDoc struct {
	Name  string `json:"name"`
	PID   int    `json:"pid"`
	State string `json:"state"`
	// Owner begins the id of the process as an owner of sessions.
	Owner string `json:"owner"`
	Bot   int    `json:"bot"` // version
}

// ownerOf returns how the ids of a process begin.
func ownerOf(pid int) string {
	host, _ := os.Hostname() // without a name it is "" on both sides
	return fmt.Sprintf("%.64s/%d/", strings.ToValidUTF8(host, "?"), pid)
}

func (a *app) config(w http.ResponseWriter, _ *http.Request) {
	me := workerDoc{"this process", os.Getpid(), "running", ownerOf(os.Getpid()), a.version}
	answer(w, http.StatusOK, configDoc{Stores: a.stores.Setting(), Model: a.model, Workers: []workerDoc{me}})
}

// payments lists what the provider has paid. A customer learns how much it is, and nothing of others.
func payments(p *provider.Client, people *signer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := people.who(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		all, err := p.Payments(r.Context())
		if err != nil {
			http.Error(w, "the payment provider does not answer", http.StatusBadGateway)
			return
		}
		doc := map[string]any{"count": len(all)}
		if who.Role == roleDesk {
			doc["payments"] = all
		}
		answer(w, http.StatusOK, doc)
	}
}

// shownRuns is how many runs of a session the page shows the phases of.
const shownRuns = 10

type phaseDoc struct {
	Run   string    `json:"run"`
	Turn  int       `json:"turn"`
	Phase string    `json:"phase"`
	At    time.Time `json:"at"`
}

// phases says which phases the newest turns have passed.
func (a *app) phases(w http.ResponseWriter, r *http.Request) {
	if !a.people.may(w, r, r.PathValue("id"), turnhttp.ActionRead) {
		return
	}
	q := turnlog.Query{Orchestrator: bot.Name, Session: r.PathValue("id")}
	var runs []string
	for turn, err := range a.stores.TurnLog().Turns(r.Context(), q) {
		if err != nil {
			turnhttp.Problem(w, r, err)
			return
		}
		runs = append(runs, turn.First.Run)
	}
	all := []phaseDoc{}
	for _, run := range runs[max(0, len(runs)-shownRuns):] {
		entries, err := a.stores.TurnLog().Restore(r.Context(), run)
		if err != nil {
			turnhttp.Problem(w, r, err)
			return
		}
		for _, e := range entries {
			all = append(all, phaseDoc{e.Run, e.Turn, e.Phase, e.At})
		}
	}
	slices.SortStableFunc(all, func(a, b phaseDoc) int { return a.At.Compare(b.At) })
	answer(w, http.StatusOK, map[string]any{"phases": all})
}

// fork starts a session from a turn of another, with its conversation.
func (a *app) fork(bots forker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := r.PathValue("id")
		if !a.people.may(w, r, from, turnhttp.ActionBranch) {
			return
		}
		var to struct {
			Turn int    `json:"turn"`
			To   string `json:"to"`
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
		if err := turnhttp.ReadJSON(r, &to); err != nil {
			turnhttp.Problem(w, r, err)
			return
		}
		if !a.people.may(w, r, to.To, turnhttp.ActionBranch) {
			return
		}
		err := bots.Fork(r.Context(), from, to.Turn, to.To)
		if err == nil {
			err = a.stores.Messages().Fork(r.Context(), from, to.Turn, to.To)
		}
		if err != nil {
			turnhttp.Problem(w, r, err)
			return
		}
		answer(w, http.StatusCreated, map[string]string{"session": to.To})
	}
}

// forget deletes the conversation of a session, and then the session. If that fails, the client deletes once more.
func (a *app) forget(sessions http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !a.people.may(w, r, r.PathValue("id"), turnhttp.ActionDelete) {
			return
		}
		if err := a.stores.Messages().Delete(r.Context(), r.PathValue("id")); err != nil {
			turnhttp.Problem(w, r, err)
			return
		}
		sessions.ServeHTTP(w, r)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone asks again
}
