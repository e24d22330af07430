package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/page"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnlog"
)

// An app has the routes of the program beside those of its agents.
type app struct {
	stores   *stores.Stores
	payments *provider.Client
	model    string
	version  int // of the bot
	people   *signer
}

// handler returns all routes. Pages of other origins may not send requests that change something.
func (a *app) handler(desk *agent.Agent[struct{}], refunds, concierge, cases http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/sessions/", refunds)
	mux.Handle("GET /openapi.json", refunds)
	mux.Handle("/concierge/sessions/", http.StripPrefix("/concierge", concierge))
	mux.Handle("/desk/sessions/", http.StripPrefix("/desk", cases))
	mux.Handle("/mine/", a.people.mine(mux))
	mux.HandleFunc("DELETE /sessions/{id}", a.forget(desk, refunds))
	mux.HandleFunc("GET /app/config", a.config)
	mux.HandleFunc("GET /app/payments", payments(a.payments, a.people))
	mux.HandleFunc("GET /app/waiting", a.waiting(desk))
	mux.HandleFunc("GET /app/sessions/{id}/phases", a.phases)
	a.people.routes(mux)
	mux.Handle("/", a.people.welcome(page.Handler()))
	return http.NewCrossOriginProtection().Handler(mux)
}

// A caseDoc is a refund that waits for the desk.
type caseDoc struct {
	Case    string    `json:"case"` // the session of the desk
	Session string    `json:"session"`
	Order   string    `json:"order"`
	Cents   int       `json:"cents"`
	Until   time.Time `json:"until"`
}

// waiting lists what waits for the desk; with ?session= that of one session.
func (a *app) waiting(desk *agent.Agent[struct{}]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session := r.URL.Query().Get("session")
		if !a.people.may(w, r, session, turnhttp.ActionRead) {
			return
		}
		all := []caseDoc{}
		for o, err := range desk.Waiting(r.Context(), "") {
			if err != nil {
				turnhttp.Problem(w, r, err)
				return
			}
			in, doc := bot.Refund{}, caseDoc{Case: o.Session, Until: o.Pending[0].Until}
			if json.Unmarshal(o.Pending[0].Call.Args, &in) != nil {
				continue
			}
			doc.Session, doc.Order, doc.Cents = strings.TrimSuffix(o.Session, "/"+in.Order), in.Order, in.Cents
			if session == "" || session == doc.Session {
				all = append(all, doc)
			}
		}
		answer(w, http.StatusOK, map[string]any{"waiting": all})
	}
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
	Bot   int    `json:"bot"`   // version
	Turns bool   `json:"turns"` // requests go there
}

// ownerOf returns how the ids of a process begin.
func ownerOf(pid int) string {
	host, _ := os.Hostname() // without a name it is "" on both sides
	return fmt.Sprintf("%.64s/%d/", strings.ToValidUTF8(host, "?"), pid)
}

func (a *app) config(w http.ResponseWriter, _ *http.Request) {
	me := workerDoc{"this process", os.Getpid(), "running", ownerOf(os.Getpid()), a.version, true}
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
	for turn, err := range a.stores.TurnLog.(turnlog.Lister).Turns(r.Context(), q) {
		if err != nil {
			turnhttp.Problem(w, r, err)
			return
		}
		runs = append(runs, turn.First.Run)
	}
	all := []phaseDoc{}
	for _, run := range runs[max(0, len(runs)-shownRuns):] {
		entries, err := a.stores.TurnLog.Restore(r.Context(), run)
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

// forget takes back what a session has asked the desk, and deletes the session. If that fails, the client deletes once
// more.
func (a *app) forget(desk *agent.Agent[struct{}], sessions http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session := r.PathValue("id")
		if !a.people.may(w, r, session, turnhttp.ActionDelete) {
			return
		}
		for o, err := range desk.Waiting(r.Context(), bot.CaseOf(session, "")) {
			if err == nil && !strings.HasPrefix(o.Session, bot.CaseOf(session, "")) {
				break
			}
			if err == nil {
				err = desk.Delete(r.Context(), o.Session)
			}
			if err != nil {
				turnhttp.Problem(w, r, err)
				return
			}
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
