package workflowhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

// Customers start refunds and see their own, and the desk does the rest. Health is open beside the handler.
func ExampleNew() {
	runs := new(workflow.Memory) // or postgres.New(pool, nil).Workflows(), or engine.Front()
	mux := http.NewServeMux()
	mux.Handle("/v1/", workflowhttp.New(runs, &workflowhttp.Options{
		Authorize: func(r *http.Request, action workflowhttp.Action, to workflowhttp.Target) error {
			who, _, ok := r.BasicAuth() // or a token, or a cookie
			switch {
			case !ok:
				return errors.New("not signed in") // 401
			case who == "desk":
				return nil
			case to.Workflow == "refund" && action == workflowhttp.ActionStart:
				return nil
			}
			return workflowhttp.ErrDenied // 403; a later version may have more actions
		},
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })

	ask := func(who, method, path, body string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if who != "" {
			r.SetBasicAuth(who, "…")
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(method, w.Code)
	}
	ask("", "GET", "/healthz", "")
	ask("", "POST", "/v1/workflows/refund/runs", `{"input": {"order": "A-1042"}}`)
	ask("ann", "POST", "/v1/workflows/refund/runs", `{"input": {"order": "A-1042"}, "idempotencyKey": "A-1042"}`)
	ask("ann", "POST", "/v1/workflows/refund/runs", `{"input": {"order": "A-1042"}, "idempotencyKey": "A-1042"}`)
	ask("ann", "GET", "/v1/workflows/refund/runs", "")
	ask("desk", "GET", "/v1/workflows/refund/runs", "")
	// Output:
	// GET 200
	// POST 401
	// POST 201
	// POST 200
	// GET 403
	// GET 200
}

// An internal service behind a proxy, which has looked at the header. What is not under the prefix stays open.
func ExampleHeaderPresent() {
	runs := new(workflow.Memory)
	mux := http.NewServeMux()
	mux.Handle("/v1/", workflowhttp.New(runs, &workflowhttp.Options{Authorize: workflowhttp.HeaderPresent}))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "# …") })
	for _, path := range []string{"/metrics", "/v1/workflows"} {
		r := httptest.NewRequest("GET", path, http.NoBody)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		r.Header.Set("Authorization", "Bearer …")
		with := httptest.NewRecorder()
		mux.ServeHTTP(with, r)
		fmt.Println(path, w.Code, with.Code)
	}
	// Output:
	// /metrics 200 200
	// /v1/workflows 403 200
}

// A message that is published starts a run of each workflow that has subscribed to its topic.
func ExampleOptions_subscriptions() {
	runs := new(workflow.Memory)
	h := workflowhttp.New(runs, &workflowhttp.Options{
		Authorize:     workflowhttp.HeaderPresent,
		Subscriptions: runs,
	})
	post := func(path, key, body string) {
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer …")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Count(w.Body.String(), `"new":true`))
	}
	post("/v1/topics/user.*/subscriptions", "s", `{"type": "workflow", "name": "onboard-user"}`)
	post("/v1/topics/user.signup/messages", "message-1", `{"email": "a@b.c"}`)
	post("/v1/topics/user.signup/messages", "message-1", `{"email": "a@b.c"}`)
	// Output:
	// 201 0
	// 200 1
	// 200 0
}
